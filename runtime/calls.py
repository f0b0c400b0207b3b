"""Reads an output's text, as it comes, into prose and tool calls.

The grammar guarantees the syntax, so this is a state machine over the fixed texts of a row, a scanner of
JSON's strings and brackets for where arguments end, and a reader of tagged parameters. What does not follow
the syntax after all is prose.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from compiler.syntax import Message, Syntax
from runtime.parameters import JsonScanner, ParameterReader, overlap

ParameterTypes = Mapping[str, tuple[str, ...]]


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


class _State(Enum):
    START = auto()
    THOUGHT = auto()
    ANSWER = auto()
    PROSE = auto()
    HEADER = auto()
    NAME = auto()
    MESSAGE = auto()
    NUMBER = auto()
    ARGUMENTS = auto()
    PARAMETERS = auto()
    END = auto()
    BETWEEN = auto()


class CallParser:
    """Incremental: `feed` text, markers as they are spelled, and take the parts that it settles.

    Prose that may yet turn out to be a trigger, and a header until its name is whole, are held back.
    `types_of` gives the types of a tool's tagged parameters (see `compiler.unit.Unit`); `is_thinking`: the
    prompt has begun a thought.
    """

    def __init__(
        self,
        syntax: Syntax,
        types_of: Callable[[str], ParameterTypes] | None = None,
        *,
        is_thinking: bool = False,
    ) -> None:
        self._syntax = syntax
        self._types_of = types_of
        self._state = _State.HEADER if syntax.messages else _State.PROSE
        if syntax.thought:
            self._state = _State.THOUGHT if is_thinking else _State.START
        self._held = ""
        self._lead = ""
        self._begin = ""
        self._message = Message(begin="", end="")
        self._scanner = JsonScanner()
        self._parameters: ParameterReader | None = None

    @property
    def is_open(self) -> bool:
        """Whether a call has started and not ended."""
        return self._state in {_State.NUMBER, _State.ARGUMENTS, _State.PARAMETERS, _State.END}

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
        if self.is_open:
            return []
        part = self._prose(self._rejected())
        self._held = self._begin = ""
        return [part] if part.text else []

    def _advance(self) -> Part | None:
        read = {
            _State.START: self._read_start,
            _State.THOUGHT: self._read_thought,
            _State.ANSWER: self._read_answer,
            _State.PROSE: self._read_prose,
            _State.HEADER: self._read_header,
            _State.NAME: self._read_name,
            _State.MESSAGE: self._read_message,
            _State.NUMBER: self._read_number,
            _State.ARGUMENTS: self._read_arguments,
            _State.PARAMETERS: self._read_parameters,
            _State.END: self._read_end,
            _State.BETWEEN: self._read_between,
        }
        return read[self._state]()

    def _read_start(self) -> Part | None:
        assert self._syntax.thought is not None, "a model that thinks"
        begin, held = self._syntax.thought.begin, self._held.lstrip("\n")
        if held.startswith(begin):
            self._state, self._held = _State.THOUGHT, held[len(begin) :]
        elif not begin.startswith(held):
            self._state = _State.PROSE
        return None

    def _read_thought(self) -> Part | None:
        assert self._syntax.thought is not None, "a model that thinks"
        end = self._syntax.thought.end
        at = self._held.find(end)
        if at >= 0:
            text, self._held = self._held[:at], self._held[at + len(end) :]
            # Without calls the answer is in a format of its own, blanks included.
            self._state = _State.ANSWER if self._syntax.trigger else _State.PROSE
        else:
            at = len(self._held) - overlap(self._held, end)
            text, self._held = self._held[:at], self._held[at:]
        return ThoughtPart(text) if text else None

    def _read_answer(self) -> Part | None:
        """Line breaks between a thought and the answer belong to neither."""
        self._held = self._held.lstrip("\n")
        if self._held:
            self._state = _State.PROSE
        return None

    def _read_prose(self) -> Part | None:
        trigger = self._syntax.trigger
        at = self._held.find(trigger) if trigger else -1
        if at >= 0:
            self._lead = self._syntax.opening
            self._state = _State.HEADER
        else:
            at = len(self._held) - overlap(self._held, trigger)
        prose, self._held = self._held[:at], self._held[at:]
        return TextPart(prose) if prose else None

    def _read_header(self) -> Part | None:
        """What stands before a name, or before a message's text."""
        for message in self._syntax.messages:
            if self._held.startswith(self._lead + message.begin):
                self._held = self._held[len(self._lead + message.begin) :]
                self._state, self._message = _State.MESSAGE, message
                return None
        begins = [self._lead + begin for begin, _ in self._syntax.headers]
        for begin in begins:
            if self._held.startswith(begin):
                self._held = self._held[len(begin) :]
                self._state, self._begin = _State.NAME, begin
                return None
        begins += [self._lead + message.begin for message in self._syntax.messages]
        return None if any(begin.startswith(self._held) for begin in begins) else self._reject()

    def _read_name(self) -> Part | None:
        """The name is the shortest text before `after_name` that can be one."""
        found = sorted(
            (at, after)
            for begin, after in self._syntax.headers
            if self._begin == self._lead + begin
            for at in self._places(after)
        )
        for at, after in found:
            name = self._held[:at] if self._syntax.has_plain_names else _unescaped(self._held[:at])
            if name is not None:
                self._held = self._held[at + len(after) :]
                self._begin_arguments(name)
                return CallStart(name)
        return None

    def _places(self, after: str) -> Iterator[int]:
        """Where a name may end; with nothing behind it, where a tag begins."""
        at = self._held.find(after or "<")
        while at >= 0:
            yield at
            at = self._held.find(after or "<", at + 1)

    def _begin_arguments(self, name: str) -> None:
        self._begin = ""
        if self._syntax.tags is None:
            self._state, self._scanner = _State.ARGUMENTS, JsonScanner()
            if self._syntax.after_number is not None:
                self._state = _State.NUMBER
            return
        types = self._types_of(name) if self._types_of else {}
        self._state, self._parameters = _State.PARAMETERS, ParameterReader(self._syntax, types)

    def _read_message(self) -> Part | None:
        end = self._message.end
        if self._message.is_last:  # nothing in it ends it
            text, self._held = self._held, ""
            return self._prose(text) if text else None
        at = self._held.find(end)
        if at >= 0:
            text, self._held = self._held[:at], self._held[at:]
            self._state, self._lead = _State.HEADER, end + self._syntax.message_separator
        else:
            at = len(self._held) - overlap(self._held, end)
            text, self._held = self._held[:at], self._held[at:]
        return self._prose(text) if text else None

    def _prose(self, text: str) -> "TextPart | ThoughtPart":
        is_message = self._state in {_State.HEADER, _State.MESSAGE} and self._message.is_thought
        is_thought = is_message or self._state is _State.THOUGHT
        return ThoughtPart(text) if is_thought else TextPart(text)

    def _read_number(self) -> Part | None:
        after = self._syntax.after_number
        assert after is not None, "a call with a number"
        at = self._held.find(after)
        if at >= 0:
            self._state, self._held = _State.ARGUMENTS, self._held[at + len(after) :]
        return None

    def _read_arguments(self) -> Part | None:
        if not self._held:
            return None
        end = self._scanner.scan(self._held)
        if end is not None:
            self._state = _State.END
        text, self._held = self._held[:end], "" if end is None else self._held[end:]
        return ArgumentsPart(text)

    def _read_parameters(self) -> Part | None:
        assert self._parameters is not None, "a call with tags has begun"
        text = self._parameters.feed(self._held)
        self._held = ""
        if self._parameters.is_over:
            self._state, self._held = _State.END, self._parameters.rest
        return ArgumentsPart(text) if text else None

    def _read_end(self) -> Part | None:
        end = self._syntax.end
        if self._held.startswith(end):
            self._held = self._held[len(end) :]
        elif end.startswith(self._held):
            return None
        self._state = _State.BETWEEN
        return CallEnd()

    def _read_between(self) -> Part | None:
        syntax, closing = self._syntax, self._syntax.closing
        again = None if syntax.separator is None else syntax.separator + syntax.begin
        if again is not None and self._held.startswith(again):
            self._lead, self._state = syntax.separator or "", _State.HEADER
        elif closing and self._held.startswith(closing):
            self._held, self._state = self._held[len(closing) :], _State.PROSE
        elif not any(text and text.startswith(self._held) for text in (again, closing)):
            self._state = _State.PROSE
        return None

    def _reject(self) -> Part:
        """What began like a call was none: its first character is prose, and the rest is read again."""
        text = self._rejected()
        self._state = _State.PROSE
        self._held = text[1:]
        return TextPart(text[0])

    def _rejected(self) -> str:
        return self._begin + self._held if self._state is _State.NAME else self._held


def parse_calls(
    text: str, syntax: Syntax, types_of: Callable[[str], ParameterTypes] | None = None
) -> tuple[str, list[tuple[str, str]]]:
    """The prose of a whole output, and the (name, arguments) of its calls; a call left open counts too."""
    parser = CallParser(syntax, types_of)
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
            case CallEnd() | ThoughtPart():
                pass
    return "".join(prose), [(name, "".join(pieces)) for name, pieces in calls]


def _unescaped(inside: str) -> str | None:
    try:
        name = json.loads(f'"{inside}"')
    except ValueError:
        return None
    return name if isinstance(name, str) else None


def _joined(parts: Iterable[Part]) -> list[Part]:
    return list(_merge(parts))


def _merge(parts: Iterable[Part]) -> Iterator[Part]:
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
