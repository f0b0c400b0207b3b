"""The linker: joins units behind a dispatcher into the grammar of a toolset's calls.

Nothing is compiled here. What the linked grammar's matcher allows is, token for token, what one grammar
of the whole language would: text up to a trigger, calls of any of the tools in the syntax of the model,
and tokens that straddle their borders.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from compiler.errors import UnsupportedGrammar, UnsupportedSchema, UnsupportedToolset
from compiler.linker.answer import Answer
from compiler.linker.boundary_tokens import Exits
from compiler.linker.dispatch_states import Junction
from compiler.linker.dispatcher import Dispatcher, consumed
from compiler.linker.fork import Fork
from compiler.linker.free_text import FreeText
from compiler.linker.headers import Headers, Target
from compiler.linker.linked_matcher import LinkedMatcher
from compiler.linker.outside import Thought
from compiler.syntax import Message, Syntax
from compiler.units.unit import Unit, argument_starts, unit_tail
from compiler.vocabulary import Vocabulary
from toolspecs.choice import ChoiceMode, ToolChoice


@dataclass(frozen=True, eq=False)
class LinkedGrammar:
    """Immutable and shared; `names` are the tools that may be called, `units` may hold more of them.

    `answer` is what an output may be instead of calls, None for any text. `syntax` reads both.
    """

    names: tuple[str, ...]
    units: Mapping[str, Unit] = field(repr=False)
    syntax: Syntax
    vocabulary: Vocabulary
    choice: ToolChoice
    parallel: bool
    dispatcher: Dispatcher = field(repr=False)
    """The fixed part that its matchers and closers share."""
    answer: Answer | None = None

    @cached_property
    def digest(self) -> str:
        """SHA-256 over what the language depends on."""
        tools = [(name, self.units[name].digest) for name in self.names]
        origin = [self.syntax.name, self.vocabulary.digest, self.choice.mode, self.parallel]
        answer = [self.answer.compiled.digest] if self.answer else []
        return hashlib.sha256(json.dumps([*origin, tools, *answer]).encode()).hexdigest()

    def matcher(self, *, is_thinking: bool = False) -> LinkedMatcher:
        """A fresh matcher at the start; `is_thinking`: the prompt has begun a thought."""
        return LinkedMatcher(self.dispatcher, is_thinking=is_thinking)


def link(
    units: Mapping[str, Unit],
    syntax: Syntax,
    vocabulary: Vocabulary,
    choice: ToolChoice,
    *,
    parallel: bool = True,
    answer: Answer | None = None,
) -> LinkedGrammar:
    """Join units, by tool name, that were compiled for this syntax and vocabulary.

    `parallel` False: exactly one call where one is made. A mode of `auto` without tools is `none`. With an
    `answer`, where `auto` leaves the choice, what calls nothing is one.

    Raises:
        UnsupportedToolset: an unknown tool was chosen, none is left where a call is required, or two
            names cannot be told apart in a call, or one cannot stand in it.
        UnsupportedGrammar: the vocabulary has a marker token inside the syntax's trigger, or inside what ends
            a message.
        UnsupportedSchema: an answer could not be told from a thought or a call.
    """
    names = _chosen(units, choice)
    if choice.mode is not ChoiceMode.AUTO or not names:
        answer = None
    if answer is not None:
        check_answer(answer, syntax, with_calls=True)
    joints = _Joints(names, units, syntax, vocabulary, parallel=parallel)
    start: FreeText | Junction | Fork
    if syntax.messages:
        start = joints.messages(has_last=choice.mode is not ChoiceMode.REQUIRED, answer=answer)
    elif answer is not None:
        start = Fork(joints.calls(), answer)
        syntax = syntax.calling_or_answering
    elif choice.mode is ChoiceMode.REQUIRED:
        start = joints.calls()
    else:
        start = joints.text()
    exits = Exits(vocabulary.index, unit_tail(syntax, vocabulary), joints.follow) if names else None
    thought = _thought(syntax, vocabulary)
    dispatcher = Dispatcher(vocabulary, MappingProxyType(units), start, exits, thought)
    return LinkedGrammar(names, units, syntax, vocabulary, choice, parallel, dispatcher, answer)


def check_answer(answer: Answer, syntax: Syntax, *, with_calls: bool = False) -> None:
    """Refuse an answer that a reader could take for something else.

    Raises:
        UnsupportedSchema: it may begin as a thought or, `with_calls`, as a call does.
    """
    begins = {syntax.thought.begin: "what the model thinks"} if syntax.thought else {}
    if with_calls and syntax.trigger:
        begins[syntax.trigger] = "a call"
    for begin, other in begins.items():
        if answer.fits(begin.encode()):
            reason = f"an answer that begins with {begin!r} cannot be told from {other}"
            raise UnsupportedSchema("", "", reason, "Leave such answers out.")


def answer_dispatcher(answer: Answer, syntax: Syntax, vocabulary: Vocabulary) -> Dispatcher:
    """What leads through thoughts and frames into an answer, for a model that is to call nothing."""
    start: Junction | Answer = answer
    if syntax.messages:
        joints = _Joints((), {}, syntax, vocabulary, parallel=False)
        start = joints.messages(has_last=True, answer=answer)
    return Dispatcher(vocabulary, {}, start, None, _thought(syntax, vocabulary))


def _chosen(units: Mapping[str, Unit], choice: ToolChoice) -> tuple[str, ...]:
    if choice.allowed is not None:
        unknown = [name for name in choice.allowed if name not in units]
        if unknown:
            raise UnsupportedToolset([(name, _refusal("the toolset has no such tool")) for name in unknown])
    if choice.mode is ChoiceMode.NONE:
        return ()
    allowed = frozenset(units if choice.allowed is None else choice.allowed)
    names = tuple(name for name in units if name in allowed)
    if choice.mode is ChoiceMode.REQUIRED and not names:
        raise UnsupportedToolset([("", _refusal("a call is required, but there is no tool to call"))])
    return names


def _refusal(reason: str) -> UnsupportedSchema:
    return UnsupportedSchema("", "tool_choice", reason)


def _thought(syntax: Syntax, vocabulary: Vocabulary) -> Thought | None:
    """What the syntax's models begin with; None where their vocabulary has no markers for it."""
    thought, markers = syntax.thought, vocabulary.markers
    if thought is None or not {thought.begin, thought.end} <= markers.keys():
        return None
    end_id = markers[thought.end]
    text = FreeText(vocabulary.index, thought.end.encode(), marker_id=end_id, may_stop=False)
    return Thought(markers[thought.begin], text, end_id)


class _Joints:
    """What stands between the units of one linked grammar."""

    def __init__(
        self,
        names: tuple[str, ...],
        units: Mapping[str, Unit],
        syntax: Syntax,
        vocabulary: Vocabulary,
        *,
        parallel: bool,
    ) -> None:
        self._names = names
        self._syntax = syntax
        self._vocabulary = vocabulary
        self._starts = argument_starts(syntax, vocabulary)
        self._units = units
        unspeakable = [name for name in names if not syntax.can_spell(name)]
        if unspeakable:
            reason = f"cannot stand in a call in the syntax {syntax.name!r}"
            refusal = UnsupportedSchema("", "name", reason, "Rename the tool.")
            raise UnsupportedToolset([(name, refusal) for name in unspeakable])
        self._after_begin = self._table("") if not syntax.messages else None
        lead = None
        if parallel and syntax.separator is not None:
            lead = self._spelled(syntax.separator + syntax.begin)
        self.follow = self._junction(self._after_begin or Headers([]), lead, self._spelled(syntax.closing))

    def calls(self) -> Junction:
        """An output begins with a call."""
        assert self._after_begin is not None, "calls begin alike"
        lead = self._spelled(self._syntax.opening + self._syntax.begin)
        return self._junction(self._after_begin, lead, None)

    def text(self) -> FreeText:
        """An output begins with text that a reader never takes for a call, unless it leads into one."""
        first = self.calls() if self._names else None
        text = self._text_until(self._syntax.trigger, first.lead if first else None, may_stop=True)
        text.exit = first
        return text

    def messages(self, *, has_last: bool, answer: Answer | None = None) -> Junction:
        """An output is messages, and in the end a call or (`has_last`) a last message.

        With an `answer` that is the last message's text, and the others are thoughts.
        """
        kinds = [message for message in self._syntax.messages if has_last or not message.is_last]
        if answer is not None:
            kinds = [message for message in kinds if message.is_last or message.is_thought]
        leads = {message: self._lead_behind(message) for message in kinds}
        texts = {
            message: self._text_until(message.end, leads[message], may_stop=message.is_last)
            for message in kinds
            if answer is None or not message.is_last
        }
        headers = [(self._spelled(message.begin), texts.get(message) or answer) for message in kinds]
        table = self._table(None, [(text, target) for text, target in headers if target is not None])
        for message, text in texts.items():
            text.exit = None if message.is_last else self._junction(table, leads[message], None)
        return self._junction(table, b"", None)

    def _lead_behind(self, message: Message) -> bytes | None:
        """What stands between a message's text and the header of another; None if nothing follows it."""
        if message.is_last:
            return None
        return self._spelled(message.end + self._syntax.message_separator)

    def _table(self, begin: str | None, others: Sequence[tuple[bytes, Target]] = ()) -> Headers:
        """The headers of calls, and others; `begin` None: with what stands before the names."""
        headers = [
            (self._spelled(before if begin is None else begin), self._spelled(after))
            for before, after in self._syntax.headers
        ]
        starts = [b""] if self._syntax.after_name else [bytes([start]) for start in self._starts]
        spelled: list[tuple[bytes, Target]] = [
            (before + self._syntax.spell_name(name).encode() + after + start, name)
            for name in self._names
            for before, after in headers
            for start in starts
        ]
        try:
            return Headers([*spelled, *others], num_given_back=len(starts[0]))
        except ValueError as error:
            raise UnsupportedToolset([("", UnsupportedSchema("", "name", str(error)))]) from error

    def _junction(self, headers: Headers, lead: bytes | None, closing: bytes | None) -> Junction:
        index = self._vocabulary.index
        return Junction(index, headers, lead=lead, closing=closing, starts=self._starts, enters=self._enters)

    def _enters(self, name: str, rest: bytes) -> bool:
        """Whether some output goes on with `rest` from the unit of a tool on."""
        if rest and rest[0] not in self._starts:
            return False  # the unit need not be asked, nor compiled
        taken = consumed(self._units, name, rest)
        if taken is None or taken == len(rest):
            return taken is not None
        return self.follow.fits(rest[taken:])

    def _text_until(self, end: str, lead: bytes | None, *, may_stop: bool) -> FreeText:
        """Text up to `end`, with which `lead` begins; or which nothing follows."""
        index, pattern = self._vocabulary.index, end.encode()
        if lead is None or lead.startswith(pattern):
            return FreeText(index, pattern, may_stop=may_stop)
        tokens = self._vocabulary.tokens
        leading = [i for i in self._vocabulary.marker_ids if lead.startswith(tokens[i])]
        if not leading:
            raise UnsupportedGrammar(f"a marker token stands inside {end!r}")
        return FreeText(index, pattern, marker_id=leading[0], may_stop=may_stop)

    def _spelled(self, text: str) -> bytes:
        return self._vocabulary.spell(text).encode()
