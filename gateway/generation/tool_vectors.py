"""Vectors of tools and of requests, for searching by meaning: made in threads, and kept in an LRU cache.

Embedding a tool takes about 25 ms, and a request somewhat less. So a search waits for a few tools at most. If
more vectors are missing, the search uses only words, and the vectors are made in the background for later
searches.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from threading import Lock
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from toolspecs.fairness.fair_threads import FairThreads
from toolspecs.lru_cache import LruCache
from toolspecs.search.tool_index import Scores, described, fit, parts_of
from toolspecs.tool import Tool

Vector = NDArray[np.float32]
"""[width] of a tool; of a group of tools [tools, width]; of a request's text [parts, width], a row for each
of its `parts_of`."""

MAX_WAIT_S = 1.0
"""The longest time that a search waits for vectors."""

WORTH_WAITING = 32
"""The most tools without vectors for which a search waits; more would take too long."""

MAX_BYTES = 64 << 20
_OWN_BYTES = 400
"""What a vector takes beside its numbers."""

_MAX_WAITING = 4_096
"""Tools of one client that may wait for their vectors."""

MAX_TEXTS_WAITING = 64
"""Messages of one client that may wait, each of up to 8,000 characters, even if their searches gave up."""

_NUM_THREADS = 2
_log = logging.getLogger(__name__)


class Embedder(Protocol):
    """Makes vectors of length 1; threads can share it."""

    def query(self, parts: Sequence[str]) -> Vector:
        """The vectors of the parts of a query; the first part is the whole text."""

    def document(self, text: str) -> Vector:
        """The vector of a text that may be found."""


class ToolVectors:
    """The vectors that were used last. Tenants share none, so that times reveal nothing of others."""

    def __init__(self, embedder: Embedder, *, max_bytes: int = MAX_BYTES) -> None:
        self._embedder = embedder
        self._vectors: LruCache[Vector] = LruCache(max_bytes)
        self._pending: dict[str, Future[None]] = {}
        self._lock = Lock()
        # Threads of their own, so that a request does not wait for tools of others.
        self._of_tools = FairThreads(_NUM_THREADS, "tool-vectors")
        self._of_requests = FairThreads(_NUM_THREADS, "request-vectors")

    def close(self) -> None:
        """Make no more vectors."""
        with self._lock:
            pending = list(self._pending.values())
        for future in pending:
            future.cancel()
        self._of_tools.shutdown()
        self._of_requests.shutdown()

    async def scores(
        self,
        tools: Sequence[Tool],
        texts: Mapping[str, float],
        *,
        key: str,
        tenant: str = "",
        client_id: str = "",
        wait_s: float = MAX_WAIT_S,
    ) -> Scores | None:
        """How well each tool fits some texts by meaning, from 0 to 1 (best), as `ToolIndex.scores` does.

        `key` tells these tools from others: their vectors are kept together, since looking up thousands one
        by one takes longer than comparing them. None if missing vectors take longer than `wait_s`; they are
        made nevertheless.
        """
        if not texts:
            return np.zeros(len(tools), np.float32)
        group_key = _key(tenant, "group", key)
        (documents,) = self._get([group_key])
        pending: list[Future[None]] = []
        tool_keys: list[str] = []
        if documents is None:
            tool_keys = [_key(tenant, "tool", tool.digest) for tool in tools]
            work = {key: partial(self._tool, tool) for key, tool in zip(tool_keys, tools, strict=True)}
            started = self._start_missing(self._of_tools, client_id, work, _MAX_WAITING)
            if started is None or len(started) > WORTH_WAITING:
                return None
            pending += started
        work = {_key(tenant, "text", text): partial(self._query, text) for text in texts}
        started = self._start_missing(self._of_requests, client_id, work, MAX_TEXTS_WAITING)
        if started is None:
            return None
        pending += started
        if pending:
            await asyncio.wait([asyncio.wrap_future(future) for future in pending], timeout=wait_s)
        queries = self._cached(work)
        if documents is None:
            documents = self._stacked(group_key, tool_keys)
        if documents is None or queries is None:
            return None
        return await asyncio.to_thread(
            meaning_scores, documents, dict(zip(texts, queries, strict=True)), texts
        )

    def _tool(self, tool: Tool) -> Vector:
        return self._embedder.document(described(tool))

    def _query(self, text: str) -> Vector:
        return self._embedder.query(parts_of(text))

    def _start_missing(
        self, threads: FairThreads, client_id: str, work: Mapping[str, Callable[[], Vector]], max_waiting: int
    ) -> list[Future[None]] | None:
        """Start making the missing vectors; None if more than `max_waiting` of the client would wait."""
        missing = [key for key, vector in zip(work, self._get(work), strict=True) if vector is None]
        if len(missing) + threads.num_of(client_id) > max_waiting:
            return None
        return [self._begin(threads, client_id, key, work[key]) for key in missing]

    def _get(self, keys: Iterable[str]) -> list[Vector | None]:
        with self._lock:
            return [self._vectors.get(key) for key in keys]

    def _stacked(self, group: str, keys: Sequence[str]) -> Vector | None:
        """The vectors of a group's tools, a row each; they are kept together. None if one is missing."""
        vectors = self._cached(keys)
        if vectors is None:
            return None
        stacked = np.stack(vectors)
        with self._lock:
            self._vectors.put(group, stacked, stacked.nbytes + _OWN_BYTES)
        return stacked

    def _cached(self, keys: Iterable[str]) -> list[Vector] | None:
        """The vectors of some keys; None if one is missing."""
        cached = self._get(keys)
        vectors = [vector for vector in cached if vector is not None]
        return vectors if len(vectors) == len(cached) else None

    def _begin(
        self, threads: FairThreads, client_id: str, key: str, work: Callable[[], Vector]
    ) -> Future[None]:
        """Start making a vector, unless it is being made already."""
        with self._lock:
            if key not in self._pending:
                self._pending[key] = threads.submit(client_id, partial(self._make, key, work))
            return self._pending[key]

    def _make(self, key: str, work: Callable[[], Vector]) -> None:
        """Make a vector and keep it. A text that cannot be embedded is searched by words only."""
        try:
            vector = work()
        except Exception:  # noqa: BLE001 - a model may fail in any way; the search then uses only words
            _log.exception("a text could not be embedded; tool search compares only its words")
            vector = None
        with self._lock:
            self._pending.pop(key, None)
            if vector is not None:
                self._vectors.put(key, vector, vector.nbytes + _OWN_BYTES)


def meaning_scores(tools: Vector, queries: Mapping[str, Vector], texts: Mapping[str, float]) -> Scores:
    """How well tools fit some texts: `tools` has a row for each tool, `queries` the vectors of each text."""
    return fit(texts, {text: list(np.maximum(rows @ tools.T, 0)) for text, rows in queries.items()})


def _key(tenant: str, kind: str, text: str) -> str:
    return f"{tenant} {kind} {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"
