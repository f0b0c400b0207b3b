"""What an error says of a name that nobody knows: the ones like it, and those there are."""

from collections.abc import Iterable
from difflib import get_close_matches

MAX_LISTED = 24
MAX_NAME = 100
MAX_COMPARED = 2048
"""Names that one is compared with; of more, none is called near, as that would take seconds."""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """`no {kind} 'name'`, with what `instead` says."""
    return f"no {kind} {shorten(name, MAX_NAME)!r}{instead(name, known)}"


def instead(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'? There are 'x', 'y'`: what goes behind the message that `name` is unknown."""
    known = tuple(known)
    near = did_you_mean(likely := near_matches(name, known))
    if len(likely) == len(known):
        return near
    return f"{near} There are {listed(known)}" if near else f"; there are {listed(known)}"


def did_you_mean(near: Iterable[str]) -> str:
    """The question behind a message, nothing where `near` is empty."""
    names = " or ".join(repr(shorten(name, MAX_NAME)) for name in near)
    return f"; did you mean {names}?" if names else ""


def listed(names: Iterable[str]) -> str:
    """Quoted names, the first `MAX_LISTED` of them."""
    names = tuple(names)
    shown = ", ".join(repr(shorten(name, MAX_NAME)) for name in names[:MAX_LISTED])
    return f"{shown} and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else shown


def near_matches(name: str, known: Iterable[str], maximum: int = 3, cutoff: float = 0.6) -> tuple[str, ...]:
    """Up to `maximum` of `known` that look like `name`, the nearest first."""
    names = sorted(known)
    if len(name) > 256 or len(names) > MAX_COMPARED:
        return ()
    return tuple(get_close_matches(name, names, n=maximum, cutoff=cutoff))


def shorten(text: str, length: int) -> str:
    """`text`, cut to `length` characters with an ellipsis where it is longer."""
    return text if len(text) <= length else text[: length - 1] + "…"
