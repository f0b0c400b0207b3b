"""Turns at something that one task has at a time: owners who wait take turns, however many tasks each has.

async with turns.of(owner):
    ...
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class FairTurns:
    """The tasks of an owner have their turns in the order of arrival. One event loop owns this."""

    def __init__(self) -> None:
        self.is_taken = False
        """Whether a task has a turn."""
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def of(self, owner: Hashable) -> AsyncIterator[None]:
        """Wait for a turn of an owner, and have it for as long as the block takes."""
        await self.take(owner)
        try:
            yield
        finally:
            self.pass_on()

    async def take(self, owner: Hashable) -> None:
        """Wait for a turn of an owner, and have it until `pass_on`."""
        if self.is_taken:
            await self._next_turn(owner)
        self.is_taken = True

    async def _next_turn(self, owner: Hashable) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was given the turn at the same time
                self.pass_on()
            raise

    def pass_on(self) -> None:
        """Give the turn to the owner who has waited longest, or to nobody."""
        while self._waiting:
            owner = next(iter(self._waiting))
            turns = self._waiting.pop(owner)
            turn = turns.popleft()
            if turns:
                self._waiting[owner] = turns  # after the others
            if not turn.cancelled():
                turn.set_result(None)
                return
        self.is_taken = False
