"""The turn and the generation that answers it: what wire formats and the runtime have in common.

A wire format reads a request into a `Turn` and writes its answer from the events of a `Generation`.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from compiler.cache.grammar_cache import GrammarLookup
from compiler.response_format import SCHEMA, ResponseFormat
from gateway.errors import ClientGone
from gateway.generation.custom_inputs import InputReader
from gateway.generation.inspected_tokens import InspectedTokens
from gateway.http.deadline import GRACE_S, Deadline
from runtime.events import ArgumentsDelta, CallStarted, Event, Finished, InspectedToken, PromptRendered
from runtime.request import Message, Sampling
from runtime.selection import Selection
from toolspecs.tool import KeyOrder, ShownTools, Tool, ToolChoice, ToolSearch, ToolSearchResult
from toolspecs.toolset import RevisionSummary, ToolsetReference


@dataclass(frozen=True, slots=True)
class Turn:
    """One request for the assistant's next turn, whichever API it came from."""

    model: str
    """May name a toolset too, as `model:toolset`."""
    messages: tuple[Message, ...]
    prompt: str | tuple[int, ...] | None = None
    """A prompt that the client wrote instead of messages."""
    toolsets: tuple[ToolsetReference, ...] = ()
    tools: tuple[Tool, ...] = ()
    prompt_tools: ShownTools | None = None
    """None stands for the setting of the toolset, or else of the model."""
    tool_search: ToolSearch | Literal[False] | None = None
    """None stands for the setting of the toolset, or else of the model; with False, nothing is searched."""
    tool_choice: ToolChoice | None = None
    """None stands for `auto` with tools, and `none` without."""
    is_parallel: bool = True
    response_format: ResponseFormat | None = None
    """None stands for any text."""
    key_order: KeyOrder | None = None
    """None leaves the order of keys to each tool."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """The fields of `Sampling` that the request sets; the model's card has the others."""
    stop: tuple[str, ...] = ()
    """Like `stop_token_ids` and `min_tokens`, only for text, never for output that a grammar constrains."""
    stop_token_ids: tuple[int, ...] = ()
    min_tokens: int = 0
    max_tokens: int | None = None
    num_choices: int = 1
    num_logprobs: int | None = None
    template_options: Mapping[str, Any] = field(default_factory=dict)
    reasoning_effort: str | None = None
    """Sets the thinking switch of the model's chat template, if it has one."""
    truncates: bool = False
    """Whether the oldest messages may be left out if the conversation is too long for the model."""
    timeout_s: float | None = None
    """After this time the client no longer wants the answer."""
    selection: Selection | None = None
    """None stands for the engine's default."""
    is_streamed: bool = False
    is_inspected: bool = False
    has_custom_calls: bool = True
    """Whether the API writes the input of a custom tool as text, and not as an argument."""

    @property
    def answers_in_json(self) -> bool:
        """Whether an answer that calls no tool is one JSON value."""
        return self.response_format is not None and self.response_format.kind == SCHEMA


class Observer(Protocol):
    """Observes one generation. The methods are called in this order, `ended` at least once."""

    def prompt_rendered(self, num_tokens: int) -> None:
        """The prompt was rendered, and is computed next; not called if the runtime does not tell."""

    def began(self) -> None:
        """The first event came."""

    def observed(self, event: Event) -> None:
        """An event is passed on, including the first one."""

    def ended(self, error: BaseException | None) -> None:
        """No more events will come; `error` says why if the answer is not complete."""


@dataclass
class Generation:
    """The answer to a turn. Read `events` once to the end, or close it, which aborts what still runs."""

    request_id: str
    model_id: str
    num_choices: int
    sampling: Sampling
    """How its tokens are sampled: as the request says, and else as the model's card does."""
    is_named: bool
    has_logprobs: bool
    toolsets: tuple[RevisionSummary, ...]
    lookup: GrammarLookup | None
    """The grammar of the answer; None if nothing constrains it."""
    runtime_events: AsyncIterator[PromptRendered | Event]
    observer: Observer
    deadline: Deadline
    """When it has passed, the answer ends, even if the runtime does not end it."""
    custom: frozenset[str] = frozenset()
    """The names of custom tools. The deltas of their calls are text of their inputs, not JSON."""
    inspected: InspectedTokens | None = None
    """The inspected tokens that are not sent yet, if the turn asks for any."""
    ignored: tuple[str, ...] = ()
    """The fields of the turn that had no effect on this answer."""
    num_dropped: int = 0
    """How many old messages were left out."""
    search_result: ToolSearchResult | None = None
    num_prompt_tokens: int = 0
    """Known once `begin` has returned; 0 if the runtime does not tell."""
    tells_grammar_source: bool = True
    """Whether the answer may tell where the grammar was found and how long that took. It would tell a tenant
    what others have cached."""
    fingerprint: str = ""
    """Changes when the same request may have another answer, as far as the gateway can tell."""
    finished: list[Finished] = field(default_factory=list)
    _inputs: dict[tuple[int, int], InputReader] = field(default_factory=dict)
    _first: Event | None = None
    _is_ended: bool = False

    async def begin(self) -> None:
        """Wait for the first event, so that an error is raised before anything is sent.

        The observer does not hear of an error here, because the caller may try again.
        """
        try:
            async with self.deadline.enforced(GRACE_S):
                first = await anext(self.runtime_events)
                if isinstance(first, PromptRendered):
                    self.num_prompt_tokens = first.num_prompt_tokens
                    self.observer.prompt_rendered(first.num_prompt_tokens)
                    first = await anext(self.runtime_events)
            assert not isinstance(first, PromptRendered), "the prompt is rendered once"
            self._first = first
        except BaseException:
            await self._close()
            raise
        self.observer.began()

    async def events(self) -> AsyncIterator[Event]:
        """The events, from the first; raises what the runtime raises."""
        assert self._first, "begin was called, and a runtime sends at least one event"
        async with aclosing(self):
            event: Event | None = self._first
            try:
                while event is not None:
                    self._observe(event)
                    if isinstance(event, InspectedToken) and self.inspected is not None:
                        # In a thread, because finding a token's schema may read all of a large tool.
                        await asyncio.to_thread(self.inspected.add, event)
                    if (visible := self._shown(event)) is not None:
                        yield visible
                    event = await self._next()
            except BaseException as error:
                await self._end(error)
                raise
            await self._end(None)

    async def _next(self) -> Event | None:
        async with self.deadline.enforced(GRACE_S):
            event = await anext(self.runtime_events, None)
        assert not isinstance(event, PromptRendered), "the prompt is rendered once"
        return event

    async def aclose(self) -> None:
        """Abort the generation unless it has ended."""
        await self._end(None if len(self.finished) == self.num_choices else ClientGone())

    def _shown(self, event: Event) -> Event | None:
        """The event for wire formats; None if it completes no character of a custom tool's input."""
        match event:
            case CallStarted(choice, index, name) if name in self.custom:
                self._inputs[choice, index] = InputReader()
            case ArgumentsDelta(choice, index, text) if (choice, index) in self._inputs:
                read = self._inputs[choice, index].read(text)
                return replace(event, text=read) if read else None
        return event

    def _observe(self, event: Event) -> None:
        if isinstance(event, Finished):
            self.finished.append(event)
        self.observer.observed(event)

    async def _end(self, error: BaseException | None) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        if isinstance(error, GeneratorExit | asyncio.CancelledError):  # nobody waits for the answer
            error = ClientGone()
        self.observer.ended(error)
        await self._close()

    async def _close(self) -> None:
        close = getattr(self.runtime_events, "aclose", None)
        if close:
            await close()
