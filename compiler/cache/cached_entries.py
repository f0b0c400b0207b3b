"""Entries of the grammar cache, one by one, through its tiers: from memory, from the store, or compiled.

What is stored is the lowered grammar with its report, compressed and signed. A stored schema is not lowered
again, and the back end compiles its grammar faster than the compiled form could be read. An entry is a miss
if its signature is wrong, or if it is of another vocabulary, xgrammar or version of the lowering.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from compiler.cache.cache_observer import CacheObserver
from compiler.cache.grammar_store import GrammarStore
from compiler.cache.single_flight import RecentRefusals, SingleFlight
from compiler.cache_entry import CacheEntry
from compiler.errors import (
    CompilerOverloaded,
    CorruptUnit,
    LimitReached,
    NotTried,
    TakesLonger,
)
from compiler.isolation.compile_job import CompileJob, CompilePool, KeyedJob
from compiler.isolation.compile_queue import CompileQueue, CompileTurn
from compiler.isolation.limits import CompileBudget
from compiler.prepared_vocabulary import PreparedVocabulary
from toolspecs.cancellation import to_the_end
from toolspecs.errors import StoreFull
from toolspecs.lru_cache import LruCache

_SLOW_MS = 200.0


@dataclass(frozen=True, slots=True)
class EntryLookup:
    """An entry that was looked up under a key, and where it came from: memory, store or compiled."""

    key: str
    entry: CacheEntry
    source: str


@dataclass(frozen=True, slots=True)
class _WantedEntry:
    """An entry that a request needs, the job that compiles it, and what that may cost the request."""

    key: str
    job: CompileJob
    prepared: PreparedVocabulary
    budget: CompileBudget

    @property
    def client_id(self) -> str:
        return self.budget.client_id


class CachedEntries:
    """Entries by key: from an LRU cache in memory, else from the store, else from the pool that compiles.

    `on_kept` is called with each entry that comes into memory.
    """

    def __init__(
        self,
        store: GrammarStore,
        pool: CompilePool,
        *,
        memory_bytes: int,
        observer: CacheObserver,
        on_kept: Callable[[str, CacheEntry], None],
    ) -> None:
        self.memory: LruCache[CacheEntry] = LruCache(memory_bytes)
        self.queue = CompileQueue(pool.num_workers, pool.limits)
        """The turns in which clients compile."""
        self._store = store
        self._pool = pool
        self._observer = observer
        self._on_kept = on_kept
        # What one client waits for is never queued among the jobs of another; only what runs is shared.
        self._wanted: SingleFlight[EntryLookup] = SingleFlight(stops_unwanted=True)
        self._running: SingleFlight[EntryLookup] = SingleFlight()
        self._refusals = RecentRefusals()
        self._preparing: set[asyncio.Task[None]] = set()
        self._slow = CompileQueue(1, pool.limits)

    async def close(self) -> None:
        """Cancel what is being compiled and prepared."""
        tasks = list(self._preparing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(self._wanted.cancel(), self._running.cancel(), *tasks, return_exceptions=True)

    async def find_all(
        self, jobs: Sequence[KeyedJob], prepared: PreparedVocabulary, budget: CompileBudget
    ) -> list[EntryLookup | BaseException]:
        """The entry of each job, or the error that it ended with: UnsupportedSchema if it is refused.

        Much cheaper for many jobs whose entries are in memory or in the store than to find them one by one.
        """
        stored = await self._load_many(jobs, prepared, budget.client_id)
        known = [self._known(key, stored) for key, _ in jobs]
        wanted = [
            _WantedEntry(*keyed, prepared, budget)
            for keyed, found in zip(jobs, known, strict=True)
            if not found
        ]
        found = iter(await asyncio.gather(*map(self._join, wanted), return_exceptions=True))
        return [lookup or next(found) for lookup in known]

    async def _load_many(
        self, jobs: Sequence[KeyedJob], prepared: PreparedVocabulary, client_id: str
    ) -> Mapping[str, CacheEntry]:
        """Load the stored entries of those jobs that are not in memory, in one round trip.

        Returns them by key. Entries that take long to prepare are left out; `_fetch` loads those one by one.
        """
        missing = {
            key: job
            for key, job in jobs
            if _flight_key(client_id, key) not in self._wanted and self.memory.get(key) is None
        }
        contents = await self._store.load_many(list(missing)) if len(missing) > 1 else {}
        if not contents:
            return {}
        entries = await asyncio.to_thread(_read_many, contents, missing, prepared)
        quick = {
            key: entry for key, entry in entries.items() if entry.can_compile_lazily or _is_quick_unit(entry)
        }
        for key, entry in quick.items():
            self._keep(key, entry, "store")
        self._prepare_later([entry for entry in quick.values() if not entry.can_compile_lazily], client_id)
        return quick

    def _prepare_later(self, entries: Sequence[CacheEntry], client_id: str) -> None:
        """Prepare entries in the background."""
        if entries:
            task = asyncio.create_task(self._prepare(entries, client_id))
            self._preparing.add(task)
            task.add_done_callback(self._preparing.discard)

    async def _prepare(self, entries: Sequence[CacheEntry], client_id: str) -> None:
        """Prepare entries one at a time. A call that needs one earlier prepares it itself."""
        with suppress(CompilerOverloaded):
            for entry in entries:
                async with self._slow.turn(client_id):
                    await asyncio.to_thread(entry.prepare)

    def _known(self, key: str, loaded: Mapping[str, CacheEntry]) -> EntryLookup | None:
        """The entry of a key if it is in memory, or has just been loaded from the store."""
        return EntryLookup(key, loaded[key], "store") if key in loaded else self.in_memory(key)

    def in_memory(self, key: str) -> EntryLookup | None:
        """The entry of a key if it is in memory."""
        entry = self.memory.get(key)
        return None if entry is None else EntryLookup(key, entry, "memory")

    async def _join(self, wanted: _WantedEntry) -> EntryLookup:
        """Fetch an entry, or wait for another request of the client that fetches it."""
        flight = _flight_key(wanted.client_id, wanted.key)
        while True:
            is_own = flight not in self._wanted
            try:
                with nullcontext() if is_own else self._observer.joining(wanted.key):
                    return await self._wanted.join(flight, lambda: self._fetch(wanted))
            except NotTried:
                if is_own:
                    raise  # otherwise the budget of another request is used up, not this one's

    async def _fetch(self, wanted: _WantedEntry) -> EntryLookup:
        """Load an entry from the store or, when the client's turn has come, compile it."""
        async with wanted.budget.loads:
            entry = await self._load(wanted)
        if entry is not None:
            return self._keep(wanted.key, entry, "store")
        self._refusals.check(wanted.client_id, wanted.key)
        wanted.budget.check()
        async with wanted.budget.workers, self.queue.turn(wanted.client_id) as turn:
            return await self._compile_in(turn, wanted)

    async def _compile_in(self, turn: CompileTurn, wanted: _WantedEntry) -> EntryLookup:
        """Compile an entry in its turn, unless it was compiled for another client in the meantime."""
        key = wanted.key
        for is_long in (False, True):
            if is_long:
                await turn.lengthen()
            wanted.budget.check()
            cached = self.memory.get(key)
            if cached is not None:
                return EntryLookup(key, cached, "compiled")
            work = partial(self._compile, wanted, is_long=is_long)
            flight = f"{key} {is_long}"
            try:
                with self._observer.joining(key) if flight in self._running else nullcontext():
                    return await to_the_end(self._running.join(flight, work))
            except TakesLonger:
                continue
            except LimitReached as refusal:
                wanted.budget.count_limit_reached()
                self._refusals.add(wanted.client_id, key, refusal)
                raise
        raise AssertionError("a long job never takes longer")

    async def _compile(self, wanted: _WantedEntry, *, is_long: bool) -> EntryLookup:
        key, job, client_id = wanted.key, wanted.job, wanted.client_id
        async with self._store.lease(key):
            # Another replica may have compiled it while this one waited for the lease.
            entry = await self._load(wanted)
            source = "store"
            if entry is None:
                with self._observer.compiling(key, job.task):
                    content = await self._pool.run(job, wanted.prepared, is_long=is_long, client_id=client_id)
                    entry = await self._read(content, wanted)
                source = "compiled"
                with suppress(StoreFull):
                    await self._store.save(key, content, client_id)
        return self._keep(key, entry, source)

    async def _load(self, wanted: _WantedEntry) -> CacheEntry | None:
        content = await self._store.load(wanted.key)
        if content is None:
            return None
        try:
            return await self._read(content, wanted)
        except CorruptUnit as error:
            self._store.log_rejected(wanted.key, error)
            return None

    async def _read(self, content: bytes, wanted: _WantedEntry) -> CacheEntry:
        """Read an entry, and prepare it in a thread unless that can wait; slow ones one at a time."""
        entry = await asyncio.to_thread(CacheEntry.from_bytes, content, wanted.prepared, wanted.job.task)
        if not entry.can_compile_lazily:
            is_slow = entry.compile_ms > _SLOW_MS
            turn: AbstractAsyncContextManager[Any] = (
                self._slow.turn(wanted.client_id) if is_slow else nullcontext()
            )
            async with turn:
                await asyncio.to_thread(entry.prepare)
        return entry

    def _keep(self, key: str, entry: CacheEntry, source: str) -> EntryLookup:
        self.memory.put(key, entry, entry.num_bytes + entry.report.num_characters)
        self._on_kept(key, entry)
        return EntryLookup(key, entry, source)


def _read_many(
    contents: Mapping[str, bytes], jobs_by_key: Mapping[str, CompileJob], prepared: PreparedVocabulary
) -> dict[str, CacheEntry]:
    """The entries in stored contents, by key; corrupt ones are left out."""
    entries = {}
    for key, content in contents.items():
        with suppress(CorruptUnit):  # `_load` logs it when it loads this entry alone
            entries[key] = CacheEntry.from_bytes(content, prepared, jobs_by_key[key].task)
    return entries


def _flight_key(client_id: str, key: str) -> str:
    return f"{client_id} {key}"


def _is_quick_unit(entry: CacheEntry) -> bool:
    return entry.is_of_tool and entry.compile_ms < _SLOW_MS
