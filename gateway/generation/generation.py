"""The generation that answers a turn. Wire formats write answers from its events."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Protocol

from compiler.cache.grammar_cache import GrammarLookup
from gateway.errors import ClientGone
from gateway.generation.custom_inputs import InputReader
from gateway.generation.inspected_tokens import InspectedTokens
from gateway.generation.tool_finder import FoundTools
from gateway.generation.turn import Turn
from gateway.http.deadline import GRACE_S, Deadline
from gateway.version import VERSION
from runtime.events import ArgumentsDelta, CallStarted, Event, Finished, InspectedToken, PromptRendered
from runtime.protocol import ModelCard
from runtime.request import GenerationRequest


@dataclass(frozen=True, slots=True)
class PreparedTurn:
    """A turn with everything that was found for it, and the request that the runtime gets."""

    turn: Turn
    model: ModelCard
    found: FoundTools
    lookup: GrammarLookup | None
    """The grammar of the answer; None if nothing constrains it."""
    ignored: tuple[str, ...]
    """The fields of the turn that have no effect on the answer."""
    request: GenerationRequest

    @property
    def num_dropped(self) -> int:
        """How many old messages were left out."""
        return len(self.turn.messages) - len(self.request.messages)

    @property
    def fingerprint(self) -> str:
        """Changes when the same request may have another answer, as far as the gateway can tell.

        It is a short digest. The weights are not read.
        """
        parts = (VERSION, self.model.model_id, self.model.syntax, self.model.vocabulary.digest)
        return "fp_" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:10]


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


class Generation:
    """The answer to a turn. Read `events` once to the end, or close it, which aborts what still runs.

    When `deadline` has passed, the answer ends, even if the runtime does not end it. With
    `tells_grammar_source`, the answer may tell where the grammar was found and how long that took. It would
    tell a tenant what others have cached.
    """

    def __init__(
        self,
        prepared: PreparedTurn,
        runtime_events: AsyncIterator[PromptRendered | Event],
        observer: Observer,
        deadline: Deadline,
        *,
        tells_grammar_source: bool,
    ) -> None:
        turn, tools = prepared.turn, prepared.found.tools
        self.prepared = prepared
        self.tells_grammar_source = tells_grammar_source
        self.custom = frozenset(tool.name for tool in tools if tool.custom and turn.has_custom_calls)
        """The names of custom tools. The deltas of their calls are text of their inputs, not JSON."""
        self.inspected = InspectedTokens(tools, turn.response_format) if turn.is_inspected else None
        """The inspected tokens that are not sent yet, if the turn asks for any."""
        self.num_prompt_tokens = 0
        """Known once `begin` has returned; 0 if the runtime does not tell."""
        self.finished: list[Finished] = []
        self._runtime_events = runtime_events
        self._observer = observer
        self._deadline = deadline
        self._inputs: dict[tuple[int, int], InputReader] = {}
        self._first: Event | None = None
        self._is_ended = False

    @property
    def request_id(self) -> str:
        """The id of the request, which the ids of its answer contain."""
        return self.prepared.request.request_id

    @property
    def num_choices(self) -> int:
        """How many answers come."""
        return self.prepared.turn.num_choices

    @property
    def has_logprobs(self) -> bool:
        """Whether the answer has log probabilities."""
        return self.prepared.turn.num_logprobs is not None

    async def begin(self) -> None:
        """Wait for the first event, so that an error is raised before anything is sent.

        The observer does not hear of an error here, because the caller may try again.
        """
        try:
            async with self._deadline.enforced(GRACE_S):
                first = await anext(self._runtime_events)
                if isinstance(first, PromptRendered):
                    self.num_prompt_tokens = first.num_prompt_tokens
                    self._observer.prompt_rendered(first.num_prompt_tokens)
                    first = await anext(self._runtime_events)
            assert not isinstance(first, PromptRendered), "the prompt is rendered once"
            self._first = first
        except BaseException:
            await self._close()
            raise
        self._observer.began()

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
        async with self._deadline.enforced(GRACE_S):
            event = await anext(self._runtime_events, None)
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
        self._observer.observed(event)

    async def _end(self, error: BaseException | None) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        if isinstance(error, GeneratorExit | asyncio.CancelledError):  # nobody waits for the answer
            error = ClientGone()
        self._observer.ended(error)
        await self._close()

    async def _close(self) -> None:
        close = getattr(self._runtime_events, "aclose", None)
        if close:
            await close()
