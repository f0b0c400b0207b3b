"""The engines that failed one output, and how the output waits for room if all engines are full.

An output waits only if a part or a draft of the answer is written, or another choice of it may still begin.
Otherwise the client is told to try again. Outputs that wait take turns: one of them asks, and the next one
once that one is not refused any more. Clients that wait take turns, too, however many outputs each has.
"""

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager

from runtime.engines.replica import Replica
from runtime.engines.verified_output import VerifiedOutput
from runtime.errors import EngineBroke, EngineFull
from toolspecs.fairness.fair_turns import FairTurns

MAX_TRIES = 2
"""How many engines may break off in a row, without a token between, before an output fails."""
MAX_BROKEN = 8
"""How many may break off one output, whatever they wrote."""
MAX_WAIT_S = 120.0
"""How long outputs wait for room in full engines while none of them finds any."""
REFUSAL_S = 0.5
"""How long an engine takes at most to refuse a request for want of room. Others that wait may ask then."""


class RoomTurns(FairTurns):
    """The turns of a model's outputs to ask full engines; one that finds room gives the others more time."""

    def __init__(self) -> None:
        super().__init__()
        self._found_at = -math.inf
        self._limits: set[asyncio.Timeout] = set()

    def note_found(self) -> None:
        """An output that waited has found room."""
        self._found_at = asyncio.get_running_loop().time()
        for limit in self._limits:
            if not limit.expired():
                limit.reschedule(self._found_at + MAX_WAIT_S)

    @contextmanager
    def limiting(self, limit: asyncio.Timeout, since: float) -> Iterator[None]:
        """Inside the block, `limit` is that of an output that has waited since then."""
        limit.reschedule(max(since, self._found_at) + MAX_WAIT_S)
        self._limits.add(limit)
        try:
            yield
        finally:
            self._limits.remove(limit)


class Tries:
    """What came of asking engines for one output; all outputs of a model share `turns`."""

    def __init__(self, output: VerifiedOutput, turns: RoomTurns) -> None:
        self.failed: dict[Replica, EngineBroke] = {}
        """How replicas failed the output; of full ones, only since it last waited for room."""
        self._output = output
        self._turns = turns
        self._has_turn = False
        self._passing: asyncio.TimerHandle | None = None
        self._waits_since: float | None = None
        """When it first waited since its last token."""
        self._num_in_a_row = 0
        self._num_broken = 0

    def begin(self) -> None:
        """An engine is to be asked. Another output may ask soon, also if this one takes long to do so."""
        self._keep_turn()
        if self._has_turn:
            self._passing = asyncio.get_running_loop().call_later(REFUSAL_S, self.end_turn)

    def note_tokens(self) -> None:
        """Tokens came, so that an engine had room."""
        self._num_in_a_row = 0
        if self._waits_since is not None:
            self._waits_since = None
            self._turns.note_found()
        self.end_turn()

    def add(self, replica: Replica, fault: EngineBroke) -> None:
        """Note how a replica failed; raises the fault if too many have broken off."""
        self.failed[replica] = fault
        if isinstance(fault, EngineFull):
            self._keep_turn()
            return
        self.end_turn()
        self._num_in_a_row += 1
        self._num_broken += 1
        if self._num_in_a_row >= MAX_TRIES or self._num_broken >= MAX_BROKEN:
            raise fault

    async def wait_for_room(self, replica: Replica) -> bool:
        """Wait if the replica that is next was full, since then no other is left to be asked; whether it did.

        Raises:
            EngineFull: it must not wait, so that its client can try again; or all have waited too long.
        """
        if not isinstance(self.failed.get(replica), EngineFull):
            return False
        full = [error for error in self.failed.values() if isinstance(error, EngineFull)]
        fault = min(full, key=lambda error: error.retry_after_s)
        if not self._may_wait():
            raise fault
        if self._waits_since is None:
            self._waits_since = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(None) as limit:
                with self._turns.limiting(limit, self._waits_since):
                    await self._wait(fault.retry_after_s)
        except TimeoutError:
            raise fault from None
        self.failed = {one: error for one, error in self.failed.items() if error not in full}
        return True

    def end_turn(self) -> None:
        """Let the next output that waits ask: tokens came for this one, or it asks no more."""
        self._keep_turn()
        if self._has_turn:
            self._has_turn = False
            self._turns.pass_on()

    def _may_wait(self) -> bool:
        """Whether another choice of the answer, or a draft of it, has begun, or another may still begin."""
        request = self._output.request
        request.refused_choices.add((request.request_id, self._output.choice))
        has_begun = request.times.decode_ns is not None
        return has_begun or len(request.refused_choices) < request.num_choices + request.num_siblings

    async def _wait(self, retry_after_s: float) -> None:
        """Wait for the turn or, if no other output has it, for as long as an engine says."""
        is_next = self._has_turn or not self._turns.is_taken
        if not self._has_turn:
            await self._turns.take(self._output.request.client_id)
            self._has_turn = True
        if is_next:
            await asyncio.sleep(retry_after_s)

    def _keep_turn(self) -> None:
        if self._passing is not None:
            self._passing.cancel()
            self._passing = None
