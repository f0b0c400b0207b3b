"""The replicas of one engine: which of them gets a request.

Requests with the same *affinity* go to the same replica, because it has their prefix in its cache. If that
replica has more than its share of the load, they go to the next in their order (rendezvous hashing with
bounded loads).
"""

import asyncio
import hashlib
from collections.abc import Collection, Iterator, Sequence

from runtime.engines.client import EngineClient
from runtime.engines.replica import Check, Replica, WatchSettings
from runtime.errors import NoEngine
from runtime.protocol import Circuit, ReplicaState

LOAD_BOUND = 1.25
"""A replica has at most this many times the mean load, and one request more."""


class Replicas:
    """All replicas of one engine, each watched by a task."""

    def __init__(
        self, model_id: str, clients: Sequence[EngineClient], settings: WatchSettings | None = None
    ) -> None:
        self._model_id = model_id
        self._settings = settings or WatchSettings()
        self._replicas = tuple(Replica(client, self._settings) for client in clients)
        self._tasks: list[asyncio.Task[None]] = []

    def __iter__(self) -> Iterator[Replica]:
        return iter(self._replicas)

    def start(self, model_name: str | None, check: Check) -> None:
        """Begin to watch; replicas take requests once the canary has passed."""
        self._tasks = [asyncio.create_task(replica.watch(model_name, check)) for replica in self._replicas]

    async def close(self) -> None:
        """Stop watching, and close all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for replica in self._replicas:
            await replica.client.close()

    def states(self) -> tuple[ReplicaState, ...]:
        """The state of each replica."""
        return tuple(replica.state(self._model_id) for replica in self._replicas)

    def choose(self, affinity: bytes, without: Collection[Replica] = ()) -> Replica:
        """The replica for a request; one of those in `without` only if there is no other.

        Raises:
            NoEngine: none takes requests; the message says why for each.
        """
        closed = [replica for replica in self._replicas if replica.circuit is Circuit.CLOSED]
        candidates = [replica for replica in closed if replica not in without] or closed
        if not candidates:
            reasons = tuple(f"{replica.client.name} {replica.reason}" for replica in self._replicas)
            raise NoEngine(self._model_id, reasons, self._settings.first_retry_s)
        most = 1 + LOAD_BOUND * sum(replica.num_running for replica in candidates) / len(candidates)
        candidates.sort(key=lambda replica: _order_of(affinity, replica.client.name))
        return next(replica for replica in candidates if replica.num_running < most)


def _order_of(affinity: bytes, name: str) -> bytes:
    return hashlib.blake2b(affinity + name.encode(), digest_size=8).digest()
