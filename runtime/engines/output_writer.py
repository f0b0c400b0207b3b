"""Has external engines write one output, from its beginning to its end.

begin      Write the forced text. It goes to the engine with the prompt, and to the client with the first
           tokens. If the engine is full or fails before, the client gets the status of an error.
publish    Make sure that engines can read the grammar.
ask        Ask an engine to continue, verify each token, and repeat until the output ends:
- an engine that breaks off is replaced, unless it wrote nothing after another one that broke off, or is the
  eighth;
- one that has no room is replaced as long as there are others; then an output that has begun waits for room
  (`runtime.engines.tries`);
- an engine that leaves the grammar is asked again, a few times;
- an engine that begins a call for which the budget has no room is asked again without that token;
- an engine without the plugin is asked again after the header of a call, and for a single allowed token where
  it wrote one that a guard forbids, or text that begins a call for which there is no room.
close      The budget closer completes an output that no engine has ended.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from compiler.errors import MatchingTooSlow
from runtime.engines.client import EngineChunk
from runtime.engines.completion_request import CompletionRequest, CompletionRequestBuilder
from runtime.engines.delivery import ChoiceDelivery, deliver_verified, read_num_cached
from runtime.engines.engine_answer import EngineAnswer
from runtime.engines.replica import Replica
from runtime.engines.replicas import Replicas
from runtime.engines.sent_grammars import SentGrammars
from runtime.engines.tries import RoomTurns, Tries
from runtime.engines.verified_output import OutputState, VerifiedOutput
from runtime.errors import (
    DeadlineExceeded,
    EngineBroke,
    EngineFull,
    GrammarTooSlow,
    NoEngine,
    RuntimeFault,
    Unforeseen,
)
from runtime.event_queue import EventQueue
from runtime.events import Event
from runtime.jump_forward import JumpForward
from toolspecs.cancellation import to_the_end
from toolspecs.fairness.fair_threads import FairThreads

MAX_IDLE = 8
"""How many requests in a row may bring no token before the closer completes an output."""
MAX_ALLOWED = 256
"""Where a token was refused, the engine is sent the allowed ones, or if there are more, those refused."""
NUM_VERIFYING_THREADS = 4
"""Threads for outputs that take long to begin, verify or complete; one client has at most half of them."""

_log = logging.getLogger(__name__)

_Result = TypeVar("_Result")


class OutputWriter:
    """Has replicas of an engine write outputs; `jump_forward` None writes no forced text."""

    def __init__(
        self,
        replicas: Replicas,
        grammars: SentGrammars,
        builder: CompletionRequestBuilder,
        jump_forward: JumpForward | None,
    ) -> None:
        self._replicas = replicas
        self._grammars = grammars
        self._builder = builder
        self._jump_forward = jump_forward
        self._jump_lock = threading.Lock()
        self._threads = FairThreads(NUM_VERIFYING_THREADS, "callgate-verify")
        self._room_turns = RoomTurns()

    def begin(
        self, outputs: Sequence[VerifiedOutput], affinity: bytes, queue: EventQueue, ends_at: float | None
    ) -> tuple[asyncio.Task[None], ...]:
        """Begin to write the choices of a request, each in a task.

        Their events go to the queue, and so does an error that ends one. `affinity` chooses the replica. At
        `ends_at`, a time of the event loop's clock, they end with DeadlineExceeded.
        """
        return tuple(asyncio.create_task(self._write(output, affinity, queue, ends_at)) for output in outputs)

    async def _write(
        self, output: VerifiedOutput, affinity: bytes, queue: EventQueue, ends_at: float | None
    ) -> None:
        """Write one choice."""
        request, delivery, tries = output.request, ChoiceDelivery(queue), Tries(output, self._room_turns)
        try:
            async with asyncio.timeout_at(ends_at) as deadline:
                forced = await self._in_thread(output, partial(self._write_forced, output))
                if output.is_finished:
                    delivery.put(forced)
                else:
                    delivery.hold(forced)
                    await self._grammars.publish(request.recipe, request.client_id)
                await self._continue(output, affinity, delivery, tries)
        except RuntimeFault as fault:
            queue.put(fault)
        except MatchingTooSlow as error:
            queue.put(GrammarTooSlow(error.seconds))
        except Exception as error:  # noqa: BLE001 - a fault of ours ends its own request
            if isinstance(error, TimeoutError) and deadline.expired():
                queue.put(DeadlineExceeded())
            else:
                _log.error("an output at an external engine failed", exc_info=error)
                queue.put(Unforeseen())
        finally:
            tries.end_turn()

    def shutdown(self) -> None:
        """Accept no more outputs."""
        self._threads.shutdown()

    def _write_forced(self, output: VerifiedOutput) -> list[Event]:
        with self._jump_lock:  # `JumpForward` is not thread-safe
            return output.write_forced(self._jump_forward)

    async def _continue(
        self, output: VerifiedOutput, affinity: bytes, delivery: ChoiceDelivery, tries: Tries
    ) -> None:
        """Have engines continue an output until it ends.

        Where no other replica takes requests, the same one is asked again.
        """
        request = output.request
        while not output.is_finished:
            replica = self._next_replica(output, affinity, tries.failed)
            if replica is None:
                delivery.put(await self._in_thread(output, output.close))
                break
            if await tries.wait_for_room(replica):
                continue  # another may have room now, or this one may take no more requests
            output.resume()
            try:
                await self._ask(replica, output, delivery, tries)
            except EngineBroke as fault:
                if output.is_finished:
                    break
                tries.add(replica, fault)
                if isinstance(fault, EngineFull):
                    output.not_taken()
                else:
                    await self._grammars.publish(request.recipe, request.client_id, is_again=True)
            if output.state is OutputState.REFUSED:
                replica.refused_token(is_expected=not self._grammars.applies_guards)
            if output.is_open and not self._grammars.applies_guards:
                delivery.put(await self._in_thread(output, partial(self._write_forced, output)))
        delivery.end()

    def _next_replica(
        self, output: VerifiedOutput, affinity: bytes, failed: Mapping[Replica, EngineBroke]
    ) -> Replica | None:
        """The replica that continues an output; None if the closer is to complete it."""
        if output.state is OutputState.OVER_BUDGET or output.num_refused > self._grammars.max_refused:
            return None
        if output.num_idle > MAX_IDLE:
            return None
        try:
            return self._replicas.choose(affinity, failed)
        except NoEngine:
            if output.num_refused or output.state is OutputState.LEFT_OUT:
                return None
            if failed:
                raise next(iter(failed.values())) from None
            raise

    async def _ask(
        self, replica: Replica, output: VerifiedOutput, delivery: ChoiceDelivery, tries: Tries
    ) -> None:
        """Have one engine continue an output, until the output ends or a token is refused.

        Raises:
            EngineFault: the engine broke off, refused the request, or has no plugin.
        """
        assert replica.model is not None, "a replica that takes requests has passed the canary"
        request = output.request
        tries.begin()
        make = partial(self._completion_request, replica.model.model_id, output)
        completion_request = await self._in_thread(output, make)
        request.times.note_begun()
        name = replica.client.name
        answer = EngineAnswer(name, self._grammars.watch(name) if request.recipe is not None else None)
        async with (
            replica.request(request.client_id) as stall_clock,
            replica.client.completion(completion_request, request.trace_headers) as chunks,
        ):
            async for chunk in chunks:
                tokens = answer.read(chunk, stall_clock)
                if chunk.tokens:
                    request.times.note_token()
                    tries.note_tokens()
                if chunk.num_cached is not None:
                    delivery.note_cached(chunk.num_cached, output)
                with stall_clock.stopped():
                    await deliver_verified(
                        output, tokens, delivery, partial(self._threads.submit, request.client_id)
                    )
                if output.is_finished:
                    await self._deliver_end(replica, output, delivery, chunks, is_done=answer.is_done)
                if not output.is_open:
                    return
            answer.check_end()  # in here, where it counts as a failure of the replica
        goes_on = not self._grammars.applies_guards
        delivery.put(output.engine_stopped(is_cut=answer.is_cut, goes_on=goes_on))

    def _completion_request(self, model_id: str, output: VerifiedOutput) -> CompletionRequest:
        """The request to an engine: for the rest, or for one token if it wrote one that may not stand here.

        That one and markers that were left out are unwanted; a mark says so itself.
        """
        is_single = bool(output.refused_ids) and not self._grammars.applies_guards
        allowed = output.position.allowed_ids(MAX_ALLOWED) if is_single else ()
        grammar = None if allowed else self._grammars.of_output(output)
        completion_request = self._builder.build(model_id, output, grammar)
        if self._grammars.applies_guards:
            return completion_request
        unwanted = (*output.left_out_ids, *(output.refused_ids if is_single else ()))
        completion_request = replace(completion_request, unwanted_ids=unwanted)
        if not is_single:
            return completion_request
        return replace(completion_request, max_tokens=1, allowed_ids=allowed)

    async def _deliver_end(
        self,
        replica: Replica,
        output: VerifiedOutput,
        delivery: ChoiceDelivery,
        chunks: AsyncIterator[EngineChunk],
        *,
        is_done: bool,
    ) -> None:
        """Deliver the end of a complete output. `is_done`: its engine has also said that it is done.

        If the engine reports at the end how much of the prompt was cached, this waits for that report.
        """
        if not (replica.client.reports_cached and output.num_requests == 1):
            delivery.end()
        try:
            may_tell = is_done or (output.is_exhausted and replica.client.reports_cached)
            if may_tell and (num_cached := await read_num_cached(chunks)):
                delivery.note_cached(num_cached, output)
        finally:  # also at the deadline: the output is whole
            delivery.end()

    async def _in_thread(self, output: VerifiedOutput, work: Callable[[], _Result]) -> _Result:
        """Work on an output in a thread, as soon as its client may have one; no client can take them all.

        When this is cancelled, it still waits for work that has started, so that nobody else uses the output
        meanwhile.
        """
        submitted = self._threads.submit(output.request.client_id, work)
        return await to_the_end(asyncio.wrap_future(submitted), submitted.cancel)
