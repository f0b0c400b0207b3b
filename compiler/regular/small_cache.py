"""A cache for functions of sets of characters that remembers small sets only.

Grammars of strangers have sets of any size, in any number. A thousand sets of 30,000 characters would hold
15 GB for as long as the process lives.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

from compiler.regular.charset import Ranges

T = TypeVar("T")

MAX_RANGES = 64
"""Most sets of real schemas have fewer; those of Unicode's properties have hundreds."""


def cached_if_small(maxsize: int) -> Callable[[Callable[[Ranges], T]], Callable[[Ranges], T]]:
    """Cache `maxsize` results of a function for sets of at most `MAX_RANGES` ranges."""

    def decorate(function: Callable[[Ranges], T]) -> Callable[[Ranges], T]:
        cached: Any = lru_cache(maxsize)(function)

        @wraps(function)
        def call(ranges: Ranges) -> T:
            result: T = cached(ranges) if len(ranges) <= MAX_RANGES else function(ranges)
            return result

        return call

    return decorate
