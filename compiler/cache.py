"""The grammar cache: memory, then the store, then compile; one flight per grammar.

What is stored is a tool's unit as a grammar, and its report, compressed and authenticated: the schema is not
lowered again, and the back end rebuilds the compiled form faster than that could be read. An entry that does
not authenticate, or is of another vocabulary, another xgrammar or another version of the lowering, is a miss.
"""

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from opentelemetry import trace

from compiler.entry import Entry, sealed, unsealed
from compiler.errors import CorruptUnit, UnsupportedSchema, UnsupportedToolset
from compiler.linker import LinkedGrammar, link
from compiler.memory import Memory
from compiler.report import ToolReport
from compiler.schema import CompiledSchema, compile_schema
from compiler.style import SPACED
from compiler.syntaxes import Syntax
from compiler.syntaxes import syntax as find_syntax
from compiler.toolset import lower_tool
from compiler.unit import compile_unit
from compiler.vocabulary import Vocabulary
from toolspecs.choice import ToolChoice
from toolspecs.errors import StoreError
from toolspecs.store import Store
from toolspecs.tool import Tool

LOWERING_VERSION = 1
"""Counted up whenever the same schema lowers to another grammar: older entries are then misses."""

_NUM_THREADS = 2
_LEASE_S = 30.0
_log = logging.getLogger(__name__)
_SOURCES = ("memory", "store", "compiled")


@dataclass(frozen=True, slots=True)
class Found:
    """A grammar, where its slowest part came from (memory, store, compiled), and how long it took."""

    grammar: LinkedGrammar | CompiledSchema
    source: str
    wait_ms: float


class GrammarCache:
    """Units by content, bounded in bytes in memory; `store` None keeps nothing beyond the process.

    Not thread-safe: one event loop owns it. Compiling runs in threads beside it.
    """

    def __init__(self, store: Store | None, *, memory_bytes: int = 512 * 2**20, secret: bytes) -> None:
        self._store = store
        self._secret = secret
        self._threads = ThreadPoolExecutor(_NUM_THREADS, "compile")
        self._memory: Memory[Entry | CompiledSchema] = Memory(memory_bytes)
        self._flights: dict[str, asyncio.Task[tuple[Entry, str]]] = {}

    @property
    def num_bytes(self) -> int:
        """Memory that the kept grammars take."""
        return self._memory.num_bytes

    def close(self) -> None:
        """Let the compiling threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def toolset(
        self,
        tools: Sequence[Tool],
        *,
        vocabulary: Vocabulary,
        syntax: str,
        choice: ToolChoice,
        parallel: bool = True,
    ) -> Found:
        """The linked grammar of `tools` under a choice.

        Raises:
            UnsupportedToolset: some tools cannot be upheld; all of them are named.
        """
        start = time.perf_counter()
        family = find_syntax(syntax)
        found = await self._entries(tools, family, vocabulary)
        units = {tool.name: entry.unit for tool, (entry, _) in zip(tools, found, strict=True)}
        grammar = link(units, family, vocabulary, choice, parallel=parallel)
        source = max((source for _, source in found), key=_SOURCES.index, default="memory")
        return Found(grammar, source, _milliseconds_since(start))

    async def schema(self, schema: Any, *, vocabulary: Vocabulary) -> Found:
        """The grammar of a response's JSON Schema; kept in memory only.

        Raises:
            UnsupportedSchema: a keyword cannot be upheld, or nothing satisfies the schema.
        """
        start = time.perf_counter()
        key = _key("schema", json.dumps(schema), vocabulary.digest)
        kept = self._memory.get(key)
        if isinstance(kept, CompiledSchema):
            return Found(kept, "memory", _milliseconds_since(start))
        compiled = await asyncio.to_thread(compile_schema, schema, tokenizer=vocabulary, style=SPACED)
        self._memory.put(key, compiled, compiled.num_bytes)
        return Found(compiled, "compiled", _milliseconds_since(start))

    async def check(
        self, tools: Sequence[Tool], *, vocabulary: Vocabulary, syntax: str = "hermes"
    ) -> list[ToolReport]:
        """Compile every tool ahead of its first request, and report.

        Raises:
            UnsupportedToolset: some tools cannot be upheld; all of them are named.
        """
        found = await self._entries(tools, find_syntax(syntax), vocabulary)
        return [
            ToolReport(tool.name, entry.unit.digest, entry.report, entry.unit.num_bytes, entry.compile_ms)
            for tool, (entry, _) in zip(tools, found, strict=True)
        ]

    async def _entries(
        self, tools: Sequence[Tool], syntax: Syntax, vocabulary: Vocabulary
    ) -> list[tuple[Entry, str]]:
        with trace.get_tracer(__name__).start_as_current_span("callgate.grammar.units"):
            flights = [self._entry(tool, syntax, vocabulary) for tool in tools]
            results = await asyncio.gather(*flights, return_exceptions=True)
        refusals = [
            (tool.name, result)
            for tool, result in zip(tools, results, strict=True)
            if isinstance(result, UnsupportedSchema)
        ]
        if refusals:
            raise UnsupportedToolset(refusals)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if not isinstance(result, BaseException)]

    async def _entry(self, tool: Tool, syntax: Syntax, vocabulary: Vocabulary) -> tuple[Entry, str]:
        """A tool's entry and where it came from."""
        key = _key(json.dumps(tool.parameters), repr(syntax), vocabulary.digest)
        kept = self._memory.get(key)
        if isinstance(kept, Entry):
            return kept, "memory"
        if key not in self._flights:
            flight = asyncio.create_task(self._fetch(key, tool, syntax, vocabulary))
            self._flights[key] = flight
            flight.add_done_callback(lambda flight: self._landed(key, flight))
        # Shielded: a caller that goes away must not cancel the others' flight.
        return await asyncio.shield(self._flights[key])

    def _landed(self, key: str, flight: asyncio.Task[tuple[Entry, str]]) -> None:
        del self._flights[key]
        if not flight.cancelled():
            flight.exception()  # whoever still waits gets it; nobody waiting is no error

    async def _fetch(self, key: str, tool: Tool, syntax: Syntax, vocabulary: Vocabulary) -> tuple[Entry, str]:
        entry = await self._load(key, vocabulary)
        source = "store"
        if entry is None:
            entry, source = await self._compile_once(key, tool, syntax, vocabulary)
        self._memory.put(key, entry, entry.unit.num_bytes)
        return entry, source

    async def _compile_once(
        self, key: str, tool: Tool, syntax: Syntax, vocabulary: Vocabulary
    ) -> tuple[Entry, str]:
        """Compile under the lease of `key`, so that of many replicas one compiles."""
        if self._store is None:
            return await self._compile(tool, syntax, vocabulary), "compiled"
        compiled: Entry | None = None
        try:
            async with self._store.lock(f"lock:{key}", _LEASE_S, _LEASE_S):
                entry = await self._load(key, vocabulary)
                if entry is not None:
                    return entry, "store"
                compiled = await self._compile(tool, syntax, vocabulary)
                await self._save(key, compiled, vocabulary)
        except StoreError as error:
            _log.warning("a grammar is not shared: %s", error)
        return compiled or await self._compile(tool, syntax, vocabulary), "compiled"

    async def _compile(self, tool: Tool, syntax: Syntax, vocabulary: Vocabulary) -> Entry:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, _compile, tool, syntax, vocabulary)

    async def _load(self, key: str, vocabulary: Vocabulary) -> Entry | None:
        if self._store is None:
            return None
        try:
            stored = await self._store.get(f"unit:{key}")
        except StoreError as error:
            _log.warning("grammar cache without the store: %s", error)
            return None
        if stored is None:
            return None
        try:
            return await asyncio.to_thread(_read, stored, key, self._secret, vocabulary)
        except CorruptUnit as error:
            _log.warning("stored grammar %s is ignored: %s", key, error)
            return None

    async def _save(self, key: str, entry: Entry, vocabulary: Vocabulary) -> None:
        assert self._store is not None
        content = await asyncio.to_thread(entry.to_bytes, vocabulary)
        await self._store.set(f"unit:{key}", sealed(content, key, self._secret))


def _compile(tool: Tool, syntax: Syntax, vocabulary: Vocabulary) -> Entry:
    start = time.perf_counter()
    lowered = lower_tool(tool, syntax)
    unit = compile_unit(lowered.grammar, syntax, vocabulary)
    return Entry(unit, lowered.report, _milliseconds_since(start))


def _read(stored: bytes, key: str, secret: bytes, vocabulary: Vocabulary) -> Entry:
    return Entry.from_bytes(unsealed(stored, key, secret), vocabulary)


def _key(*parts: str) -> str:
    content = json.dumps([LOWERING_VERSION, *parts])
    return hashlib.sha256(content.encode()).hexdigest()


def _milliseconds_since(start: float) -> float:
    return (time.perf_counter() - start) * 1e3
