"""Drafting: selects answers by sending one request after another, to any engine.

draft     The model writes a draft without a mask (`runtime.draft`). A valid draft is the answer. If not, the
          answer is written anew under the mask, with the draft in the prompt.
accept    At most `size - 1` drafts are drawn, each given up where it leaves the grammar. The first that is
          valid is the answer. If none is, the answer is drawn under the mask. This is for engines that do not
          weigh what they write; `runtime.decoding.rejection_sampling` does it inside the engine.

A valid draft is an exact draw from the model's own distribution among valid outputs. Let `d` be the total
variation distance of masked answers from that distribution, and `p` the probability that a draft is valid.
With at most `k` drafts, the distance of the answers is `(1 - p) ** k * d`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from runtime.decoding.sampling import draw_seed
from runtime.draft import Draft
from runtime.errors import DeadlineExceeded, GrammarTooSlow, RequestRefused
from runtime.event_queue import EventQueue
from runtime.events import BrokenDraft, Event, Finished, GenerationStats, PromptRendered, SelectionStats
from runtime.request import GenerationRequest, Message
from runtime.selection import MAX_SELECTION, Selection, SelectionStrategy
from runtime.text.detokenizer import TokenBytes
from runtime.text.places import last_place

COMPLAINT = "That does not have the required form. Answer again, in the required form."

Generate = Callable[[GenerationRequest], AsyncGenerator[PromptRendered | Event, None]]
"""Generates as `Runtime.generate` does, but ignores the request's `selection`."""


class Drafting:
    """Selects answers by requests to one runtime; `generate` sends one of them.

    `strategies` are those that it stands in for. Others are the engine's own, or do not apply.
    """

    def __init__(
        self, generate: Generate, token_bytes: TokenBytes, strategies: Collection[SelectionStrategy]
    ) -> None:
        self._generate = generate
        self._token_bytes = token_bytes
        self._strategies = strategies

    def answer(
        self, request: GenerationRequest, selection: Selection
    ) -> AsyncGenerator[PromptRendered | Event, None]:
        """`PromptRendered`, then the events of all choices: by drafting, or by the engine alone."""
        is_drafted = selection.strategy in self._strategies and selection.size > 1
        is_drafted &= not selection.repeats_drafts(is_greedy=request.sampling.is_greedy)
        return self._selected(request, selection) if is_drafted else self._generate(request)

    async def _selected(
        self, request: GenerationRequest, selection: Selection
    ) -> AsyncGenerator[PromptRendered | Event, None]:
        """The events of all choices; a choice's come once its answer is selected."""
        queue = EventQueue(request.num_choices)
        choices = [
            _Choice(self._generate, self._token_bytes, request, selection, number)
            for number in range(request.num_choices)
        ]
        tasks = [asyncio.create_task(choice.write(queue)) for choice in choices]
        is_rendered = False
        try:
            while queue.num_open:
                for event in await queue.take():
                    if not (isinstance(event, PromptRendered) and is_rendered):
                        yield event
                    is_rendered = True
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(slots=True)
class _Choice:
    """One choice, written attempt by attempt."""

    generate: Generate
    token_bytes: TokenBytes
    request: GenerationRequest
    selection: Selection
    number: int
    stats: list[GenerationStats] = field(default_factory=list)
    """One for each attempt so far."""
    broken: list[BrokenDraft] = field(default_factory=list)
    num_prompt_tokens: int = 0

    async def write(self, queue: EventQueue) -> None:
        """Put the choice's events into the queue, or the error that ended it."""
        try:
            async with aclosing(self._events()) as events:
                async for event in events:
                    queue.put([event])
        except Exception as error:  # noqa: BLE001 - the reader of the queue raises it
            queue.put(error)

    async def _events(self) -> AsyncGenerator[PromptRendered | Event, None]:
        loop = asyncio.get_running_loop()
        timeout_s = self.request.timeout_s
        ends_at = None if timeout_s is None else loop.time() + timeout_s
        is_shown = self.selection.strategy == "draft"
        draft = Draft()
        for number in range(self.selection.size - 1):
            draft = Draft(gives_up=not is_shown)
            events: list[Event] = []
            attempt = replace(self._attempt_request(number, ends_at), recipe=None, draft=draft)
            async for event in self._attempt_events(attempt):
                if not isinstance(event, PromptRendered):
                    events.append(event)
                elif number == 0:
                    self.num_prompt_tokens = event.num_prompt_tokens
                    yield event
            if draft.is_valid:
                for event in events:
                    yield self._choice_event(event, is_exact=True)
                return
            await self._note_broken(draft, events)
        attempt = self._attempt_request(self.selection.size - 1, ends_at)
        attempt_with_draft = with_draft(attempt, self._text(draft)) if is_shown else attempt
        async for event in self._masked(attempt_with_draft, attempt):
            yield self._choice_event(event)

    async def _masked(
        self, attempt_with_draft: GenerationRequest, attempt: GenerationRequest
    ) -> AsyncGenerator[PromptRendered | Event, None]:
        """The events of a masked answer to `attempt_with_draft`, or else to `attempt`."""
        has_begun = False
        try:
            async for event in self._attempt_events(attempt_with_draft):
                has_begun |= not isinstance(event, PromptRendered)
                yield event
        except RequestRefused as error:
            if has_begun or attempt_with_draft is attempt or isinstance(error, GrammarTooSlow):
                raise
            async for event in self._attempt_events(attempt):
                yield event

    async def _attempt_events(
        self, request: GenerationRequest
    ) -> AsyncGenerator[PromptRendered | Event, None]:
        """The events of one attempt; adds its cost to the choice's."""
        async with aclosing(self.generate(request)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    self.stats.append(event.stats)
                yield event

    def _attempt_request(self, number: int, ends_at: float | None) -> GenerationRequest:
        """The request of one attempt, with its own seed and the time that is left."""
        timeout_s = None if ends_at is None else ends_at - asyncio.get_running_loop().time()
        if timeout_s is not None and timeout_s <= 0:
            raise DeadlineExceeded
        seed = self.request.sampling.seed
        if seed is not None:
            seed = draw_seed(seed, self.number * MAX_SELECTION + number)
        return replace(
            self.request,
            request_id=f"{self.request.request_id}/{self.number}/{number}",
            num_choices=1,
            num_siblings=self.request.num_choices - 1,
            selection=Selection(),
            sampling=replace(self.request.sampling, seed=seed),
            timeout_s=timeout_s,
        )

    async def _note_broken(self, draft: Draft, events: Iterable[Event]) -> None:
        """Note where a draft left the grammar; in a thread, because a draft may be long."""
        place = await asyncio.to_thread(last_place, events)
        self.broken.append(BrokenDraft(draft.num_good, place))

    def _text(self, draft: Draft) -> str:
        written = (i for i in draft.ids if self.token_bytes.has(i) and i not in self.token_bytes.stop_ids)
        return self.token_bytes.of(written).decode(errors="replace").strip()

    def _choice_event(
        self, event: PromptRendered | Event, *, is_exact: bool = False
    ) -> PromptRendered | Event:
        """An attempt's event as one of this choice; the last event says how the answer was selected."""
        if isinstance(event, PromptRendered):
            return event
        event = replace(event, choice=self.number)
        if not isinstance(event, Finished):
            return event
        computed = [stats.num_computed_tokens for stats in self.stats]
        selection = SelectionStats(
            strategy=self.selection.strategy,
            num_draws=len(self.stats),
            is_exact=is_exact,
            num_computed_tokens=sum(computed) if all(computed) else None,
            num_written_tokens=sum(stats.num_output_tokens for stats in self.stats),
            broken=tuple(self.broken),
        )
        stats = replace(
            event.stats,
            num_prompt_tokens=self.num_prompt_tokens,
            num_cached_tokens=self.stats[0].num_cached_tokens,  # a later prompt also has the draft
            selection=selection,
        )
        return replace(event, stats=stats)


def with_draft(request: GenerationRequest, text: str) -> GenerationRequest:
    """The request with a draft of this text added to its conversation, if it has a conversation."""
    if request.prompt is not None or not text:
        return request
    return replace(request, messages=(*request.messages, *shown_draft(text)))


def shown_draft(text: str) -> tuple[Message, Message]:
    """How a prompt shows an invalid draft; it need not say what was wrong, as the mask prevents that."""
    return Message("assistant", text), Message("user", COMPLAINT)
