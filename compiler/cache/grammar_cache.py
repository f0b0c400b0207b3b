"""The grammar cache: memory, then the store, then compile; one flight per grammar.

What is stored is a grammar as it was lowered, and its report, compressed and authenticated: the schema is not
lowered again, and the back end rebuilds the compiled form faster than that could be read. An entry that does
not authenticate, or is of another vocabulary, another xgrammar or another version of the lowering, is a miss.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from opentelemetry import trace

from compiler.cache.grammar_store import GrammarStore
from compiler.cache_entry import CacheEntry
from compiler.constraint import Constraint
from compiler.errors import (
    CompilingUnfinished,
    CorruptUnit,
    LimitReached,
    NotReached,
    NotTried,
    UnsupportedSchema,
    UnsupportedToolset,
)
from compiler.isolation.compile_job import CompileJob, CompilePool
from compiler.isolation.limits import CompileBudget
from compiler.isolation.pools import ThreadPool
from compiler.linker.linker import link, link_format
from compiler.report import ToolReport
from compiler.response_format import ResponseFormat
from compiler.schema import CompiledSchema
from compiler.syntaxes import find_syntax
from compiler.units.unit import Unit
from compiler.vocabulary import Vocabulary
from toolspecs.lru_cache import LruCache
from toolspecs.store import Store
from toolspecs.tool import ChoiceMode, Tool, ToolChoice

UnitT = TypeVar("UnitT", Unit, CompiledSchema)

_SOURCES = ("memory", "store", "compiled")
_SLOW_MS = 200.0


@dataclass(frozen=True, slots=True)
class GrammarLookup:
    """A grammar, where its slowest part came from (memory, store, compiled), and how long it took."""

    grammar: Constraint
    source: str
    wait_ms: float


class GrammarCache:
    """Grammars by content, bounded in bytes in memory; `store` None keeps nothing beyond the process.

    Not thread-safe: one event loop owns it. Schemas are compiled by `compile_pool`, threads unless given.
    """

    def __init__(
        self,
        store: Store | None,
        *,
        memory_bytes: int = 512 * 2**20,
        secret: bytes,
        compile_pool: CompilePool | None = None,
    ) -> None:
        self._store = GrammarStore(store, secret)
        self._memory: LruCache[CacheEntry] = LruCache(memory_bytes)
        self._pool = compile_pool or ThreadPool()
        self._flights: SingleFlight[tuple[CacheEntry, str]] = SingleFlight()
        self._preparing: set[asyncio.Task[None]] = set()
        self._slow = asyncio.Semaphore(1)

    @property
    def num_bytes(self) -> int:
        """Memory that the kept grammars take."""
        return self._memory.num_bytes

    async def close(self) -> None:
        """Give up what is being compiled, and stop compiling."""
        tasks = list(self._preparing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(self._flights.cancel(), *tasks, return_exceptions=True)
        await self._pool.close()

    async def toolset(
        self,
        tools: Sequence[Tool],
        *,
        vocabulary: Vocabulary,
        syntax: str,
        choice: ToolChoice,
        parallel: bool = True,
        response_format: ResponseFormat | None = None,
    ) -> GrammarLookup:
        """The linked grammar of `tools` under a choice; what `auto` answers is of the format.

        Raises:
            UnsupportedToolset: some tools cannot be upheld; all of them are named.
            UnsupportedSchema: the format cannot, or its texts cannot be told from calls.
            CompilingUnfinished: it takes longer than one request may.
            WorkersUnavailable: nothing can be compiled right now.
        """
        start = time.perf_counter()
        family = find_syntax(syntax)
        budget = self.compile_budget()
        found = await self._tools(tools, syntax, vocabulary, budget)
        units = {tool.name: _as(Unit, entry) for tool, (entry, _) in zip(tools, found, strict=True)}
        answer = None
        if response_format is not None and choice.mode is ChoiceMode.AUTO:
            found.append(await self._entry(CompileJob.format(response_format), vocabulary, budget))
            answer = _as(CompiledSchema, found[-1][0])
        grammar = link(units, family, vocabulary, choice, parallel=parallel, answer=answer)
        source = max((source for _, source in found), key=_SOURCES.index, default="memory")
        return GrammarLookup(grammar, source, _milliseconds_since(start))

    async def format(
        self, response_format: ResponseFormat, *, vocabulary: Vocabulary, syntax: str | None = None
    ) -> GrammarLookup:
        """The grammar of a response's format, as models of `syntax` write it.

        Raises:
            UnsupportedSchema: it cannot be read or upheld, or no text is of it.
            WorkersUnavailable: nothing can be compiled right now.
        """
        start = time.perf_counter()
        entry, source = await self._entry(
            CompileJob.format(response_format), vocabulary, self.compile_budget()
        )
        compiled = _as(CompiledSchema, entry)
        grammar = link_format(compiled, find_syntax(syntax), vocabulary) if syntax else compiled
        return GrammarLookup(grammar, source, _milliseconds_since(start))

    async def check(
        self,
        tools: Sequence[Tool],
        *,
        vocabulary: Vocabulary,
        syntax: str = "hermes",
        budget: CompileBudget | None = None,
    ) -> list[ToolReport]:
        """Compile every tool ahead of its first request, and report; raises as `toolset`.

        `budget` is that of a request which asks for more than this.
        """
        found = await self._tools(tools, syntax, vocabulary, budget or self.compile_budget())
        return [
            ToolReport(tool.name, entry.unit.digest, entry.report, entry.num_bytes, entry.compile_ms)
            for tool, (entry, _) in zip(tools, found, strict=True)
        ]

    async def covers(
        self, outer: Tool, inner: Tool, *, vocabulary: Vocabulary, budget: CompileBudget | None = None
    ) -> bool:
        """Whether one tool is proved to admit all arguments of another; False where it takes too long."""
        if budget and budget.is_over:
            return False
        try:
            return await self._pool.run(CompileJob.covers(outer, inner), vocabulary) == b"1"
        except UnsupportedSchema:
            return False

    def compile_budget(self) -> CompileBudget:
        """What one request may ask, from now on."""
        return CompileBudget(self._pool.limits, self._pool.num_workers)

    async def _tools(
        self, tools: Sequence[Tool], syntax: str, vocabulary: Vocabulary, budget: CompileBudget
    ) -> list[tuple[CacheEntry, str]]:
        jobs = [CompileJob.tool(tool.parameters, syntax, tool.documents) for tool in tools]
        with trace.get_tracer(__name__).start_as_current_span("callgate.grammar.units"):
            stored = await self._stored(jobs, vocabulary)
            flights = [self._entry(job, vocabulary, budget, stored) for job in jobs]
            results = await asyncio.gather(*flights, return_exceptions=True)
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

    async def _stored(self, jobs: Sequence[CompileJob], vocabulary: Vocabulary) -> Mapping[str, CacheEntry]:
        """What the store has of jobs that are not in memory and need no compiling now; read in one go."""
        wanted: dict[str, CompileJob] = {}
        for job in jobs:
            with suppress(UnsupportedSchema):  # raised again for this job alone
                wanted[job.key(vocabulary)] = job
        missing = [key for key in wanted if key not in self._flights and self._memory.get(key) is None]
        contents = await self._store.load_many(missing) if len(missing) > 1 else {}

        def read() -> dict[str, CacheEntry]:
            entries = {}
            for key, content in contents.items():
                with suppress(CorruptUnit):  # to be said when it is looked for by itself
                    entries[key] = CacheEntry.from_bytes(content, vocabulary, wanted[key].task)
            return entries

        entries = await asyncio.to_thread(read) if contents else {}
        ready = {key: entry for key, entry in entries.items() if entry.can_wait or _is_light(entry)}
        for key, entry in ready.items():
            self._memory.put(key, entry, entry.num_bytes)
        unprepared = [entry for entry in ready.values() if not entry.can_wait]
        if unprepared:
            task = asyncio.create_task(self._prepare(unprepared))
            self._preparing.add(task)
            task.add_done_callback(self._preparing.discard)
        return ready

    async def _prepare(self, entries: Sequence[CacheEntry]) -> None:
        """Compile, one at a time, what may be in use already: a call that comes sooner compiles it then."""
        for entry in entries:
            async with self._slow:
                await asyncio.to_thread(entry.prepare)

    async def _entry(
        self,
        job: CompileJob,
        vocabulary: Vocabulary,
        budget: CompileBudget,
        stored: Mapping[str, CacheEntry] | None = None,
    ) -> tuple[CacheEntry, str]:
        """A job's entry and where it came from."""
        key = job.key(vocabulary)
        if stored and key in stored:
            return stored[key], "store"
        kept = self._memory.get(key)
        if kept is not None:
            return kept, "memory"
        while True:
            is_own = key not in self._flights
            try:
                return await self._flights.join(key, lambda: self._fetch(key, job, vocabulary, budget))
            except NotTried:
                if is_own:
                    raise  # else it was another's budget that ended

    async def _fetch(
        self, key: str, job: CompileJob, vocabulary: Vocabulary, budget: CompileBudget
    ) -> tuple[CacheEntry, str]:
        async with budget.loads:
            entry = await self._load(key, job, vocabulary)
        source = "store"
        if entry is None:
            budget.check()
            async with budget.turns, self._store.lease(key):
                entry = await self._load(key, job, vocabulary)  # of many replicas one compiles
                if entry is None:
                    entry = await self._compile(key, job, vocabulary, budget)
                    source = "compiled"
        self._memory.put(key, entry, entry.num_bytes)
        return entry, source

    async def _compile(
        self, key: str, job: CompileJob, vocabulary: Vocabulary, budget: CompileBudget
    ) -> CacheEntry:
        budget.check()
        try:
            content = await self._pool.run(job, vocabulary)
        except LimitReached as limit:
            budget.count(limit)
            raise
        entry = await self._read(content, job, vocabulary)
        await self._store.save(key, content)
        return entry

    async def _load(self, key: str, job: CompileJob, vocabulary: Vocabulary) -> CacheEntry | None:
        content = await self._store.load(key)
        if content is None:
            return None
        try:
            return await self._read(content, job, vocabulary)
        except CorruptUnit as error:
            self._store.reject(key, error)
            return None

    async def _read(self, content: bytes, job: CompileJob, vocabulary: Vocabulary) -> CacheEntry:
        """An entry, compiled in a thread unless that can wait; slow ones one at a time, to hold up none."""
        entry = await asyncio.to_thread(CacheEntry.from_bytes, content, vocabulary, job.task)
        if not entry.can_wait:
            async with self._slow if entry.compile_ms > _SLOW_MS else nullcontext():
                await asyncio.to_thread(entry.prepare)
        return entry


def _is_light(entry: CacheEntry) -> bool:
    return isinstance(entry.unit, Unit) and entry.compile_ms < _SLOW_MS


def _as(kind: type[UnitT], entry: CacheEntry) -> UnitT:
    assert isinstance(entry.unit, kind), "a tool's entry holds a unit, a format's its grammar"
    return entry.unit


def _milliseconds_since(start: float) -> float:
    return (time.perf_counter() - start) * 1e3


ResultT = TypeVar("ResultT")


class SingleFlight(Generic[ResultT]):
    """Tasks by key, one at a time for each; they go on where whoever began one goes away."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[ResultT]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._tasks

    def join(self, key: str, begin: Callable[[], Coroutine[Any, Any, ResultT]]) -> asyncio.Future[ResultT]:
        """The flight of a key, begun unless it is under way; what cancels the future does not cancel it."""
        if key not in self._tasks:
            self._tasks[key] = task = asyncio.create_task(begin())
            task.add_done_callback(lambda task: self._landed(key, task))
        return asyncio.shield(self._tasks[key])

    async def cancel(self) -> None:
        """End them all."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _landed(self, key: str, task: asyncio.Task[ResultT]) -> None:
        del self._tasks[key]
        if not task.cancelled():
            task.exception()  # whoever still waits gets it; nobody waiting is no error
