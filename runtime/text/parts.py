"""The parts of an output: prose, thoughts and calls, as they settle."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class TextPart:
    """More prose."""

    text: str


@dataclass(frozen=True, slots=True)
class ThoughtPart:
    """More of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A call begins: its name is complete."""

    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsPart:
    """More of the call's arguments; the parts of one call concatenate to their JSON text."""

    text: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The call is complete."""


Part = TextPart | ThoughtPart | CallStart | ArgumentsPart | CallEnd


def joined(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts with neighbours of the same prose, or the same thought, as one."""
    pending: TextPart | ThoughtPart | None = None
    for part in parts:
        if pending is not None and type(pending) is type(part):
            pending = replace(pending, text=pending.text + part.text)
            continue
        if pending is not None:
            yield pending
        pending = part if isinstance(part, TextPart | ThoughtPart) else None
        if pending is None:
            yield part
    if pending is not None:
        yield pending
