"""Sends grammars with their requests: an engine without a store reads the parts from the mark.

The parts are the same signed entries that the store would hold. Every request carries all of them, even if
the engine has them already, so this suits small toolsets.
"""

import asyncio
import threading
from collections.abc import Mapping

from compiler.cache.grammar_cache import GrammarCache
from compiler.cache.grammar_store import sign
from compiler.cache_entry import CacheEntry
from compiler.recipe import GrammarRecipe
from runtime.errors import RequestRefused
from toolspecs.lru_cache import LruCache

MAX_INLINE_BYTES = 256 * 2**10
"""The most bytes of the parts in one request."""
_CACHE_BYTES = 64 * 2**20


class InlineGrammars:
    """The signed parts of requests' grammars. Thread-safe, except `publish`, which the event loop calls."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._grammars: GrammarCache | None = None
        self._signed: LruCache[Mapping[str, bytes]] = LruCache(_CACHE_BYTES)
        self._lock = threading.Lock()

    def start(self, grammars: GrammarCache) -> None:
        """Begin to serve; `grammars` is the cache that has the parts."""
        self._grammars = grammars

    async def publish(
        self,
        recipe: GrammarRecipe,
        client_id: str | None,  # noqa: ARG002 - the protocol's
        *,
        is_again: bool = False,  # noqa: ARG002 - an engine that has failed gets the parts with its next request
    ) -> None:
        """Make sure that the parts are in memory.

        Raises:
            RequestRefused: they are no longer in memory, or are too large.
        """
        assert self._grammars is not None, "no request comes before the start"
        if self._cached(recipe):
            return
        entries = self._grammars.entries_of(recipe)
        if entries is None:
            raise _gone()
        signed = await asyncio.to_thread(self._sign, entries)
        with self._lock:
            self._signed.put(recipe.digest, signed, sum(map(len, signed.values())))

    def parts(self, recipe: GrammarRecipe) -> Mapping[str, bytes]:
        """The signed parts by their keys; raises RequestRefused if they are no longer in memory."""
        parts_found = self._cached(recipe)
        if parts_found is None:
            raise _gone()
        return parts_found

    async def close(self) -> None:
        """Do nothing: nothing runs in the background."""

    def _cached(self, recipe: GrammarRecipe) -> Mapping[str, bytes] | None:
        with self._lock:
            return self._signed.get(recipe.digest)

    def _sign(self, entries: Mapping[str, CacheEntry]) -> dict[str, bytes]:
        """The signed parts; raises RequestRefused at the first one that is too much."""
        signed: dict[str, bytes] = {}
        num_left = MAX_INLINE_BYTES
        for key, entry in entries.items():
            signed[key] = sign(entry.to_bytes(), key, self._secret)
            num_left -= len(signed[key])
            if num_left < 0:
                raise RequestRefused(
                    f"the compiled grammar of this request has more than {MAX_INLINE_BYTES} bytes, and no"
                    " more go with a request to engines that have no store; offer fewer tools, or give the"
                    " engines the gateways' store and set `engine_units` to `store`",
                    "tools",
                )
        return signed


def _gone() -> RequestRefused:
    reason = "the compiled grammar of this request has left the gateway's memory; send the request again"
    return RequestRefused(reason, "tools")
