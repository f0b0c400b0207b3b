"""Delivers the events of an output to its client: each once and in order, even if the engine fails.

When an engine is found dead, the task that reads its answer is cancelled, at any of its awaits. Tokens that
the output has accepted by then are part of it, so their events are still delivered. Another engine continues
after them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial

from runtime.engines.client import EngineChunk
from runtime.engines.verified_output import VerifiedOutput
from runtime.errors import EngineBroke
from runtime.event_queue import EventQueue
from runtime.events import Event, Finished
from runtime.written_token import SampledToken
from toolspecs.cancellation import to_the_end

MAX_TOKENS_AT_ONCE = 16
"""If more tokens come together, a thread verifies them. Verifying one takes about as long as using a
thread."""
Submit = Callable[[Callable[[], list[Event]]], Future[list[Event]]]

END_TIMEOUT_S = 1.0
"""How long an engine may take to end its answer once the output is complete."""


class ChoiceDelivery:
    """Puts the events of one choice into the queue of its request.

    It holds back the first events until others follow, and the last one until `end`.
    """

    def __init__(self, queue: EventQueue) -> None:
        self.num_cached = 0
        """How many tokens of the prompt were in the cache of the first engine that was asked."""
        self._queue = queue
        self._first: list[Event] = []
        self._end: Finished | None = None

    def hold(self, first: list[Event]) -> None:
        """Deliver the first events together with the next; if none follow, the answer has not begun."""
        self._first = first

    def put(self, events: list[Event]) -> None:
        """Deliver events."""
        if events and isinstance(end := events[-1], Finished):
            events, self._end = events[:-1], end
        if events:
            self._deliver(events)

    def note_cached(self, told: int, output: VerifiedOutput) -> None:
        """Note what the engine of an output tells of its cache, as far as that is possible."""
        if output.num_requests == 1:
            self.num_cached = max(0, min(told, len(output.prompt_ids)))

    def end(self) -> None:
        """Deliver the last event, unless it has been delivered."""
        if self._end is not None:
            stats = replace(self._end.stats, num_cached_tokens=self.num_cached)
            self._deliver([replace(self._end, stats=stats)])
            self._end = None

    def _deliver(self, events: list[Event]) -> None:
        self._queue.put([*self._first, *events])
        self._first = []


async def deliver_verified(
    output: VerifiedOutput, tokens: Sequence[SampledToken], delivery: ChoiceDelivery, submit: Submit
) -> None:
    """Verify tokens, in a thread if that may take long, and deliver their events.

    `submit` runs work in a thread. When this function is cancelled, it first finishes both steps, unless the
    thread has not started. So nobody else uses the output meanwhile.
    """

    async def delivered(taking: Future[list[Event]]) -> None:
        delivery.put(await asyncio.wrap_future(taking))

    num_taken = 0
    while num_taken < len(tokens) <= MAX_TOKENS_AT_ONCE and not output.is_slow:
        delivery.put(output.take([tokens[num_taken]], may_search=False))
        if output.needs_search:
            break
        num_taken += 1
    if rest := tokens[num_taken:]:
        taking = submit(partial(output.take, rest))
        await to_the_end(delivered(taking), taking.cancel)


async def read_num_cached(chunks: AsyncIterator[EngineChunk]) -> int:
    """Read an answer to its end; returns how many prompt tokens were in the engine's cache, 0 if unknown.

    The connection can be reused only if the answer is read to its end.
    """
    num_cached = 0
    with suppress(TimeoutError, EngineBroke):  # the output is whole
        async with asyncio.timeout(END_TIMEOUT_S):
            async for chunk in chunks:
                if chunk.tokens and chunk.finish_reason is None:
                    break
                num_cached = chunk.num_cached or num_cached
    return num_cached
