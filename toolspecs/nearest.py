"""What an error says about an unknown name: similar names, and the names that exist."""

from collections.abc import Iterable
from difflib import get_close_matches

MAX_LISTED = 24
MAX_NAME = 100
MAX_COMPARED = 2**19
"""The number of names times the square of the length of the one that is compared with them, about as the time
grows. Beyond, it would be more than some 50 ms, so nothing is suggested then."""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The message for an unknown name.

    >>> unknown("tool", "get", ["got", "post"])
    "no tool 'get'; did you mean 'got'? There are 'got', 'post'"
    """
    return f"no {kind} {shorten(name, MAX_NAME)!r}{instead(name, known)}"


def instead(name: str, known: Iterable[str]) -> str:
    """The end of a message that `name` is unknown: `; did you mean 'x'? There are 'x', 'y'`."""
    known = tuple(known)
    near = did_you_mean(likely := near_matches(name, known))
    if len(likely) == len(known):
        return near
    return f"{near} There are {quoted_names(known)}" if near else f"; there are {quoted_names(known)}"


def did_you_mean(near: Iterable[str]) -> str:
    """The question at the end of a message; empty if `near` is."""
    names = " or ".join(repr(shorten(name, MAX_NAME)) for name in near)
    return f"; did you mean {names}?" if names else ""


def quoted_names(names: Iterable[str]) -> str:
    """The first `MAX_LISTED` names, quoted, and the number of the others."""
    names = tuple(names)
    quoted = ", ".join(repr(shorten(name, MAX_NAME)) for name in names[:MAX_LISTED])
    return f"{quoted} and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else quoted


def near_matches(name: str, known: Iterable[str], maximum: int = 3, cutoff: float = 0.6) -> tuple[str, ...]:
    """Up to `maximum` of the `known` names that are similar to `name`, the nearest first."""
    names = sorted(known)
    if len(names) * len(name) ** 2 > MAX_COMPARED:
        return ()
    return tuple(get_close_matches(name, names, n=maximum, cutoff=cutoff))


def shorten(text: str, length: int) -> str:
    """`text`; if it is longer than `length` characters, it is cut and ends in an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"
