"""The grammar loader: links the grammar of a recipe inside an engine.

The units come with the request or from the gateway's store. Engines call the loader from their own threads;
one thread with an event loop owns the caches and the connection to the store. If many requests need the same
recipe, only one reads the store, all units in one round trip.
"""

import asyncio
import heapq
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from contextlib import asynccontextmanager, suppress
from itertools import count
from types import MappingProxyType
from typing import Any, TypeVar

from compiler.cache.grammar_store import LIFETIME_S, UNIT_PREFIX, verify
from compiler.cache.single_flight import SingleFlight
from compiler.cache_entry import CacheEntry
from compiler.errors import CorruptUnit
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.recipe import GrammarRecipe, OwnGrammar
from toolspecs.errors import StoreError
from toolspecs.lru_cache import LruCache
from toolspecs.store import Store

TIME_LIMIT_S = 60.0
_STORE_TIMEOUT_S = 5.0
"""Longer than the stores' own timeouts, so that a store reports its own failure first."""
_SLOW_MS = 20.0
"""Slower units are compiled before the output begins, the others when their tool is first called."""
_NUM_LINKERS = 2
"""Threads that link while all compilers compile."""
_SHOWN = 3
NO_PARTS: Mapping[str, bytes] = MappingProxyType({})

FoundT = TypeVar("FoundT")

_log = logging.getLogger(__name__)


class GrammarUnavailable(Exception):
    """The grammar of a request cannot be loaded, so the request must fail; the message says why."""


class ShortestFirst:
    """Lets only some jobs run at once; of those that wait, the shortest begins next.

    An engine does not know its clients. In this order, grammars that take seconds delay only each other.
    """

    def __init__(self, num_places: int) -> None:
        self._num_free = num_places
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    @asynccontextmanager
    async def turn(self, cost: float) -> AsyncIterator[None]:
        """Wait for a place, and free it at the end."""
        if self._num_free:
            self._num_free -= 1
        else:
            await self._place(cost)
        try:
            yield
        finally:
            self._free()

    async def _place(self, cost: float) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (cost, next(self._order), place))
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._free()
            raise

    def _free(self) -> None:
        """Give a place to the shortest job that still waits."""
        while self._waiting:
            *_, place = heapq.heappop(self._waiting)
            if not place.done():
                place.set_result(None)
                return
        self._num_free += 1


class GrammarLoader:
    """Grammars by recipe, for one vocabulary; thread-safe.

    Units and linked grammars have an LRU cache of `cache_bytes` each; both mostly refer to the same memory. A
    grammar continues to load after the time limit, so that a second try finds it. Without `open_store`, units
    come with requests only.
    """

    def __init__(
        self,
        open_store: Callable[[], Store] | None,
        secret: bytes,
        prepared: PreparedVocabulary,
        *,
        cache_bytes: int,
        time_limit_s: float = TIME_LIMIT_S,
    ) -> None:
        self._secret = secret
        self.prepared = prepared
        self._time_limit_s = time_limit_s
        self._entries: LruCache[CacheEntry] = LruCache(cache_bytes)
        self._linked: LruCache[OwnGrammar] = LruCache(cache_bytes)
        self._flights: SingleFlight[OwnGrammar] = SingleFlight()
        num_compilers = max(1, (os.cpu_count() or 2) // 2)
        self._compilers = ShortestFirst(num_compilers)
        self._threads = ThreadPoolExecutor(num_compilers + _NUM_LINKERS, "callgate-compile")
        self._ahead = ThreadPoolExecutor(1, "callgate-compile-ahead")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="callgate-loader", daemon=True)
        self._thread.start()
        self._store = None if open_store is None else self._on_loop(_opened(open_store))

    def grammar(self, recipe: GrammarRecipe, parts: Mapping[str, bytes] = NO_PARTS) -> OwnGrammar:
        """The grammar of a recipe; blocks until it is linked.

        `parts` are signed entries that came with the request, by their keys.

        Raises:
            GrammarUnavailable: it is of another vocabulary, units are missing or altered, the store fails,
                or it takes too long.
        """
        try:
            return self._on_loop(self._grammar(recipe, parts), self._time_limit_s)
        except TookTooLong as error:
            raise GrammarUnavailable(
                f"the grammar was not ready after {self._time_limit_s:g} s; it is still being compiled, so"
                " try again"
            ) from error

    def close(self) -> None:
        """Close the store and end the threads."""
        with suppress(TookTooLong):
            self._on_loop(self._flights.cancel(), _STORE_TIMEOUT_S)
            if self._store is not None:
                self._on_loop(self._store.close(), _STORE_TIMEOUT_S)
        for pool in (self._ahead, self._threads):
            pool.shutdown(wait=False, cancel_futures=True)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _on_loop(self, work: Coroutine[Any, Any, FoundT], timeout_s: float | None = None) -> FoundT:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    async def _grammar(self, recipe: GrammarRecipe, parts: Mapping[str, bytes]) -> OwnGrammar:
        if recipe.vocabulary != self.prepared.vocabulary.digest:
            raise GrammarUnavailable(
                f"the gateway's grammar is for the vocabulary {recipe.vocabulary[:12]}, but this engine's is"
                f" {self.prepared.vocabulary.digest[:12]}: give the gateway the tokenizer of the model that"
                " this engine serves"
            )
        linked = self._linked.get(recipe.digest)
        return linked or await self._flights.join(recipe.digest, lambda: self._link(recipe, parts))

    async def _link(self, recipe: GrammarRecipe, parts: Mapping[str, bytes]) -> OwnGrammar:
        entries = await self._entries_of(recipe, parts)
        slow = [entry for entry in entries.values() if entry.compile_ms >= _SLOW_MS]
        await asyncio.gather(*(self._compile(entry) for entry in slow))
        try:
            grammar = await self._in_thread(recipe.link, entries, self.prepared)
        except ValueError as error:
            raise GrammarUnavailable(f"the grammar cannot be linked: {error}") from error
        num_bytes = sum(entry.num_bytes for entry in entries.values())
        self._linked.put(recipe.digest, grammar, num_bytes)
        for entry in entries.values():
            self._ahead.submit(_compiled, entry)
        return grammar

    async def _entries_of(self, recipe: GrammarRecipe, parts: Mapping[str, bytes]) -> dict[str, CacheEntry]:
        """The entries of all keys: from memory, from `parts`, and the others in one read of the store."""
        cached = {key: self._entries.get(key) for key in recipe.keys}
        missing = [key for key in recipe.keys if cached[key] is None]
        contents = {key: parts[key] for key in missing if key in parts}
        if absent := [key for key in missing if key not in parts]:
            contents |= await self._read(absent, recipe)
        entries = await self._in_thread(self._verified, contents, recipe) if contents else {}
        for key, entry in entries.items():
            self._entries.put(key, entry, entry.num_bytes)
        return {key: entry or entries[key] for key, entry in cached.items()}

    async def _read(self, keys: Sequence[str], recipe: GrammarRecipe) -> dict[str, bytes]:
        if self._store is None:
            raise GrammarUnavailable(
                f"this engine has no store, and the request does not bring {_named(keys, recipe)}; set"
                " `engine_units` of the model to `inline` at the gateway, or give the engine the gateways'"
                " CALLGATE_STORE"
            )
        names = [UNIT_PREFIX + key for key in keys]
        try:
            async with asyncio.timeout(_STORE_TIMEOUT_S):
                contents = dict(zip(keys, await self._store.get_many(names), strict=True))
        except (StoreError, TimeoutError) as error:
            raise GrammarUnavailable(f"the store fails: {error or 'it does not answer'}") from error
        absent = [key for key, content in contents.items() if content is None]
        if absent:
            raise GrammarUnavailable(
                f"the store lacks {_named(absent, recipe)}; the engine and the gateway need the same"
                " CALLGATE_STORE"
            )
        with suppress(StoreError, TimeoutError):  # they were read, and another reader may touch them
            async with asyncio.timeout(_STORE_TIMEOUT_S):
                await self._store.touch(names, LIFETIME_S)
        return {key: content for key, content in contents.items() if content is not None}

    def _verified(self, contents: Mapping[str, bytes], recipe: GrammarRecipe) -> dict[str, CacheEntry]:
        entries = {}
        kinds = recipe.keys
        for key, content in contents.items():
            try:
                signed = verify(content, key, self._secret)
                entries[key] = CacheEntry.from_bytes(signed, self.prepared, kinds[key])
            except CorruptUnit as error:
                raise GrammarUnavailable(f"{_named([key], recipe)} cannot be used: {error}") from error
        return entries

    async def _compile(self, entry: CacheEntry) -> None:
        async with self._compilers.turn(entry.compile_ms):
            await self._in_thread(_compiled, entry)

    async def _in_thread(self, work: Callable[..., FoundT], *arguments: Any) -> FoundT:
        return await self._loop.run_in_executor(self._threads, work, *arguments)


async def _opened(open_store: Callable[[], Store]) -> Store:
    """The store, opened in the thread of its event loop."""
    return open_store()


def _compiled(entry: CacheEntry) -> None:
    """Compile only what masks need: the budget closer runs in the gateway."""
    entry.compiled.compile()
    _ = entry.compiled.guard


def _named(keys: Iterable[str], recipe: GrammarRecipe) -> str:
    """The names of the tools, or the format, that these keys belong to, for an error message."""
    named_keys = set(keys)
    names = [repr(name) for name, key in recipe.tools if key in named_keys]
    if recipe.answer and recipe.answer.key in named_keys:
        names.append("the response format")
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"the grammar of {', '.join(names[:_SHOWN])}{more}"
