"""The engines that failed one output, and how the output waits for room if all engines are full.

An output waits only if a part or a draft of the answer is written, or another choice of it may still begin.
Otherwise the client is told to try again. Outputs that wait take turns: one of them asks, and the next one
once that one is not refused any more. Clients that wait take turns, too, however many outputs each has.
"""

import asyncio

from runtime.engines.replica import Replica
from runtime.engines.verified_output import VerifiedOutput
from runtime.errors import EngineBroke, EngineFull
from runtime.request import GenerationRequest
from toolspecs.fairness.fair_turns import FairTurns

MAX_TRIES = 2
"""How many engines may break off before an output fails."""
MAX_WAIT_S = 120.0
"""How long an output waits for room in full engines, together."""
REFUSAL_S = 0.5
"""How long an engine takes at most to refuse a request for want of room. Others that wait may ask then."""


class RequestRoom:
    """Whether engines have had room for the choices of one request, which share this."""

    def __init__(self, request: GenerationRequest) -> None:
        self._request = request
        self._refused: set[int] = set()

    def may_wait(self, choice: int) -> bool:
        """Whether a choice waits for the room that it was refused: another has begun, or may still do so.

        An earlier draft of the answer counts as well.
        """
        self._refused.add(choice)
        return self._request.times.decode_ns is not None or len(self._refused) < self._request.num_choices


class Tries:
    """What came of asking engines for one output; all outputs of a model share `turns`."""

    def __init__(self, output: VerifiedOutput, room: RequestRoom, turns: FairTurns) -> None:
        self.failed: dict[Replica, EngineBroke] = {}
        """How replicas failed the output; of full ones, only since it last waited for room."""
        self._output = output
        self._room = room
        self._turns = turns
        self._has_turn = False
        self._passing: asyncio.TimerHandle | None = None
        self._num_broken = 0
        self._left_s = MAX_WAIT_S

    def begin(self) -> None:
        """An engine is to be asked. Another output may ask soon, also if this one takes long to do so."""
        self._keep_turn()
        if self._has_turn:
            self._passing = asyncio.get_running_loop().call_later(REFUSAL_S, self.end_turn)

    def add(self, replica: Replica, fault: EngineBroke) -> None:
        """Note how a replica failed; raises the fault if too many have broken off."""
        self.failed[replica] = fault
        if isinstance(fault, EngineFull):
            self._keep_turn()
            return
        self.end_turn()
        self._num_broken += 1
        if self._num_broken >= MAX_TRIES:
            raise fault

    async def wait_for_room(self, replica: Replica) -> bool:
        """Wait if the replica that is next was full, since then no other is left to be asked; whether it did.

        Raises:
            EngineFull: it must not wait, so that its client can try again; or it has waited too long.
        """
        if not isinstance(self.failed.get(replica), EngineFull):
            return False
        full = [error for error in self.failed.values() if isinstance(error, EngineFull)]
        fault = min(full, key=lambda error: error.retry_after_s)
        if self._left_s <= 0 or not self._room.may_wait(self._output.choice):
            raise fault
        now = asyncio.get_running_loop().time
        begun_at = now()
        try:
            async with asyncio.timeout(self._left_s):
                await self._wait(fault.retry_after_s)
        except TimeoutError:
            raise fault from None
        finally:
            self._left_s -= now() - begun_at
        self.failed = {one: error for one, error in self.failed.items() if error not in full}
        return True

    def end_turn(self) -> None:
        """Let the next output that waits ask: tokens came for this one, or it asks no more."""
        self._keep_turn()
        if self._has_turn:
            self._has_turn = False
            self._turns.pass_on()

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
