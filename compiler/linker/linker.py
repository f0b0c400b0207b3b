"""The linker: joins units, with a dispatcher before them, into the grammar of a toolset's calls.

Nothing is compiled here. What the linked grammar's matcher allows is, token for token, what one grammar
of the whole language would: text up to a trigger, calls of any of the tools in the syntax of the model,
and tokens that straddle their borders.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from compiler.closing.closer import Closer
from compiler.compiled_format import CompiledFormat
from compiler.constraint import ParameterTypes
from compiler.errors import UnsupportedGrammar, UnsupportedSchema, UnsupportedToolset
from compiler.linker.boundary_tokens import BoundaryTokens
from compiler.linker.call_text import CallText
from compiler.linker.dispatch_states import DispatchState, FreeText, Headers, HeaderTarget
from compiler.linker.dispatcher import CallOrAnswer, Thought
from compiler.linker.linked_matcher import LinkedMatcher
from compiler.linker.outer_positions import OutputDispatcher
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.syntax import MessageFrame, Syntax
from compiler.units.unit import Unit, argument_starts, unit_tail
from compiler.vocabulary import Vocabulary
from toolspecs.tool import ChoiceMode, ToolChoice


class _DispatchedGrammar:
    """A grammar whose matchers and closers start where its dispatcher begins an output."""

    prepared: PreparedVocabulary
    dispatcher: OutputDispatcher

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary it is compiled for."""
        return self.prepared.vocabulary

    def matcher(self, *, is_thinking: bool = False) -> LinkedMatcher:
        """A fresh matcher at the start; `is_thinking`: the prompt has begun a thought."""
        return LinkedMatcher(self.vocabulary, self.dispatcher.begin(is_thinking=is_thinking))

    def closer(self, *, is_thinking: bool = False) -> Closer:
        """A fresh budget closer at the start; `is_thinking`: the prompt has begun a thought."""
        return Closer(self.prepared, self.dispatcher.begin(is_thinking=is_thinking))


@dataclass(frozen=True, eq=False)
class LinkedGrammar(_DispatchedGrammar):
    r"""What a toolset's outputs may be: text, calls, thoughts; immutable and shared.

        >>> grammar = compile_toolset([pay], tool_choice="required")
        >>> matcher = grammar.matcher()
        >>> matcher.forced_text()
        b'<tool_call>\n{"name": "pay", "arguments": {"amount": '

    `names` are the tools that may be called, `units` may contain more tools. `answer` is the format of an
    output that is not calls, None for any text.
    """

    names: tuple[str, ...]
    units: Mapping[str, Unit] = field(repr=False)
    syntax: Syntax
    prepared: PreparedVocabulary
    tool_choice: ToolChoice
    is_parallel: bool
    dispatcher: OutputDispatcher = field(repr=False)
    answer: CompiledFormat | None = field(default=None, repr=False)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over what the language depends on."""
        tools = [(name, self.units[name].digest) for name in self.names]
        origin = [self.syntax.name, self.vocabulary.digest, self.tool_choice.mode, self.is_parallel]
        answer = [self.answer.digest] if self.answer else []
        return hashlib.sha256(json.dumps([*origin, tools, *answer]).encode()).hexdigest()

    @cached_property
    def may_search(self) -> bool:
        """Whether a mask or a completion of any tool or of the answer may take long to find."""
        parts = [*(self.units[name] for name in self.names), *([self.answer] if self.answer else [])]
        return any(part.may_search for part in parts)

    def parameter_types(self, name: str) -> ParameterTypes:
        """What a reader may take the tagged parameters of a tool for."""
        return self.units[name].types


@dataclass(frozen=True, eq=False)
class FramedFormat(_DispatchedGrammar):
    """An answer in a response format, and what models of a syntax write around it; immutable and shared.

    A model that thinks does so first, in free text. A model that frames its messages writes the answer into
    the last of them, and only thoughts into the others.
    """

    answer: CompiledFormat = field(repr=False)
    syntax: Syntax
    prepared: PreparedVocabulary
    dispatcher: OutputDispatcher = field(repr=False)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over what the language depends on."""
        content = [self.syntax.name, self.vocabulary.digest, self.answer.digest]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    @property
    def may_search(self) -> bool:
        """Whether a mask or a completion of the answer may take long to find."""
        return self.answer.may_search

    def parameter_types(self, name: str) -> ParameterTypes:  # noqa: ARG002 - the protocol's
        """No tool is called."""
        return {}


def link(
    units: Mapping[str, Unit],
    syntax: Syntax,
    prepared: PreparedVocabulary,
    tool_choice: ToolChoice,
    *,
    is_parallel: bool = True,
    answer: CompiledFormat | None = None,
) -> LinkedGrammar:
    """Join units, by tool name, that were compiled for this syntax and vocabulary.

        >>> both = compile_toolset([pay, search], tool_choice="auto")
        >>> only_pay = ToolChoice(ChoiceMode.REQUIRED, ("pay",))
        >>> link(both.units, both.syntax, both.prepared, only_pay).names
        ('pay',)

    Unless `is_parallel`, there is at most one call. A mode of `auto` without tools is `none`. With an
    `answer`, an output under `auto` that calls nothing is an answer in this format.

    Raises:
        UnsupportedToolset: an unknown tool was chosen, none is left where a call is required, two names
            cannot be told apart in a call, or a name cannot be written in a call.
        UnsupportedGrammar: the vocabulary has a marker token inside the syntax's trigger, or inside what ends
            a message.
        UnsupportedSchema: an answer could not be told from a thought or a call.
    """
    names = _chosen(units, tool_choice)
    _check_names(names, syntax)
    if tool_choice.mode is not ChoiceMode.AUTO or not names:
        answer = None
    if answer is not None:
        _check_answer(answer, syntax, with_calls=True)
    builder = _DispatchBuilder(names, units, syntax, prepared, is_parallel=is_parallel)
    start = builder.start(tool_choice, answer)
    vocabulary = prepared.vocabulary
    tail = unit_tail(syntax, vocabulary)
    boundary = BoundaryTokens(prepared.index, tail, builder.after_call) if names else None
    dispatcher = OutputDispatcher(
        vocabulary,
        MappingProxyType(units),
        start=start,
        boundary=boundary,
        call_text=CallText.of(syntax, vocabulary),
        thought=_thought(syntax, prepared),
    )
    return LinkedGrammar(names, units, syntax, prepared, tool_choice, is_parallel, dispatcher, answer)


def link_format(
    compiled: CompiledFormat, syntax: Syntax, prepared: PreparedVocabulary
) -> FramedFormat | CompiledFormat:
    """An answer as models of a syntax write it; `compiled` itself where they write nothing around it.

    Raises:
        UnsupportedSchema: an answer could not be told from a thought.
    """
    thought = _thought(syntax, prepared)
    if thought is None and not syntax.messages:
        return compiled
    _check_answer(compiled, syntax)
    start: DispatchState | CompiledFormat = compiled
    if syntax.messages:
        builder = _DispatchBuilder((), {}, syntax, prepared, is_parallel=False)
        start = builder.messages(has_last=True, answer=compiled)
    call_text = CallText.of(syntax, prepared.vocabulary)
    dispatcher = OutputDispatcher(
        prepared.vocabulary, {}, start=start, boundary=None, call_text=call_text, thought=thought
    )
    return FramedFormat(compiled, syntax, prepared, dispatcher)


def _check_names(names: Sequence[str], syntax: Syntax) -> None:
    """Refuse tools whose names a reader would not find in a call.

    Raises:
        UnsupportedToolset: a name cannot be written in a call.
    """
    reason = f"cannot be written in a call in the syntax {syntax.name!r}"
    refusal = UnsupportedSchema("", "name", reason, "Rename the tool.")
    unspeakable = [(name, refusal) for name in names if not syntax.can_spell(name)]
    if unspeakable:
        raise UnsupportedToolset(unspeakable)


def _check_answer(answer: CompiledFormat, syntax: Syntax, *, with_calls: bool = False) -> None:
    """Refuse a format whose answers a reader could take for something else.

    Raises:
        UnsupportedSchema: an answer may begin as a thought or, `with_calls`, as a call does.
    """
    begins = {syntax.thought.begin: "what the model thinks"} if syntax.thought else {}
    if with_calls and syntax.trigger:
        begins[syntax.trigger] = "a call"
    for begin, other in begins.items():
        if answer.fits(begin.encode()):
            reason = f"an answer that begins with {begin!r} cannot be told from {other}"
            raise UnsupportedSchema("", "", reason, "Leave such answers out.")


def _chosen(units: Mapping[str, Unit], tool_choice: ToolChoice) -> tuple[str, ...]:
    if tool_choice.allowed is not None:
        unknown = [name for name in tool_choice.allowed if name not in units]
        if unknown:
            raise UnsupportedToolset([(name, _refusal("the toolset has no such tool")) for name in unknown])
    if tool_choice.mode is ChoiceMode.NONE:
        return ()
    allowed = frozenset(units if tool_choice.allowed is None else tool_choice.allowed)
    names = tuple(name for name in units if name in allowed)
    if tool_choice.mode is ChoiceMode.REQUIRED and not names:
        raise UnsupportedToolset([("", _refusal("a call is required, but there is no tool to call"))])
    return names


def _refusal(reason: str) -> UnsupportedSchema:
    return UnsupportedSchema("", "tool_choice", reason)


def _thought(syntax: Syntax, prepared: PreparedVocabulary) -> Thought | None:
    """The thought that models of the syntax begin with; None if their vocabulary has no markers for it."""
    thought, markers = syntax.thought, prepared.vocabulary.markers
    if thought is None or not {thought.begin, thought.end} <= markers.keys():
        return None
    end_id = markers[thought.end]
    text = FreeText(prepared.index, thought.end.encode(), marker_id=end_id, may_stop=False)
    return Thought(markers[thought.begin], text, end_id)


class _DispatchBuilder:
    """Builds the states between the units of one linked grammar."""

    def __init__(
        self,
        names: tuple[str, ...],
        units: Mapping[str, Unit],
        syntax: Syntax,
        prepared: PreparedVocabulary,
        *,
        is_parallel: bool,
    ) -> None:
        self._names = names
        self._syntax = syntax
        self._index = prepared.index
        self._vocabulary = prepared.vocabulary
        self._starts = argument_starts(syntax, prepared.vocabulary)
        self._units = units
        affixes = [] if syntax.messages else [("", after) for _, after in syntax.headers]
        self._after_begin = self._headers(affixes)
        """The headers of calls without the text with which all calls begin, if they begin alike."""
        lead = None
        if is_parallel and syntax.separator is not None:
            lead = self._spelled(syntax.separator + syntax.begin)
        self.after_call = self._state(self._after_begin, lead, self._spelled(syntax.closing))

    def start(
        self, tool_choice: ToolChoice, answer: CompiledFormat | None
    ) -> FreeText | DispatchState | CallOrAnswer:
        """Where an output begins under a tool choice, with calls or an `answer` if there is one."""
        is_required = tool_choice.mode is ChoiceMode.REQUIRED
        if self._syntax.messages:
            return self.messages(has_last=not is_required, answer=answer)
        if answer is not None:
            return CallOrAnswer(self.calls(), answer)
        return self.calls() if is_required else self.text()

    def calls(self) -> DispatchState:
        """An output begins with a call."""
        assert not self._syntax.messages, "all calls begin with the same text"
        lead = self._spelled(self._syntax.opening + self._syntax.begin)
        return self._state(self._after_begin, lead, None)

    def text(self) -> FreeText:
        """An output begins with text that a reader never takes for a call, unless it leads into one."""
        first = self.calls() if self._names else None
        text = self._text_until(self._syntax.trigger, first.lead if first else None, may_stop=True)
        text.exit = first
        return text

    def messages(self, *, has_last: bool, answer: CompiledFormat | None) -> DispatchState:
        """An output is messages, and in the end a call or (`has_last`) a last message.

        With an `answer` that is the last message's text, and the others are thoughts.
        """
        frames = [frame for frame in self._syntax.messages if has_last or not frame.is_last]
        if answer is not None:
            frames = [frame for frame in frames if frame.is_last or frame.is_thought]
        targets = {
            frame: answer if answer is not None and frame.is_last else self._text_of(frame)
            for frame in frames
        }
        begins = [(self._spelled(frame.begin), target) for frame, target in targets.items()]
        headers = self._headers(self._syntax.headers, begins)
        for frame, target in targets.items():
            if isinstance(target, FreeText) and not frame.is_last:
                target.exit = self._state(headers, self._lead_after(frame), None)
        return self._state(headers, b"", None)

    def _text_of(self, frame: MessageFrame) -> FreeText:
        """The text of a message, without an exit."""
        lead = self._lead_after(frame)
        return self._text_until(frame.end, lead, may_stop=frame.is_last, is_thought=frame.is_thought)

    def _lead_after(self, frame: MessageFrame) -> bytes | None:
        """What is written between a message's text and the next header; None if nothing follows the text."""
        if frame.is_last:
            return None
        return self._spelled(frame.end + self._syntax.message_separator)

    def _headers(
        self, affixes: Iterable[tuple[str, str]], others: Sequence[tuple[bytes, HeaderTarget]] = ()
    ) -> Headers:
        """The headers of calls, with each pair of texts before and after each name; and other headers."""
        spelled_affixes = [(self._spelled(before), self._spelled(after)) for before, after in affixes]
        starts = [b""] if self._syntax.after_name else [bytes([start]) for start in self._starts]
        spelled: list[tuple[bytes, HeaderTarget]] = [
            (before + self._syntax.spell_name(name).encode() + after + start, name)
            for name in self._names
            for before, after in spelled_affixes
            for start in starts
        ]
        try:
            return Headers([*spelled, *others], num_lookahead=len(starts[0]))
        except ValueError as error:
            refusal = UnsupportedSchema("", "name", str(error), "Rename one of these tools.")
            raise UnsupportedToolset([("", refusal)]) from error

    def _state(self, headers: Headers, lead: bytes | None, closing: bytes | None) -> DispatchState:
        starts, enters = self._starts, self._enters
        return DispatchState(self._index, headers, lead=lead, closing=closing, starts=starts, enters=enters)

    def _enters(self, name: str, rest: bytes) -> bool:
        """Whether an output can go on with `rest` from the beginning of a tool's unit on."""
        if rest and rest[0] not in self._starts:
            return False  # known without compiling the unit
        num_consumed = self._units[name].consumed(rest)
        if num_consumed is None or num_consumed == len(rest):
            return num_consumed is not None
        return self.after_call.fits(rest[num_consumed:])

    def _text_until(
        self, end: str, lead: bytes | None, *, may_stop: bool, is_thought: bool = False
    ) -> FreeText:
        """Text up to `end`, with which `lead` begins; with `lead` None, nothing follows the text."""
        index, pattern = self._index, end.encode()
        if lead is None or lead.startswith(pattern):
            return FreeText(index, pattern, may_stop=may_stop, is_thought=is_thought)
        tokens = self._vocabulary.tokens
        leading = [i for i in self._vocabulary.marker_ids if lead.startswith(tokens[i])]
        if not leading:
            raise UnsupportedGrammar(
                f"the vocabulary has a marker token inside {end!r}, not at its beginning"
            )
        return FreeText(index, pattern, marker_id=leading[0], may_stop=may_stop, is_thought=is_thought)

    def _spelled(self, text: str) -> bytes:
        return self._vocabulary.spell(text).encode()
