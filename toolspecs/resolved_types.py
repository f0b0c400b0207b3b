"""Types that msgspec has resolved before several threads use them.

msgspec 0.22 looks up the fields of a struct or dataclass when it first decodes one. A thread that decodes the
same type meanwhile reads fields that are not there yet, and the process ends with a segmentation fault.
"""

import threading
from typing import TypeVar

import msgspec

T = TypeVar("T")

_resolved: set[object] = set()
_resolving = threading.Lock()


def resolved(shape: type[T]) -> type[T]:
    """The same type, after msgspec has looked up its fields and those of all types in it, in one thread."""
    if shape not in _resolved:
        with _resolving:
            msgspec.json.Decoder(shape)
            _resolved.add(shape)
    return shape
