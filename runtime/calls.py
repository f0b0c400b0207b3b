"""Reads an output's text, as it comes, into prose and tool calls.

The grammar guarantees the syntax, so this is a state machine over the fixed texts of a row, and a scanner
of JSON's strings and brackets for where arguments end. What does not follow the syntax after all is prose.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from compiler.syntaxes import Syntax


@dataclass(frozen=True, slots=True)
class TextPart:
    """More prose."""

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


Part = TextPart | CallStart | ArgumentsPart | CallEnd


class _State(Enum):
    PROSE = auto()
    HEADER = auto()
    NAME = auto()
    ARGUMENTS = auto()
    END = auto()
    BETWEEN = auto()


class CallParser:
    """Incremental: `feed` text, markers as they are spelled, and take the parts that it settles.

    Prose that may yet turn out to be a trigger, and a header until its name is whole, are held back.
    """

    def __init__(self, syntax: Syntax) -> None:
        self._syntax = syntax
        self._state = _State.PROSE
        self._held = ""
        self._header = ""
        self._scanner = _ObjectScanner()

    @property
    def is_open(self) -> bool:
        """Whether a call has started and not ended."""
        return self._state in {_State.ARGUMENTS, _State.END}

    def feed(self, text: str) -> list[Part]:
        """The parts that more text settles."""
        self._held += text
        parts: list[Part] = []
        while True:
            state, held = self._state, self._held
            part = self._advance()
            if part is not None:
                parts.append(part)
            if self._state is state and self._held == held:
                return _joined(parts)

    def finish(self) -> list[Part]:
        """At the end of the output: what was held back turns out to be prose; an open call stays open."""
        held = "" if self.is_open else self._rejected()
        self._held = self._header = ""
        return [TextPart(held)] if held else []

    def _advance(self) -> Part | None:
        match self._state:
            case _State.PROSE:
                return self._read_prose()
            case _State.HEADER:
                return self._read_header()
            case _State.NAME:
                return self._read_name()
            case _State.ARGUMENTS:
                return self._read_arguments()
            case _State.END:
                return self._read_end()
            case _State.BETWEEN:
                return self._read_between()

    def _read_prose(self) -> Part | None:
        at = self._held.find(self._syntax.trigger)
        if at >= 0:
            self._header = self._syntax.opening + self._syntax.begin
            self._state = _State.HEADER
        else:
            at = len(self._held) - _overlap(self._held, self._syntax.trigger)
        prose, self._held = self._held[:at], self._held[at:]
        return TextPart(prose) if prose else None

    def _read_header(self) -> Part | None:
        if self._held.startswith(self._header):
            self._held = self._held[len(self._header) :]
            self._state = _State.NAME
        elif not self._header.startswith(self._held):
            return self._reject()
        return None

    def _read_name(self) -> Part | None:
        """The name is the shortest text before `after_name` that is the inside of a JSON string."""
        end = self._held.find(self._syntax.after_name)
        while end >= 0:
            name = _unescaped(self._held[:end])
            if name is not None:
                self._held = self._held[end + len(self._syntax.after_name) :]
                self._state = _State.ARGUMENTS
                self._scanner = _ObjectScanner()
                return CallStart(name)
            end = self._held.find(self._syntax.after_name, end + 1)
        return None

    def _read_arguments(self) -> Part | None:
        if not self._held:
            return None
        end = self._scanner.scan(self._held)
        if end is not None:
            self._state = _State.END
        text, self._held = self._held[:end], "" if end is None else self._held[end:]
        return ArgumentsPart(text)

    def _read_end(self) -> Part | None:
        end = self._syntax.end
        if self._held.startswith(end):
            self._held = self._held[len(end) :]
        elif end.startswith(self._held):
            return None
        self._state = _State.BETWEEN
        return CallEnd()

    def _read_between(self) -> Part | None:
        again = self._syntax.separator + self._syntax.begin
        closing = self._syntax.closing
        if self._held.startswith(again):
            self._header, self._state = again, _State.HEADER
        elif closing and self._held.startswith(closing):
            self._held, self._state = self._held[len(closing) :], _State.PROSE
        elif not again.startswith(self._held) and not (closing and closing.startswith(self._held)):
            self._state = _State.PROSE
        return None

    def _reject(self) -> Part:
        """What began like a call was none: its first character is prose, and the rest is read again."""
        text = self._rejected()
        self._state = _State.PROSE
        self._held = text[1:]
        return TextPart(text[0])

    def _rejected(self) -> str:
        return self._header + self._held if self._state is _State.NAME else self._held


class _ObjectScanner:
    """Finds where a JSON object ends, over any chunks."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._is_escaped = False

    def scan(self, text: str) -> int | None:
        """The position behind the object's last bracket, or None if it is not in this text."""
        for at, char in enumerate(text):
            if self._in_string:
                self._read_in_string(char)
            elif char == '"':
                self._in_string = True
            elif char in "{[":
                self._depth += 1
            elif char in "}]":
                self._depth -= 1
                if self._depth == 0:
                    return at + 1
        return None

    def _read_in_string(self, char: str) -> None:
        if self._is_escaped:
            self._is_escaped = False
        elif char == "\\":
            self._is_escaped = True
        elif char == '"':
            self._in_string = False


def parse_calls(text: str, syntax: Syntax) -> tuple[str, list[tuple[str, str]]]:
    """The prose of a whole output, and the (name, arguments) of its calls; a call left open counts too."""
    parser = CallParser(syntax)
    prose: list[str] = []
    calls: list[tuple[str, list[str]]] = []
    for part in [*parser.feed(text), *parser.finish()]:
        match part:
            case TextPart():
                prose.append(part.text)
            case CallStart():
                calls.append((part.name, []))
            case ArgumentsPart():
                calls[-1][1].append(part.text)
            case CallEnd():
                pass
    return "".join(prose), [(name, "".join(pieces)) for name, pieces in calls]


def _overlap(text: str, pattern: str) -> int:
    """The length of the longest proper prefix of `pattern` that `text` ends with."""
    longest = min(len(text), len(pattern) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(pattern[:n])), 0)


def _unescaped(inside: str) -> str | None:
    try:
        name = json.loads(f'"{inside}"')
    except ValueError:
        return None
    return name if isinstance(name, str) else None


def _joined(parts: Iterable[Part]) -> list[Part]:
    return list(_merge(parts))


def _merge(parts: Iterable[Part]) -> Iterator[Part]:
    prose = ""
    for part in parts:
        if isinstance(part, TextPart):
            prose += part.text
            continue
        if prose:
            yield TextPart(prose)
        prose = ""
        yield part
    if prose:
        yield TextPart(prose)
