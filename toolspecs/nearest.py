"""What an error says about an unknown name: similar names, and the names that exist."""

from collections.abc import Callable, Iterable, Iterator
from difflib import SequenceMatcher
from heapq import nlargest
from typing import TypeVar

T = TypeVar("T")

DID_YOU_MEAN = "did you mean"
"""Is part of a message that names what was probably meant."""
MAX_LISTED = 24
MAX_NAME = 100
MAX_COUNTED = 2**14
"""The most characters of known names whose letters are counted: 4 ms."""
NUM_COMPARED = 16
MAX_COMPARED = 2**16
"""How many names with nearly the same letters are compared, and the most of the products of lengths: 7 ms."""


def unknown(kind: str, name: str, known: Iterable[str], near: Iterable[str] | None = None) -> str:
    """The message for an unknown name; `near` are the similar ones, if they have been looked for.

    >>> unknown("tool", "get", ["got", "post"])
    "no tool 'get'; did you mean 'got'? There are 'got', 'post'"
    """
    return f"no {kind} {shorten(name, MAX_NAME)!r}{instead(name, known, near)}"


def instead(name: str, known: Iterable[str], near: Iterable[str] | None = None) -> str:
    """The end of a message that `name` is unknown: `; did you mean 'x'? There are 'x', 'y'`."""
    known = tuple(known)
    likely = near_matches(name, known) if near is None else tuple(near)
    question = did_you_mean(likely)
    if len(likely) == len(known):
        return question
    if question:
        return f"{question} There are {quoted_names(known)}"
    return f"; there {'is only' if len(known) == 1 else 'are'} {quoted_names(known)}"


def did_you_mean(near: Iterable[str]) -> str:
    """The question at the end of a message; empty if `near` is."""
    names = " or ".join(repr(shorten(name, MAX_NAME)) for name in near)
    return f"; {DID_YOU_MEAN} {names}?" if names else ""


def quoted_names(names: Iterable[str]) -> str:
    """The first `MAX_LISTED` names, quoted, and the number of the others."""
    names = tuple(names)
    quoted = ", ".join(repr(shorten(name, MAX_NAME)) for name in names[:MAX_LISTED])
    return f"{quoted} and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else quoted


def near_matches(name: str, known: Iterable[str], maximum: int = 3, cutoff: float = 0.6) -> tuple[str, ...]:
    """Up to `maximum` of the `known` names that are similar to `name` (`difflib`'s ratio), the nearest first.

    Where there are very many, some similar ones may be missed.
    """
    longest = len(name) * (2 - cutoff) / cutoff  # of other lengths, none is similar
    names = [
        other for other in known if len(other) <= longest and len(name) * cutoff <= len(other) * (2 - cutoff)
    ]
    if not names:
        return ()  # before a name of megabytes is looked at
    names.sort(key=lambda other: (abs(len(other) - len(name)), other))
    matcher = SequenceMatcher(b=name)
    alike: list[tuple[float, str]] = []
    for other in within(MAX_COUNTED, names, len):
        matcher.set_seq1(other)
        if (upper_bound := matcher.quick_ratio()) >= cutoff:
            alike.append((upper_bound, other))
    alike.sort(reverse=True)
    similar: list[tuple[float, str]] = []
    for _, other in within(MAX_COMPARED, alike[:NUM_COMPARED], lambda pair: len(pair[1]) * len(name)):
        matcher.set_seq1(other)
        if (ratio := matcher.ratio()) >= cutoff:
            similar.append((ratio, other))
    return tuple(other for _, other in nlargest(maximum, similar))


def within(most: int, items: Iterable[T], size_of: Callable[[T], int]) -> Iterator[T]:
    """The first items, as long as their sizes are at most `most` together.

    >>> list(within(5, ["ab", "cde", "f"], len))
    ['ab', 'cde']
    """
    total = 0
    for item in items:
        total += size_of(item)
        if total > most:
            return
        yield item


def shorten(text: str, length: int) -> str:
    """`text`; if it is longer than `length` characters, it is cut and ends in an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"
