"""The grammar cache: finds the entries of a toolset or format, or has them compiled, and links them."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from compiler.argument_faults import ArgumentFault
from compiler.cache.cache_observer import CacheObserver, Unobserved
from compiler.cache.cached_entries import CachedEntries, EntryLookup
from compiler.cache.grammar_index import CachedGrammar, CachedPart, GrammarIndex
from compiler.cache.grammar_store import GrammarStore
from compiler.cache.known_keys import KnownKeys, ToolsToFind
from compiler.cache.single_flight import SingleFlight
from compiler.cache_entry import CacheEntry, milliseconds_since
from compiler.constraint import Constraint
from compiler.errors import (
    CompilingUnfinished,
    NotReached,
    NotTried,
    TakesLonger,
    TooManyGrammars,
    UnsupportedSchema,
    UnsupportedToolset,
)
from compiler.isolation.compile_job import CompileJob, CompilePool, KeyedJob, read_faults
from compiler.isolation.limits import CompileBudget
from compiler.isolation.pools import ThreadPool
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.recipe import FormatKey, GrammarRecipe, OwnGrammar
from compiler.report import ReportEntry, ToolReport
from compiler.response_format import ResponseFormat
from compiler.syntaxes import find_syntax
from toolspecs.errors import StoreUnavailable
from toolspecs.held_parts import HeldParts
from toolspecs.lru_cache import LruCache
from toolspecs.store import Store
from toolspecs.tool import ChoiceMode, KeyOrder, Tool, ToolChoice

MAX_HELD_BYTES = 1 << 30
"""What the running answers of one client may hold. A real tool takes 0.4 MB mostly, and 12 MB at most."""
MAX_FORMAT_BYTES = 2**20
"""The longest response format, as of a tool: its key is computed on the event loop."""
MAX_CONTAINMENTS = 10_000
_SOURCES = ("memory", "store", "compiled")
_MAX_ASKED = 100


@dataclass(frozen=True, slots=True, weakref_slot=True)
class GrammarLookup:
    """A grammar that was looked up, and the recipe that it was linked by.

    `source` is where its slowest part came from: memory, store or compiled. `ignored` are the keywords of its
    schemas that have no effect, by the keys of the recipe. Whoever uses the grammar keeps this too, since the
    memory of the grammar counts for its client as long as this exists.
    """

    grammar: Constraint
    source: str
    wait_ms: float
    recipe: GrammarRecipe
    ignored: Mapping[str, Sequence[ReportEntry]]


class GrammarCache:
    """Grammars by content: from an LRU cache in memory, bounded in bytes, else from the store if any.

    `compile_pool` compiles schemas; if it is None, threads of this process do. `held` counts what
    running answers hold beside the cache. One event loop owns the cache; it is not thread-safe.
    """

    def __init__(
        self,
        store: Store | None,
        *,
        memory_bytes: int = 512 * 2**20,
        secret: bytes,
        compile_pool: CompilePool | None = None,
        observer: CacheObserver | None = None,
        held: HeldParts | None = None,
    ) -> None:
        self._observer = observer or Unobserved()
        self._held = held or HeldParts(MAX_HELD_BYTES, TooManyGrammars)
        self._store = GrammarStore(store, secret)
        self._pool = compile_pool or ThreadPool()
        self._index = GrammarIndex()
        self._entries = CachedEntries(
            self._store,
            self._pool,
            memory_bytes=memory_bytes,
            observer=self._observer,
            on_kept=self._index.add_part,
        )
        self._known_keys = KnownKeys()
        self._linked: WeakValueDictionary[GrammarRecipe, OwnGrammar] = WeakValueDictionary()
        """The grammars of running answers; another answer may use the same one."""
        self._containments: LruCache[bool] = LruCache(MAX_CONTAINMENTS)
        """Whether a tool covers another one, by the key of the job that found it out."""
        self._comparing: SingleFlight[bool] = SingleFlight(stops_unwanted=True)
        self._num_by_source: Counter[str] = Counter()

    @property
    def num_bytes(self) -> int:
        """The memory that cached grammars take, in bytes."""
        return self._entries.memory.num_bytes

    @property
    def num_waiting(self) -> int:
        """How many schemas wait to be compiled."""
        return self._entries.queue.num_waiting

    @property
    def num_entries(self) -> int:
        """How many grammars of tools and formats are in memory."""
        return len(self._entries.memory)

    @property
    def num_found(self) -> Mapping[str, int]:
        """Grammars that requests needed, by the tier that had them: memory, store or compiled."""
        return {source: self._num_by_source[source] for source in _SOURCES}

    async def close(self) -> None:
        """Cancel what is being compiled and close the pool."""
        await asyncio.gather(self._entries.close(), self._comparing.cancel())
        await self._pool.close()

    async def find_toolset(
        self,
        tools: Sequence[Tool],
        *,
        prepared: PreparedVocabulary,
        syntax: str,
        tool_choice: ToolChoice,
        is_parallel: bool = True,
        response_format: ResponseFormat | None = None,
        key_order: KeyOrder | None = None,
        client_id: str = "",
    ) -> GrammarLookup:
        """The linked grammar of `tools` under a tool choice.

        Under `auto` with a response format, an answer without calls is of that format. Without a `key_order`,
        every tool says its own. Jobs wait for turns of `client_id` in the compile queue.

        Raises:
            UnsupportedToolset: some tools are refused; the error names all of them.
            UnsupportedSchema: the format is refused, or its texts cannot be told from calls.
            CompilingUnfinished: compiling takes longer than one request may take.
            CompilerOverloaded, WorkersUnavailable: nothing can be compiled right now.
            TooManyGrammars: the client's running answers hold too much.
        """
        start = time.perf_counter()
        find_syntax(syntax)  # before anything is compiled for it
        budget = self.compile_budget(client_id)
        found = await self._find_entries(ToolsToFind(tools, syntax, prepared, key_order), budget)
        keys = [(tool.name, lookup.key) for tool, lookup in zip(tools, found, strict=True)]
        answer = None
        if response_format is not None and tool_choice.mode is ChoiceMode.AUTO:
            job = CompileJob.format(response_format, key_order)
            found.append(await self._find_format_entry(job, prepared, budget))
            answer = FormatKey(response_format.kind, found[-1].key)
        recipe = GrammarRecipe.of_tools(
            keys,
            vocabulary=prepared.vocabulary.digest,
            syntax=syntax,
            tool_choice=tool_choice,
            is_parallel=is_parallel,
            answer=answer,
        )
        return self._link(recipe, found, prepared, start, client_id)

    async def find_format(
        self,
        response_format: ResponseFormat,
        *,
        prepared: PreparedVocabulary,
        syntax: str | None = None,
        key_order: KeyOrder | None = None,
        client_id: str = "",
    ) -> GrammarLookup:
        """The grammar of a response format; with `syntax`, framed as models of that syntax frame answers.

        Raises:
            UnsupportedSchema: the format cannot be read or enforced, or no text is of it.
            CompilerOverloaded, WorkersUnavailable, TooManyGrammars: as `find_toolset`.
        """
        start = time.perf_counter()
        budget = self.compile_budget(client_id)
        found = await self._find_format_entry(CompileJob.format(response_format, key_order), prepared, budget)
        answer = FormatKey(response_format.kind, found.key)
        recipe = GrammarRecipe(prepared.vocabulary.digest, syntax, answer=answer)
        return self._link(recipe, [found], prepared, start, client_id)

    async def check(
        self,
        tools: Sequence[Tool],
        *,
        prepared: PreparedVocabulary,
        syntax: str,
        budget: CompileBudget,
    ) -> list[ToolReport]:
        """Compile every tool ahead of its first request, and report on it.

        A request that checks several toolsets passes one `budget` for all of them. Raises the errors of
        `find_toolset`.
        """
        found = await self._find_entries(ToolsToFind(tools, syntax, prepared), budget)
        return [
            ToolReport(tool.name, entry.unit.digest, entry.report, entry.num_bytes, entry.compile_ms)
            for tool, entry in zip(tools, (lookup.entry for lookup in found), strict=True)
        ]

    async def publish(self, keys: Sequence[str], client_id: str | None) -> bool:
        """Store the entries of these keys, which are keys of recipes, unless the store still has them.

        An engine that links a recipe reads its entries in the store. They may expire there, or be evicted,
        while the gateway keeps them in memory. Returns False if some cannot be stored: they left memory, or
        the client has added as much as it may. The client None is the gateway itself, which has no limit.

        Raises:
            StoreUnavailable: the store fails, so that some may be missing.
        """
        for key in await self._store.missing(keys):
            entry = self._entries.memory.get(key)
            if entry is None or not await self._store.save(
                key, await asyncio.to_thread(entry.to_bytes), client_id
            ):
                return False
        self._store.check()
        return True

    def entries_of(self, recipe: GrammarRecipe) -> Mapping[str, CacheEntry] | None:
        """The entries of a recipe by their keys; None if some are not in memory."""
        entries = {key: self._entries.memory.get(key) for key in recipe.keys}
        in_memory = {key: entry for key, entry in entries.items() if entry is not None}
        return in_memory if len(in_memory) == len(entries) else None

    async def find(self, digest: str) -> CachedGrammar | None:
        """The grammar or the part of a digest; None if this process has never used it, or has forgotten it.

        The store is asked about the first `_MAX_ASKED` parts only.
        """
        recipe, parts = self._index.find(digest)
        if not parts and recipe is None:
            return None
        part_keys = [key for _, _, key in parts[:_MAX_ASKED]]
        missing: Sequence[str] = part_keys
        with suppress(StoreUnavailable):
            missing = await self._store.missing(part_keys)
        return CachedGrammar(
            digest,
            tuple(CachedPart(name, kind, key, self._entries.memory.peek(key)) for name, kind, key in parts),
            recipe,
            {key: self._store.is_used and key not in missing for key in part_keys},
        )

    async def covers(
        self, outer: Tool, inner: Tool, *, prepared: PreparedVocabulary, budget: CompileBudget
    ) -> bool:
        """Whether `outer` is proved to admit all arguments of `inner`; False if the proof takes too long.

        What was found out is remembered, and a client's requests that ask the same at once wait for one job:
        many of them do not use up the time of each other.
        """
        if outer.custom and outer.custom.syntax == "lark":  # its schema admits more than its grammar
            return outer.custom == inner.custom
        job, client_id = CompileJob.covers(outer, inner), budget.client_id
        try:
            key = job.key(prepared.vocabulary)
            covers = self._containments.get(key)
            if covers is None:
                if budget.is_over:
                    return False
                covers = await self._comparing.join(
                    f"{client_id} {key}", lambda: self._compare(key, job, prepared, client_id)
                )
        except UnsupportedSchema:
            return False
        return covers

    async def _compare(self, key: str, job: CompileJob, prepared: PreparedVocabulary, client_id: str) -> bool:
        covers = await self._run_in_turn(job, prepared, client_id) == b"1"
        self._containments.put(key, covers, 1)
        return covers

    async def find_faults(
        self, tool: Tool, arguments: Any, *, prepared: PreparedVocabulary, client_id: str = ""
    ) -> tuple[ArgumentFault, ...]:
        """The faults in the arguments of a call; none if they are valid. The tool must compile.

        Raises:
            UnsupportedSchema: the arguments are too large or nested too deeply, or take too long to judge.
            CompilerOverloaded, WorkersUnavailable: nothing can be judged right now.
        """
        return read_faults(await self._run_in_turn(CompileJob.judge(tool, arguments), prepared, client_id))

    async def _run_in_turn(self, job: CompileJob, prepared: PreparedVocabulary, client_id: str) -> bytes:
        """The result of a job, which is not cached; it runs in a turn of the client."""
        async with self._entries.queue.turn(client_id) as turn:
            with suppress(TakesLonger):
                return await self._pool.run(job, prepared, is_long=False, client_id=client_id)
            await turn.lengthen()
            return await self._pool.run(job, prepared, client_id=client_id)

    def compile_budget(self, client_id: str = "") -> CompileBudget:
        """A fresh budget for one request of a client; its time starts now."""
        return CompileBudget(self._pool.limits, self._pool.num_workers, client_id)

    async def _find_entries(self, wanted: ToolsToFind, budget: CompileBudget) -> list[EntryLookup]:
        """The entries of tools, in their order; one error names all refused tools, as in `find_toolset`."""
        if (in_memory := self._entries_in_memory(wanted)) is not None:
            self._count(in_memory)
            return in_memory
        jobs = await self._known_keys.jobs(wanted)
        results = await self._results(jobs, wanted.prepared, budget)
        _raise_refusals(wanted.tools, results, budget.seconds)
        found = [_found(result) for result in results]
        self._known_keys.remember(wanted, tuple(lookup.key for lookup in found))
        return found

    def _entries_in_memory(self, wanted: ToolsToFind) -> list[EntryLookup] | None:
        """The entries of tools that were found together before, if all are in memory."""
        keys = self._known_keys.together(wanted)
        if keys is None:
            return None
        found = [lookup for key in keys if (lookup := self._entries.in_memory(key)) is not None]
        return found if len(found) == len(keys) else None

    async def _find_format_entry(
        self, job: CompileJob, prepared: PreparedVocabulary, budget: CompileBudget
    ) -> EntryLookup:
        job.check_length(MAX_FORMAT_BYTES)
        (result,) = await self._results([job.keyed(prepared.vocabulary)], prepared, budget)
        return _found(result)

    async def _results(
        self,
        jobs: Sequence[KeyedJob | UnsupportedSchema],
        prepared: PreparedVocabulary,
        budget: CompileBudget,
    ) -> list[EntryLookup | BaseException]:
        """The entry of each job, or the error that it ended with; the observer is told of both."""
        keyed = [job for job in jobs if isinstance(job, KeyedJob)]
        found = iter(await self._entries.find_all(keyed, prepared, budget))
        results = [next(found) if isinstance(job, KeyedJob) else job for job in jobs]
        self._count([result for result in results if isinstance(result, EntryLookup)])
        for result in results:
            # Of what was not tried, nothing is known about the schema.
            if isinstance(result, UnsupportedSchema) and not isinstance(result, NotTried):
                self._observer.refused(result)
        return results

    def _link(
        self,
        recipe: GrammarRecipe,
        found: Sequence[EntryLookup],
        prepared: PreparedVocabulary,
        start: float,
        client_id: str,
    ) -> GrammarLookup:
        entries = {lookup.key: lookup.entry for lookup in found}
        sizes = {key: entry.num_bytes for key, entry in entries.items()}
        self._held.check(client_id, sizes)
        grammar = self._linked.get(recipe)
        if grammar is None:
            grammar = recipe.link(entries, prepared)
            self._linked[recipe] = grammar
        self._index.add_recipe(grammar.digest, recipe)
        source = max((lookup.source for lookup in found), key=_SOURCES.index, default="memory")
        ignored = {key: entry.report.ignored for key, entry in entries.items() if entry.report.ignored}
        lookup = GrammarLookup(grammar, source, milliseconds_since(start), recipe, ignored)
        self._held.hold(client_id, sizes, lookup)
        return lookup

    def _count(self, found: Iterable[EntryLookup]) -> None:
        num_by_tier = Counter(lookup.source for lookup in found)
        self._num_by_source.update(num_by_tier)
        self._observer.looked_up(num_by_tier)


def _raise_refusals(
    tools: Sequence[Tool], results: Sequence[EntryLookup | BaseException], seconds: float
) -> None:
    """Raise one error that names all tools that are refused or, within the time, were not reached."""
    refusals = [
        (tool.name, result)
        for tool, result in zip(tools, results, strict=True)
        if isinstance(result, UnsupportedSchema)
    ]
    if refusals and all(isinstance(refusal, NotReached) for _, refusal in refusals):
        raise CompilingUnfinished([name for name, _ in refusals], seconds)
    if refusals:
        raise UnsupportedToolset(refusals)


def _found(result: EntryLookup | BaseException) -> EntryLookup:
    """The entry that a job led to; raises the error that it ended with instead."""
    if isinstance(result, BaseException):
        raise result
    return result
