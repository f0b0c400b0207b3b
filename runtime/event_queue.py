"""The queue of a request's events: those who write its choices fill it, and one reader empties it.

    queue = EventQueue(request.num_choices)
    ...  # whoever writes a choice calls `put`, or from another thread `deliver`
    while queue.num_open:
        for event in await queue.take():
            yield event

A choice's events come in the order in which they were put. An error ends the whole request.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress

from runtime.events import Event, Finished, PromptRendered

Delivery = Sequence[PromptRendered | Event] | Exception
"""Events, at least one, or the error that ends a request."""


class EventQueue:
    """The events of a request. It belongs to the event loop that it was made on."""

    def __init__(self, num_choices: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.num_open = num_choices
        """The choices whose last event has not been taken."""
        self._deliveries: asyncio.Queue[Delivery] = asyncio.Queue()

    def put(self, delivery: Delivery) -> None:
        """Deliver; call this on the queue's own event loop."""
        self._deliveries.put_nowait(delivery)

    async def take(self) -> Sequence[PromptRendered | Event]:
        """The next events, at least one. Raises the error that ended the request, if one did."""
        delivery = await self._deliveries.get()
        if isinstance(delivery, Exception):
            raise delivery
        self.num_open -= sum(isinstance(event, Finished) for event in delivery)
        return delivery


def deliver(deliveries: Iterable[tuple[EventQueue, Delivery]]) -> None:
    """Deliver from any thread, waking each event loop once. A closed event loop gets nothing."""
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[tuple[EventQueue, Delivery]]] = defaultdict(list)
    for queue, delivery in deliveries:
        by_loop[queue.loop].append((queue, delivery))
    for loop, batch in by_loop.items():
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_put_all, batch)


def _put_all(batch: list[tuple[EventQueue, Delivery]]) -> None:
    for queue, delivery in batch:
        queue.put(delivery)
