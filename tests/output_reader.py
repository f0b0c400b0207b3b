"""A second reader of whole outputs, from their text alone: what matchers tell apart is held against what it finds.

What does not follow the syntax is prose.
"""

import json
from collections.abc import Callable, Iterator, Mapping

from compiler.linker.linker import FramedFormat, LinkedGrammar
from compiler.syntax import MessageFrame, Syntax
from runtime.text.parameters import ParameterReader

ParameterTypes = Mapping[str, tuple[str, ...]]
Part = tuple[str, str | None]
"""The name of a class of `compiler.output_parts`, and the text or the name of a tool."""


def read_parts(
    grammar: LinkedGrammar | FramedFormat, text: str, types_of: Callable[[str], ParameterTypes] | None = None
) -> list[Part]:
    """The parts of an output of a grammar."""
    if isinstance(grammar, FramedFormat):
        return OutputReader(text, grammar.syntax, types_of, may_call=False).read()
    may_answer = grammar.answer is not None and not grammar.syntax.messages
    return OutputReader(text, grammar.syntax, types_of, may_answer=may_answer).read()


class OutputReader:
    """Reads one output from its beginning; markers are as they are spelled.

    `types_of` gives the types of a tool's tagged parameters (see `compiler.units.unit.Unit`). With `may_answer`, an
    output that does not begin with the trigger is an answer in a given format; unless it `may_call`, every output is
    one. `cut` cuts tagged parameters into the pieces in which they come.
    """

    def __init__(
        self,
        text: str,
        syntax: Syntax,
        types_of: Callable[[str], ParameterTypes] | None = None,
        *,
        may_call: bool = True,
        may_answer: bool = False,
        cut: Callable[[str], list[str]] = lambda text: [text],
    ) -> None:
        self._rest = text
        self._syntax = syntax
        self._types_of = types_of
        self._trigger = syntax.trigger if may_call else ""
        self._may_answer = may_answer
        self._cut = cut
        self._parts: list[Part] = []

    def read(self) -> list[Part]:
        """The parts; neighbours of the same kind are one."""
        if self._syntax.thought:
            self._read_thought(self._syntax.thought)
        if self._syntax.messages:
            self._read_messages()
        elif self._may_answer and not self._rest.startswith(self._trigger):
            self._take_all("TextPart")
        while self._rest:
            self._read_prose()
        return self._parts

    def _read_thought(self, thought: MessageFrame) -> None:
        """Line breaks around a thought belong to nothing, but answers in a given format keep theirs."""
        may_skip = bool(self._trigger) and not self._may_answer
        text = self._rest.lstrip("\n") if may_skip else self._rest
        if not text.startswith(thought.begin):
            return
        thought_text, _, rest = text.removeprefix(thought.begin).partition(thought.end)
        self._add("ThoughtPart", thought_text)
        self._rest = rest.lstrip("\n") if may_skip else rest

    def _read_messages(self) -> None:
        """Messages of prose, up to a call, the last message, or what is neither."""
        lead, kind = "", "TextPart"
        while message := self._message_after(lead):
            kind = "ThoughtPart" if message.is_thought else "TextPart"
            self._take(lead + message.begin)
            if message.is_last or message.end not in self._rest:
                self._take_all(kind)
                return
            text, _, _ = self._rest.partition(message.end)
            self._take(text)
            self._add(kind, text)
            lead = message.end + self._syntax.message_separator
        if not self._read_calls(lead):
            begins = [begin for begin, _ in self._syntax.headers] + [m.begin for m in self._syntax.messages]
            is_cut_off = any((lead + begin).startswith(self._rest) for begin in begins)
            self._take_all(kind if is_cut_off else "TextPart")

    def _message_after(self, lead: str) -> MessageFrame | None:
        found = (m for m in self._syntax.messages if self._rest.startswith(lead + m.begin))
        return next(found, None)

    def _read_prose(self) -> None:
        """Prose up to a trigger, and the calls after it; a trigger without a call is prose too."""
        if not self._trigger or self._trigger not in self._rest:
            self._take_all("TextPart")
            return
        prose, _, _ = self._rest.partition(self._trigger)
        self._take(prose)
        self._add("TextPart", prose)
        if not self._read_calls(self._syntax.opening):
            self._add("TextPart", self._rest[:1])
            self._rest = self._rest[1:]

    def _read_calls(self, lead: str) -> bool:
        """Calls one after the other, of which the first has `lead` before it; False if there is none."""
        syntax = self._syntax
        if not self._read_call(lead):
            return False
        if syntax.separator is not None:
            begin = syntax.separator + syntax.begin
            while self._rest.startswith(begin) and self._read_call(syntax.separator):
                pass
        self._take(syntax.closing)
        return True

    def _read_call(self, lead: str) -> bool:
        found = (b for b, _ in self._syntax.headers if self._rest.startswith(lead + b))
        begin = next(found, None)
        if begin is None:
            return False
        header, self._rest = lead + begin, self._rest.removeprefix(lead + begin)
        name = self._read_name(begin)
        if name is None:
            self._add("TextPart", header)
            self._take_all("TextPart")
            return True
        self._parts.append(("CallStart", name))
        if self._syntax.tags:
            self._read_parameters(name)
        else:
            self._read_arguments()
        if self._rest.startswith(self._syntax.end) or not self._syntax.end.startswith(self._rest):
            self._take(self._syntax.end)
            self._parts.append(("CallEnd", None))
        else:
            self._rest = ""  # the call is cut off
        return True

    def _read_name(self, begin: str) -> str | None:
        """The shortest text before `after_name` that can be a name; without `after_name`, it is before a tag."""
        afters = [after for other, after in self._syntax.headers if other == begin]
        places = sorted((at, after) for after in afters for at in _places(self._rest, after or "<"))
        for at, after in places:
            spelled = self._rest[:at]
            name = spelled if self._syntax.has_plain_names else _unescaped(spelled)
            if name is not None:
                self._take(spelled + after)
                return name
        return None

    def _read_parameters(self, name: str) -> None:
        reader = ParameterReader(self._syntax, self._types_of(name) if self._types_of else {})
        pieces = self._cut(self._rest)
        text = ""
        while pieces and not reader.is_over:
            text += reader.feed(pieces.pop(0))
        self._add("ArgumentsPart", text)
        self._rest = "".join([reader.rest, *pieces]) if reader.is_over else ""

    def _read_arguments(self) -> None:
        if self._syntax.after_number is not None:
            _, _, self._rest = self._rest.partition(self._syntax.after_number)
        try:
            _, end = json.JSONDecoder().raw_decode(self._rest)
        except ValueError:
            end = len(self._rest)
        self._add("ArgumentsPart", self._rest[:end])
        self._rest = self._rest[end:]

    def _take(self, text: str) -> None:
        self._rest = self._rest.removeprefix(text)

    def _take_all(self, kind: str) -> None:
        self._add(kind, self._rest)
        self._rest = ""

    def _add(self, kind: str, text: str) -> None:
        if text and self._parts and self._parts[-1][0] == kind:
            text = (self._parts.pop()[1] or "") + text
        if text:
            self._parts.append((kind, text))


def _places(text: str, end: str) -> Iterator[int]:
    at = text.find(end)
    while at >= 0:
        yield at
        at = text.find(end, at + 1)


def _unescaped(inside: str) -> str | None:
    try:
        return str(json.loads(f'"{inside}"'))
    except ValueError:
        return None
