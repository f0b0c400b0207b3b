"""Shrinking: the smallest subject that still shows what was found."""

import time
from collections.abc import Callable, Iterator
from typing import Any


def shrink(subject: Any, still_shows: Callable[[Any], bool], *, seconds: float = 60.0) -> Any:
    """A subject of which no smaller neighbour still shows the finding, as far as the processor time reaches."""
    end = time.process_time() + seconds
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in smaller(subject):
            if time.process_time() > end:
                return subject
            if still_shows(candidate):
                subject, is_smaller = candidate, True
                break
    return subject


def smaller(value: Any) -> Iterator[Any]:
    """Neighbours of a JSON value that are smaller, the smallest first.

    >>> list(smaller({"a": [1]}))
    [[1], {}, {'a': 1}, {'a': []}, {'a': [0]}]
    """
    match value:
        case dict():
            yield from (part for part in value.values() if isinstance(part, dict | list))
            yield from ({k: v for k, v in value.items() if k != key} for key in value)
            yield from ({**value, key: part} for key in value for part in smaller(value[key]))
        case list():
            yield from value
            yield from (value[:at] + value[at + 1 :] for at in range(len(value)))
            yield from (
                [*value[:at], p, *value[at + 1 :]] for at in range(len(value)) for p in smaller(value[at])
            )
        case str() if value:
            half = len(value) // 2
            yield from dict.fromkeys((value[half:], value[:half])) if half else ()
            yield from dict.fromkeys(value[:at] + value[at + 1 :] for at in range(len(value)))
        case bool() | None | str():
            return
        case int() | float() if value:
            yield from dict.fromkeys((0, 1, int(value / 2)) if abs(value) > 1 else (0,))
