"""One server of an engine: whether it takes requests, and which of them run there.

A replica takes requests once it has passed the canary (`runtime.engines.canary`). When it fails, its
*circuit* opens, and it takes no more. After a delay, which doubles with each failure, the canary tries it
again, not a client's request. A replica that does not answer at all is still asked for its health as often as
a working one.
"""

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial

from runtime.engines.client import EngineClient, ServedModel
from runtime.errors import (
    CanaryUnfinished,
    EngineBroke,
    EngineFault,
    EngineFull,
    EngineUnreachable,
    PluginMissing,
)
from runtime.protocol import Circuit, ReplicaState
from toolspecs.nearest import quoted_names

logger = logging.getLogger(__name__)

MAX_FAILURES = 3
"""How many requests in a row may fail before a replica's circuit opens."""
_UNCHECKED = "has not been checked yet"


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How often a replica is checked, and how long things may take, in seconds.

    A running request is abandoned once it has waited `stall_s` for the engine's next token.
    """

    probe_s: float = 5.0
    canary_s: float = 300.0
    first_retry_s: float = 1.0
    last_retry_s: float = 30.0
    stall_s: float = 120.0


Check = Callable[[EngineClient, ServedModel], Awaitable[None]]
"""The canary: raises EngineFault if an engine must not be used."""


class StallClock:
    """How much longer a request waits for its engine's next token; other waits do not count."""

    def __init__(self, scope: asyncio.Timeout, stall_s: float, note_tokens: Callable[[], None]) -> None:
        self._scope = scope
        self._stall_s = stall_s
        self._note_tokens = note_tokens
        self.is_abandoned = False
        """Whether the replica was found dead."""

    def restart(self) -> None:
        """Tokens came."""
        self._note_tokens()
        self._wait(self._stall_s)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Inside the block, the request waits for something else than its engine."""
        ends_at = self._scope.when()
        assert ends_at is not None, "a clock is stopped once at a time"
        left_s = ends_at - asyncio.get_running_loop().time()
        self._reschedule(None)
        try:
            yield
        finally:
            self._wait(left_s)

    def abandon(self) -> None:
        """Wait no longer: the replica is dead."""
        self._wait(0)
        self.is_abandoned = True

    def _wait(self, seconds: float) -> None:
        self._reschedule(asyncio.get_running_loop().time() + seconds)

    def _reschedule(self, ends_at: float | None) -> None:
        if not (self.is_abandoned or self._scope.expired()):
            self._scope.reschedule(ends_at)


class Replica:
    """One server of an engine: its circuit, its load and its counters."""

    def __init__(self, client: EngineClient, settings: WatchSettings) -> None:
        self.client = client
        self.model: ServedModel | None = None
        self.version = ""
        self.circuit = Circuit.OPEN
        self.reason = _UNCHECKED
        self.num_served = 0
        self.num_failed = 0
        self.num_refused_tokens = 0
        self.num_expected_refusals = 0
        self._settings = settings
        self._running: set[StallClock] = set()
        self._failed: Counter[str] = Counter()
        """How many requests of each client have failed since the last success."""
        self._newest_at = -math.inf
        """When the last one began of all requests for which tokens have come; on the monotonic clock."""
        self._tokens_at = -math.inf
        """When tokens last came for a client's request."""
        self._passed_at = -math.inf
        """When it last passed the canary."""
        self._is_suspected = False
        """Whether something came up since then that asks for the canary before its time."""
        self._is_healthy = False
        """Whether it said so when it was last checked."""
        self._is_due = asyncio.Event()
        """Set when the next check should come at once."""

    @property
    def num_running(self) -> int:
        """The number of this gateway's requests that it is computing."""
        return len(self._running)

    @asynccontextmanager
    async def request(self, client_id: str = "") -> AsyncIterator[StallClock]:
        """Count a request of a client on this replica for the length of the block.

        The block must restart the yielded clock whenever tokens come, and stop it where it waits for others.

        Raises:
            EngineBroke: no tokens came for too long, or the replica was found dead.
            EngineFull: the block raised it; the replica is kept while it writes for others.
            PluginMissing: the block raised it; the canary will look.
        """
        begun_at = time.monotonic()
        scope = asyncio.timeout(self._settings.stall_s)
        stall_clock = StallClock(scope, self._settings.stall_s, partial(self._note_tokens, begun_at))
        try:
            async with scope:
                self._running.add(stall_clock)
                try:
                    yield stall_clock
                finally:
                    self._running.discard(stall_clock)
        except TimeoutError as error:
            if not scope.expired():
                raise
            stalled = EngineBroke(self.client.name, "stopped answering")
            if stall_clock.is_abandoned:
                self.num_failed += 1
            elif self._newest_at >= begun_at:  # it had room, or has had some for one that came later
                self.failed(stalled, client_id)
                self.suspect()
            else:
                self._found_no_room(stalled, client_id)
            raise stalled from error
        except EngineFull as error:
            self._found_no_room(error, client_id)
            raise
        except EngineBroke as error:
            self.failed(error, client_id)
            raise
        except PluginMissing:
            self.suspect()
            raise
        else:
            self._failed.clear()
            self.num_served += 1

    def _found_no_room(self, error: EngineBroke, client_id: str) -> None:
        """Count a request that only waited behind those of others, or was refused for want of room.

        If the engine writes for nobody, it has failed like any other.
        """
        if self._writes_since(time.monotonic() - self._settings.probe_s):
            self.num_failed += 1
        else:
            self.failed(error, client_id)

    def failed(self, error: EngineFault, client_id: str = "") -> None:
        """Count a failed request; after several, the replica takes no more until it has passed the canary.

        Running requests continue: one client's requests may fail while those of others do not. If all these
        failures are of one client, the replica takes requests until the canary has run.
        """
        self.num_failed += 1
        self._failed[client_id] += 1
        is_broken = self._failed.total() >= MAX_FAILURES
        if isinstance(error, EngineUnreachable) or (is_broken and len(self._failed) > 1):
            self._open_circuit(error.reason)
        elif is_broken:
            self.suspect()

    def refused_token(self, *, is_expected: bool) -> None:
        """Count a refused token; `is_expected` if the engine applies no guards."""
        self.num_refused_tokens += 1
        self.num_expected_refusals += is_expected
        if not is_expected:
            self.suspect()

    def suspect(self) -> None:
        """Let the canary run soon: requests or tokens failed, or the plugin seems to be missing."""
        if self._canary_age_s() > self._settings.probe_s:
            self._is_suspected = True
            self._is_due.set()

    def _note_tokens(self, begun_at: float) -> None:
        """Tokens came for a request that began then."""
        self._tokens_at = time.monotonic()
        self._newest_at = max(self._newest_at, begun_at)

    def _writes_since(self, since: float) -> bool:
        """Whether tokens came for clients after a time of the monotonic clock: then the engine works."""
        return self._tokens_at > since

    def _canary_age_s(self) -> float:
        return time.monotonic() - self._passed_at

    def mark_dead(self, reason: str) -> None:
        """Take no more requests and abandon the running ones: the replica is dead."""
        self._open_circuit(reason)
        for stall_clock in self._running:
            stall_clock.abandon()

    def _open_circuit(self, reason: str) -> None:
        if self.reason != reason:
            logger.warning("the engine %s takes no requests: %s", self.client.name, reason)
        self.circuit, self.reason = Circuit.OPEN, reason
        self._is_due.set()

    def state(self, model_id: str) -> ReplicaState:
        """What is known of the replica."""
        age_s = self._canary_age_s()
        return ReplicaState(
            model_id=model_id,
            name=self.client.name,
            circuit=self.circuit,
            reason=self.reason,
            version=self.version,
            num_running=self.num_running,
            num_served=self.num_served,
            num_failed=self.num_failed,
            num_refused_tokens=self.num_refused_tokens,
            num_expected_refusals=self.num_expected_refusals,
            canary_age_s=None if math.isinf(age_s) else age_s,
            is_untried=self.reason == _UNCHECKED,
        )

    async def watch(self, model_name: str | None, check: Check) -> None:
        """Check the replica regularly, until cancelled."""
        retry_s = self._settings.first_retry_s
        while True:
            await self._check(model_name, check)
            self._is_due.clear()
            if self.circuit is Circuit.CLOSED:
                wait_s, retry_s = self._settings.probe_s, self._settings.first_retry_s
            else:
                # A dead replica is only asked for its health, so it may be asked as often as a working one.
                longest_s = self._settings.last_retry_s if self._is_healthy else self._settings.probe_s
                wait_s, retry_s = min(retry_s, longest_s), min(2 * retry_s, self._settings.last_retry_s)
            try:
                async with asyncio.timeout(wait_s):
                    await self._is_due.wait()
            except TimeoutError:
                continue

    async def _check(self, model_name: str | None, check: Check) -> None:
        """Probe the replica, and run the canary if it is due."""
        try:
            await self._probe()
        except EngineFault:
            return
        if self.circuit is not Circuit.CLOSED:
            self.circuit = Circuit.TRIAL
        elif not self._is_suspected and self._canary_age_s() < self._settings.canary_s:
            return
        begun_at = time.monotonic()
        try:
            await self._try(model_name, check)
        except (CanaryUnfinished, EngineFull) as fault:
            if not self._is_full(begun_at):
                self._open_circuit(fault.reason)
        except EngineFault as fault:
            self._open_circuit(fault.reason)  # running requests continue: each of their tokens is verified
        except Exception as error:  # a fault of ours must not end the watch
            logger.exception("the canary of the engine %s failed", self.client.name)
            self._open_circuit(f"could not be checked: {type(error).__name__}: {error}")

    def _is_full(self, begun_at: float) -> bool:
        """Whether the canary, begun then, found no room beside requests of clients, for which tokens came.

        An engine that fails or refused tokens is not excused.
        """
        is_in_use = self.circuit is Circuit.CLOSED and not self._is_suspected
        return is_in_use and self._writes_since(min(begun_at, time.monotonic() - self._settings.probe_s))

    async def _probe(self) -> None:
        """Ask for its health. A single missing answer is tolerated, as the server may be busy.

        Raises:
            EngineFault: it is not healthy, and marked dead.
        """
        self._is_healthy = False
        try:
            if not await self._is_well():
                raise EngineBroke(self.client.name, "says that it is not healthy")
        except EngineFault as fault:
            self.mark_dead(fault.reason)
            raise
        self._is_healthy = True

    async def _is_well(self) -> bool:
        """Whether it says that it is healthy, when it is asked once or twice."""
        try:
            return await self.client.is_healthy()
        except EngineBroke:
            return await self.client.is_healthy()

    async def _try(self, model_name: str | None, check: Check) -> None:
        self.version = await self.client.version()
        self.model = _served(self.client.name, await self.client.models(), model_name)
        await self._probe_during(check(self.client, self.model))
        self._passed_at = time.monotonic()
        self._is_suspected = False
        self._failed.clear()
        if self.circuit is not Circuit.CLOSED:
            logger.info("the engine %s takes requests", self.client.name)
        self.circuit, self.reason = Circuit.CLOSED, ""

    async def _probe_during(self, canary: Awaitable[None]) -> None:
        """Wait for the canary, which takes long where an engine is full, and go on probing meanwhile."""
        running = asyncio.ensure_future(canary)
        try:
            while not (await asyncio.wait([running], timeout=self._settings.probe_s))[0]:
                await self._probe()
            await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def _served(engine: str, models: Sequence[ServedModel], name: str | None) -> ServedModel:
    """The engine's model with this name, or its only model if `name` is None."""
    if name is None and len(models) == 1:
        return models[0]
    served_model = next((model for model in models if model.model_id == name), None)
    if served_model is None:
        served = quoted_names(model.model_id for model in models) or "none"
        if name is None:
            raise EngineBroke(engine, f"serves several models or none, so name one in the settings: {served}")
        raise EngineBroke(
            engine, f"does not serve the model of the settings: no {name!r}; it serves {served}"
        )
    return served_model
