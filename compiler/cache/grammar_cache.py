"""The grammar cache: grammars from memory, from the store, or compiled.

What is stored is the lowered grammar with its report, compressed and signed. A stored schema is not lowered
again, and the back end compiles its grammar faster than the compiled form could be read. An entry is a miss
if its signature is wrong, or if it is of another vocabulary, xgrammar or version of the lowering.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from compiler.cache.asked_already import RecentRefusals, SingleFlight, to_the_end
from compiler.cache.cache_observer import CacheObserver, Unobserved
from compiler.cache.grammar_index import CachedGrammar, CachedPart, GrammarIndex
from compiler.cache.grammar_store import GrammarStore
from compiler.cache_entry import CacheEntry, milliseconds_since
from compiler.constraint import Constraint
from compiler.errors import (
    CompilerOverloaded,
    CompilingUnfinished,
    CorruptUnit,
    LimitReached,
    NotReached,
    NotTried,
    TakesLonger,
    UnsupportedSchema,
    UnsupportedToolset,
)
from compiler.isolation.compile_job import CompileJob, CompilePool
from compiler.isolation.compile_queue import CompileQueue, CompileTurn
from compiler.isolation.limits import CompileBudget
from compiler.isolation.pools import ThreadPool
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.recipe import FormatKey, GrammarRecipe
from compiler.report import ToolReport
from compiler.response_format import ResponseFormat
from compiler.syntaxes import find_syntax
from compiler.units.unit import Unit
from toolspecs.errors import StoreUnavailable
from toolspecs.lru_cache import LruCache
from toolspecs.store import Store
from toolspecs.tool import ChoiceMode, KeyOrder, Tool, ToolChoice

_SOURCES = ("memory", "store", "compiled")
_SLOW_MS = 200.0
_KEYS_BYTES = 8 * 2**20
_MAX_ASKED = 100


@dataclass(frozen=True, slots=True)
class GrammarLookup:
    """A grammar that was looked up, and the recipe that it was linked by.

    `source`, of its slowest part: memory, store or compiled.
    """

    grammar: Constraint
    source: str
    wait_ms: float
    recipe: GrammarRecipe


class GrammarCache:
    """Grammars by content: an LRU cache in memory, bounded in bytes, behind it the store if there is one.

    Schemas are compiled by `compile_pool`, in threads of this process if it is None. One event loop owns the
    cache; it is not thread-safe.
    """

    def __init__(
        self,
        store: Store | None,
        *,
        memory_bytes: int = 512 * 2**20,
        secret: bytes,
        compile_pool: CompilePool | None = None,
        observer: CacheObserver | None = None,
    ) -> None:
        self._observer = observer or Unobserved()
        self._store = GrammarStore(store, secret)
        self._memory: LruCache[CacheEntry] = LruCache(memory_bytes)
        self._pool = compile_pool or ThreadPool()
        self._keys: LruCache[str] = LruCache(_KEYS_BYTES)
        self._queue = CompileQueue(self._pool.num_workers, self._pool.limits)
        # What one client waits for is never queued among the jobs of another; only what runs is shared.
        self._wanted: SingleFlight[tuple[CacheEntry, str]] = SingleFlight(stops_unwanted=True)
        self._running: SingleFlight[tuple[CacheEntry, str]] = SingleFlight()
        self._refusals = RecentRefusals()
        self._preparing: set[asyncio.Task[None]] = set()
        self._num_found: Counter[str] = Counter()
        self._index = GrammarIndex()
        self._slow = CompileQueue(1, self._pool.limits)

    @property
    def num_bytes(self) -> int:
        """The memory that cached grammars take, in bytes."""
        return self._memory.num_bytes

    @property
    def num_waiting(self) -> int:
        """How many schemas wait to be compiled."""
        return self._queue.num_waiting

    @property
    def num_entries(self) -> int:
        """How many grammars of tools and formats are in memory."""
        return len(self._memory)

    @property
    def num_found(self) -> Mapping[str, int]:
        """Grammars that requests needed, by the tier that had them: memory, store or compiled."""
        return {source: self._num_found[source] for source in _SOURCES}

    async def close(self) -> None:
        """Cancel what is being compiled and close the pool."""
        tasks = list(self._preparing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(self._wanted.cancel(), self._running.cancel(), *tasks, return_exceptions=True)
        await self._pool.close()

    async def toolset(
        self,
        tools: Sequence[Tool],
        *,
        prepared: PreparedVocabulary,
        syntax: str,
        choice: ToolChoice,
        parallel: bool = True,
        response_format: ResponseFormat | None = None,
        key_order: KeyOrder | None = None,
        share: str = "",
    ) -> GrammarLookup:
        """The linked grammar of `tools` under a tool choice.

        With the choice `auto` and a response format, an answer without calls is of that format. Without a
        `key_order`, every tool says its own. `share` stands for the client in the compile queue.

        Raises:
            UnsupportedToolset: some tools are refused; the error names all of them.
            UnsupportedSchema: the format is refused, or its texts cannot be told from calls.
            CompilingUnfinished: compiling takes longer than one request may take.
            CompilerOverloaded, WorkersUnavailable: nothing can be compiled right now.
        """
        start = time.perf_counter()
        find_syntax(syntax)  # before anything is compiled for it
        budget = self.compile_budget(share)
        found = await self._tools(tools, syntax, prepared, budget, key_order)
        keys = [(tool.name, one.key) for tool, one in zip(tools, found, strict=True)]
        answer = None
        if response_format is not None and choice.mode is ChoiceMode.AUTO:
            job = CompileJob.format(response_format, key_order or "declared")
            found.append(await self._format(job, prepared, budget))
            answer = FormatKey(response_format.kind, found[-1].key)
        recipe = GrammarRecipe.of_tools(
            keys,
            vocabulary=prepared.vocabulary.digest,
            syntax=syntax,
            choice=choice,
            is_parallel=parallel,
            answer=answer,
        )
        return self._linked(recipe, found, prepared, start)

    async def format(
        self,
        response_format: ResponseFormat,
        *,
        prepared: PreparedVocabulary,
        syntax: str | None = None,
        key_order: KeyOrder = "declared",
        share: str = "",
    ) -> GrammarLookup:
        """The grammar of a response format; with `syntax`, framed as models of that syntax frame answers.

        Raises:
            UnsupportedSchema: the format cannot be read or upheld, or no text is of it.
            CompilerOverloaded, WorkersUnavailable: nothing can be compiled right now.
        """
        start = time.perf_counter()
        budget = self.compile_budget(share)
        found = await self._format(CompileJob.format(response_format, key_order), prepared, budget)
        answer = FormatKey(response_format.kind, found.key)
        recipe = GrammarRecipe(prepared.vocabulary.digest, syntax, answer=answer)
        return self._linked(recipe, [found], prepared, start)

    async def check(
        self,
        tools: Sequence[Tool],
        *,
        prepared: PreparedVocabulary,
        syntax: str,
        budget: CompileBudget | None = None,
    ) -> list[ToolReport]:
        """Compile every tool ahead of its first request, and report on it; raises the errors of `toolset`.

        `budget` is for requests that ask for several such things.
        """
        found = await self._tools(tools, syntax, prepared, budget or self.compile_budget())
        return [
            ToolReport(tool.name, entry.unit.digest, entry.report, entry.num_bytes, entry.compile_ms)
            for tool, entry in zip(tools, (one.entry for one in found), strict=True)
        ]

    async def publish(self, recipe: GrammarRecipe, share: str | None) -> bool:
        """Store those entries of a recipe that are in memory but not, or no longer, in the store.

        False if some cannot be stored, since they left memory or the client of `share` has added as much as
        it may. The share None is the gateway itself, which has no limit.

        An engine that links the recipe reads them there. They expire there, or are evicted, while a gateway
        keeps them in memory.

        Raises:
            StoreUnavailable: the store fails, so that some may be missing.
        """
        for key in await self._store.missing(list(recipe.keys)):
            entry = self._memory.get(key)
            if entry is None or not await self._store.save(
                key, await asyncio.to_thread(entry.to_bytes), share
            ):
                return False
        self._store.check()
        return True

    async def find(self, digest: str) -> CachedGrammar | None:
        """The grammar or the part of that digest; None if this process has not used it, or long ago.

        The store is asked about a few parts only.
        """
        recipe, parts = self._index.find(digest)
        if not parts and recipe is None:
            return None
        asked = [key for _, _, key in parts[:_MAX_ASKED]]
        missing: Sequence[str] = asked
        with suppress(StoreUnavailable):
            missing = await self._store.missing(asked)
        return CachedGrammar(
            digest,
            tuple(CachedPart(name, kind, key, self._memory.peek(key)) for name, kind, key in parts),
            recipe,
            {key: self._store.is_used and key not in missing for key in asked},
        )

    async def covers(
        self, outer: Tool, inner: Tool, *, prepared: PreparedVocabulary, budget: CompileBudget | None = None
    ) -> bool:
        """Whether `outer` is proved to admit all arguments of `inner`; False if the proof takes too long."""
        if outer.custom and outer.custom.syntax == "lark":  # its schema admits more than its grammar
            return outer.custom == inner.custom
        if budget and budget.is_over:
            return False
        job, share = CompileJob.covers(outer, inner), budget.share if budget else ""
        try:
            async with self._queue.turn(share) as turn:
                with suppress(TakesLonger):
                    return await self._pool.run(job, prepared, is_long=False, share=share) == b"1"
                await turn.lengthen()
                return await self._pool.run(job, prepared, share=share) == b"1"
        except UnsupportedSchema:
            return False

    def compile_budget(self, share: str = "") -> CompileBudget:
        """A fresh budget for one request of the client that `share` stands for; its time starts now."""
        return CompileBudget(self._pool.limits, self._pool.num_workers, share)

    async def _tools(
        self,
        tools: Sequence[Tool],
        syntax: str,
        prepared: PreparedVocabulary,
        budget: CompileBudget,
        key_order: KeyOrder | None = None,
    ) -> "list[_Found]":
        jobs = await self._jobs(tools, syntax, prepared, key_order)
        stored = await self._stored(jobs, prepared, budget.share)
        lookups = [self._entry(job, prepared, budget, stored) for job in jobs]
        results = await asyncio.gather(*lookups, return_exceptions=True)
        self._count(results)
        refusals = [
            (tool.name, result)
            for tool, result in zip(tools, results, strict=True)
            if isinstance(result, UnsupportedSchema)
        ]
        if refusals and all(isinstance(refusal, NotReached) for _, refusal in refusals):
            raise CompilingUnfinished([name for name, _ in refusals], budget.seconds)
        if refusals:
            raise UnsupportedToolset(refusals)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if not isinstance(result, BaseException)]

    async def _format(self, job: CompileJob, prepared: PreparedVocabulary, budget: CompileBudget) -> "_Found":
        found = await self._entry(job, prepared, budget)
        self._count([found])
        return found

    def _keep(self, key: str, entry: CacheEntry) -> None:
        self._memory.put(key, entry, entry.num_bytes)
        self._index.add_part(key, entry)

    def _linked(
        self, recipe: GrammarRecipe, found: "Sequence[_Found]", prepared: PreparedVocabulary, start: float
    ) -> GrammarLookup:
        grammar = recipe.link({one.key: one.entry for one in found}, prepared)
        self._index.add_recipe(grammar.digest, recipe)
        source = max((one.source for one in found), key=_SOURCES.index, default="memory")
        return GrammarLookup(grammar, source, milliseconds_since(start), recipe)

    def _count(self, results: "Iterable[_Found | BaseException]") -> None:
        num_by_source = Counter(result.source for result in results if not isinstance(result, BaseException))
        self._num_found.update(num_by_source)
        self._observer.found(num_by_source)

    async def _jobs(
        self, tools: Sequence[Tool], syntax: str, prepared: PreparedVocabulary, key_order: KeyOrder | None
    ) -> list[CompileJob]:
        """The jobs of tools, with keys that are kept. Hashing large tools takes time, so a thread does it."""
        jobs = [
            CompileJob.tool(tool.parameters, syntax, tool.documents, tool.custom, key_order or tool.key_order)
            for tool in tools
        ]

        def kept_under(tool: Tool) -> str:
            return f"{tool.digest} {syntax} {prepared.vocabulary.digest} {key_order}"

        def compute() -> dict[str, str]:
            keys = {}
            for tool, job in zip(tools, jobs, strict=True):
                with suppress(UnsupportedSchema, RecursionError):  # `_entry` raises it again, for this job
                    keys[kept_under(tool)] = job.key(prepared.vocabulary)
            return keys

        if not all(tool.is_hashed and self._keys.get(kept_under(tool)) for tool in tools):
            for kept, found in (await asyncio.to_thread(compute)).items():
                self._keys.put(kept, found, len(kept) + len(found))
        for tool, job in zip(tools, jobs, strict=True):
            if tool.is_hashed and (key := self._keys.get(kept_under(tool))):
                job.keep_key(prepared.vocabulary, key)
        return jobs

    async def _stored(
        self, jobs: Sequence[CompileJob], prepared: PreparedVocabulary, share: str
    ) -> Mapping[str, CacheEntry]:
        """The stored entries of those jobs that are not in memory, read in one round trip.

        Entries that take long to prepare are left out; `_fetch` loads those one by one.
        """
        wanted: dict[str, CompileJob] = {}
        for job in jobs:
            with suppress(UnsupportedSchema):  # `_entry` raises it again, for this job alone
                wanted[job.key(prepared.vocabulary)] = job
        missing = [
            key for key in wanted if _flight(share, key) not in self._wanted and self._memory.get(key) is None
        ]
        contents = await self._store.load_many(missing) if len(missing) > 1 else {}

        def read() -> dict[str, CacheEntry]:
            entries = {}
            for key, content in contents.items():
                with suppress(CorruptUnit):  # `_load` logs it when it loads this entry alone
                    entries[key] = CacheEntry.from_bytes(content, prepared, wanted[key].task)
            return entries

        entries = await asyncio.to_thread(read) if contents else {}
        ready = {key: entry for key, entry in entries.items() if entry.can_wait or _is_quick_unit(entry)}
        for key, entry in ready.items():
            self._keep(key, entry)
        unprepared = [entry for entry in ready.values() if not entry.can_wait]
        if unprepared:
            task = asyncio.create_task(self._prepare(unprepared, share))
            self._preparing.add(task)
            task.add_done_callback(self._preparing.discard)
        return ready

    async def _prepare(self, entries: Sequence[CacheEntry], share: str) -> None:
        """Prepare entries one at a time in the background; a call that comes first prepares its own."""
        with suppress(CompilerOverloaded):
            for entry in entries:
                async with self._slow.turn(share):
                    await asyncio.to_thread(entry.prepare)

    async def _entry(
        self,
        job: CompileJob,
        prepared: PreparedVocabulary,
        budget: CompileBudget,
        stored: Mapping[str, CacheEntry] | None = None,
    ) -> "_Found":
        """The entry of a job, and where it came from."""
        try:
            return await self._looked_up(job, prepared, budget, stored or {})
        except NotTried:
            raise  # nothing is known about the schema
        except UnsupportedSchema as refusal:
            self._observer.refused(refusal)
            raise

    async def _looked_up(
        self,
        job: CompileJob,
        prepared: PreparedVocabulary,
        budget: CompileBudget,
        stored: Mapping[str, CacheEntry],
    ) -> "_Found":
        key = job.key(prepared.vocabulary)
        if key in stored:
            return _Found(key, stored[key], "store")
        cached = self._memory.get(key)
        if cached is not None:
            return _Found(key, cached, "memory")
        flight = _flight(budget.share, key)
        while True:
            is_own = flight not in self._wanted
            try:
                with nullcontext() if is_own else self._observer.joining(key):
                    found = await self._wanted.join(flight, lambda: self._fetch(key, job, prepared, budget))
                return _Found(key, *found)
            except NotTried:
                if is_own:
                    raise  # otherwise the budget of another request is used up, not this one's

    async def _fetch(
        self, key: str, job: CompileJob, prepared: PreparedVocabulary, budget: CompileBudget
    ) -> tuple[CacheEntry, str]:
        """From the store or, when the turn of the client's share has come, from the pool."""
        async with budget.loads:
            entry = await self._load(key, job, prepared, budget.share)
        if entry is not None:
            self._keep(key, entry)
            return entry, "store"
        self._refusals.check(budget.share, key)
        budget.check()
        async with budget.workers, self._queue.turn(budget.share) as turn:
            return await self._compile_in(turn, key, job, prepared, budget)

    async def _compile_in(
        self,
        turn: CompileTurn,
        key: str,
        job: CompileJob,
        prepared: PreparedVocabulary,
        budget: CompileBudget,
    ) -> tuple[CacheEntry, str]:
        """Compile a job in its turn, unless it was compiled for another client in the meantime."""
        for is_long in (False, True):
            if is_long:
                await turn.lengthen()
            budget.check()
            cached = self._memory.get(key)
            if cached is not None:
                return cached, "compiled"
            work = partial(self._compile, key, job, prepared, budget.share, is_long=is_long)
            flight = f"{key} {is_long}"
            try:
                with self._observer.joining(key) if flight in self._running else nullcontext():
                    return await to_the_end(self._running.join(flight, work))
            except TakesLonger:
                continue
            except LimitReached as refusal:
                budget.count_limit_reached()
                self._refusals.add(budget.share, key, refusal)
                raise
        raise AssertionError("a long job never takes longer")

    async def _compile(
        self, key: str, job: CompileJob, prepared: PreparedVocabulary, share: str, *, is_long: bool
    ) -> tuple[CacheEntry, str]:
        async with self._store.lease(key):
            # Another replica may have compiled it while this one waited for the lease.
            entry = await self._load(key, job, prepared, share)
            source = "store"
            if entry is None:
                with self._observer.compiling(key, job.task):
                    content = await self._pool.run(job, prepared, is_long=is_long, share=share)
                    entry = await self._read(content, job, prepared, share)
                source = "compiled"
                await self._store.save(key, content, share)
        self._keep(key, entry)
        return entry, source

    async def _load(
        self, key: str, job: CompileJob, prepared: PreparedVocabulary, share: str
    ) -> CacheEntry | None:
        content = await self._store.load(key)
        if content is None:
            return None
        try:
            return await self._read(content, job, prepared, share)
        except CorruptUnit as error:
            self._store.log_rejected(key, error)
            return None

    async def _read(
        self, content: bytes, job: CompileJob, prepared: PreparedVocabulary, share: str
    ) -> CacheEntry:
        """Read an entry, and prepare it in a thread unless that can wait; slow ones one at a time."""
        entry = await asyncio.to_thread(CacheEntry.from_bytes, content, prepared, job.task)
        if not entry.can_wait:
            is_slow = entry.compile_ms > _SLOW_MS
            turn: AbstractAsyncContextManager[Any] = self._slow.turn(share) if is_slow else nullcontext()
            async with turn:
                await asyncio.to_thread(entry.prepare)
        return entry


def _flight(share: str, key: str) -> str:
    return f"{share} {key}"


def _is_quick_unit(entry: CacheEntry) -> bool:
    return isinstance(entry.unit, Unit) and entry.compile_ms < _SLOW_MS


@dataclass(frozen=True, slots=True)
class _Found:
    """An entry that was looked up under a key, and where it came from."""

    key: str
    entry: CacheEntry
    source: str
