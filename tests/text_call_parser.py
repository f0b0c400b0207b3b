"""A second reader of outputs, from their text alone: what matchers tell apart is held against what it finds.

It is a state machine over the fixed texts of a syntax, a scanner of JSON's strings and brackets for where arguments
end, and a reader of tagged parameters. What does not follow the syntax is prose.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from compiler.linker.linker import FramedFormat, LinkedGrammar
from compiler.syntax import MessageFrame, Syntax
from runtime.text.parameters import ParameterReader
from runtime.text.pending_text import JsonScanner, PendingText

ParameterTypes = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str


@dataclass(frozen=True, slots=True)
class ThoughtPart:
    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsPart:
    text: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    pass


Part = TextPart | ThoughtPart | CallStart | ArgumentsPart | CallEnd


def joined(parts: Iterable[Part]) -> list[Part]:
    """The parts with neighbours of the same prose, or the same thought, as one."""
    found: list[Part] = []
    for part in parts:
        if found and isinstance(part, TextPart | ThoughtPart) and type(part) is type(found[-1]):
            found[-1] = replace(part, text=found[-1].text + part.text)
        else:
            found.append(part)
    return found


class _State(Enum):
    START = auto()
    THOUGHT = auto()
    ANSWER = auto()
    FORK = auto()
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
    `types_of` gives the types of a tool's tagged parameters (see `compiler.units.unit.Unit`); `is_thinking`:
    the prompt has begun a thought. With `may_answer`, an output that does not begin with the trigger is an
    answer in a given format; unless it `may_call`, every output is one.
    """

    def __init__(
        self,
        syntax: Syntax,
        types_of: Callable[[str], ParameterTypes] | None = None,
        *,
        is_thinking: bool = False,
        may_call: bool = True,
        may_answer: bool = False,
    ) -> None:
        self._syntax = syntax
        self._trigger = syntax.trigger if may_call else ""
        self._may_answer = may_answer
        self._types_of = types_of
        self._state = _State.HEADER if syntax.messages else self._unframed
        if syntax.thought:
            self._state = _State.THOUGHT if is_thinking else _State.START
        self._pending = PendingText()
        self._lead = ""
        self._begin = ""
        self._message = MessageFrame(begin="", end="")
        self._scanner = JsonScanner()
        self._parameters: ParameterReader | None = None
        self._readers: Mapping[_State, Callable[[], Part | None]] = {
            _State.START: self._read_start,
            _State.THOUGHT: self._read_thought,
            _State.ANSWER: self._read_answer,
            _State.FORK: self._read_fork,
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

    @classmethod
    def of(
        cls, grammar: LinkedGrammar | FramedFormat, types_of: Callable[[str], ParameterTypes] | None = None
    ) -> "CallParser":
        """A parser of the outputs of a grammar."""
        if isinstance(grammar, FramedFormat):
            return cls(grammar.syntax, types_of, may_call=False)
        may_answer = grammar.answer is not None and not grammar.syntax.messages
        return cls(grammar.syntax, types_of, may_answer=may_answer)

    @property
    def is_open(self) -> bool:
        """Whether a call has started and not ended."""
        return self._state in {_State.NUMBER, _State.ARGUMENTS, _State.PARAMETERS, _State.END}

    @property
    def is_thinking(self) -> bool:
        """Whether what is read is a thought."""
        is_thought = self._state is _State.MESSAGE and self._message.is_thought
        return is_thought or self._state is _State.THOUGHT

    def feed(self, text: str) -> list[Part]:
        """The parts that more text settles."""
        self._pending.add(text)
        parts: list[Part] = []
        while True:
            before = self._state, self._pending.text
            part = self._readers[self._state]()
            if part is not None:
                parts.append(part)
            if (self._state, self._pending.text) == before:
                return joined(parts)

    def finish(self) -> list[Part]:
        """At the end of the output: what was held back turns out to be prose; an open call stays open."""
        if self.is_open:
            return []
        part = self._prose(self._rejected())
        self._pending, self._begin = PendingText(), ""
        return [part] if part.text else []

    def _read_start(self) -> Part | None:
        assert self._syntax.thought is not None, "a model that thinks"
        begin, text = self._syntax.thought.begin, self._pending.text
        held = PendingText(text.lstrip("\n") if self._may_skip else text)
        if held.take(begin):
            self._state, self._pending = _State.THOUGHT, held
        elif not held.may_become(begin):
            self._state = self._unframed
        return None

    def _read_thought(self) -> Part | None:
        assert self._syntax.thought is not None, "a model that thinks"
        end = self._syntax.thought.end
        text, is_over = self._pending.take_before(end)
        if is_over:
            self._pending.take(end)
            self._state = _State.ANSWER if self._may_skip else self._unframed
        return ThoughtPart(text) if text else None

    @property
    def _may_skip(self) -> bool:
        """Whether line breaks around a thought belong to nothing; answers in a given format keep theirs."""
        return bool(self._trigger) and not self._may_answer

    @property
    def _unframed(self) -> _State:
        """What is read where nothing stands around it."""
        return _State.FORK if self._may_answer else _State.PROSE

    def _read_fork(self) -> Part | None:
        """After a trigger are calls; else it is an answer, whatever may look like a trigger in it."""
        if self._pending.text.startswith(self._trigger):
            self._state, self._lead = _State.HEADER, self._syntax.opening
        elif not self._pending.may_become(self._trigger):
            self._state, self._trigger = _State.PROSE, ""
        return None

    def _read_answer(self) -> Part | None:
        """Line breaks between a thought and the answer belong to neither."""
        self._pending = PendingText(self._pending.text.lstrip("\n"))
        if self._pending.text:
            self._state = _State.PROSE
        return None

    def _read_prose(self) -> Part | None:
        prose, is_over = self._pending.take_before(self._trigger)
        if is_over:
            self._state, self._lead = _State.HEADER, self._syntax.opening
        return TextPart(prose) if prose else None

    def _read_header(self) -> Part | None:
        """What stands before a name, or before a message's text."""
        for message in self._syntax.messages:
            if self._pending.take(self._lead + message.begin):
                self._state, self._message = _State.MESSAGE, message
                return None
        begins = [self._lead + begin for begin, _ in self._syntax.headers]
        for begin in begins:
            if self._pending.take(begin):
                self._state, self._begin = _State.NAME, begin
                return None
        begins += [self._lead + message.begin for message in self._syntax.messages]
        return None if any(map(self._pending.may_become, begins)) else self._reject()

    def _read_name(self) -> Part | None:
        """The name is the shortest text before `after_name` that can be one."""
        found = sorted(
            (at, after)
            for begin, after in self._syntax.headers
            if self._begin == self._lead + begin
            for at in self._places(after)
        )
        for at, after in found:
            spelled = self._pending.text[:at]
            name = spelled if self._syntax.has_plain_names else _unescaped(spelled)
            if name is not None:
                self._pending.take(spelled + after)
                self._begin_arguments(name)
                return CallStart(name)
        return None

    def _places(self, after: str) -> Iterator[int]:
        """Where a name may end; with nothing after it, where a tag begins."""
        at = self._pending.text.find(after or "<")
        while at >= 0:
            yield at
            at = self._pending.text.find(after or "<", at + 1)

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
            text = self._pending.take_first(None)
            return self._prose(text) if text else None
        text, is_over = self._pending.take_before(end)
        if is_over:
            self._state, self._lead = _State.HEADER, end + self._syntax.message_separator
        return self._prose(text) if text else None

    def _prose(self, text: str) -> "TextPart | ThoughtPart":
        is_message = self._state in {_State.HEADER, _State.MESSAGE} and self._message.is_thought
        is_thought = is_message or self._state is _State.THOUGHT
        return ThoughtPart(text) if is_thought else TextPart(text)

    def _read_number(self) -> Part | None:
        after = self._syntax.after_number
        assert after is not None, "a call with a number"
        number, is_over = self._pending.find_before(after)
        if is_over:
            self._pending.take(number + after)
            self._state = _State.ARGUMENTS
        return None

    def _read_arguments(self) -> Part | None:
        if not self._pending.text:
            return None
        text, is_over = self._scanner.take(self._pending)
        if is_over:
            self._state = _State.END
        return ArgumentsPart(text)

    def _read_parameters(self) -> Part | None:
        assert self._parameters is not None, "a call with tags has begun"
        text = self._parameters.feed(self._pending.take_first(None))
        if self._parameters.is_over:
            self._state, self._pending = _State.END, PendingText(self._parameters.rest)
        return ArgumentsPart(text) if text else None

    def _read_end(self) -> Part | None:
        if not self._pending.take(self._syntax.end) and self._pending.may_become(self._syntax.end):
            return None
        self._state = _State.BETWEEN
        return CallEnd()

    def _read_between(self) -> Part | None:
        syntax, closing = self._syntax, self._syntax.closing
        again = None if syntax.separator is None else syntax.separator + syntax.begin
        may_go_on = any(text and self._pending.may_become(text) for text in (again, closing))
        if again is not None and self._pending.text.startswith(again):
            self._lead, self._state = syntax.separator or "", _State.HEADER
        elif (closing and self._pending.take(closing)) or not may_go_on:
            self._state = _State.PROSE
        return None

    def _reject(self) -> Part:
        """What began like a call was none: its first character is prose, and the rest is read again."""
        text = self._rejected()
        self._state = _State.PROSE
        self._pending = PendingText(text[1:])
        return TextPart(text[0])

    def _rejected(self) -> str:
        return self._begin + self._pending.text if self._state is _State.NAME else self._pending.text


def _unescaped(inside: str) -> str | None:
    try:
        name = json.loads(f'"{inside}"')
    except ValueError:
        return None
    return name if isinstance(name, str) else None
