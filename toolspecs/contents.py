"""The contents of toolsets in a store, under their digest: `toolset/content/<digest>`.

They are shared by all toolsets of equal content, and never changed.
"""

import asyncio

from toolspecs.codec import compress, decode_toolset, decompress, encode_toolset
from toolspecs.errors import DamagedEntry
from toolspecs.recent import Recent
from toolspecs.revision import RevisionSummary
from toolspecs.store import Store
from toolspecs.toolset import Toolset

CONTENTS = "toolset/content/"

RECENT_BYTES = 64 * 1024 * 1024
"""Decoded contents kept at hand, in bytes of their JSON."""


class Contents:
    """Reads and writes contents; those used lately are at hand. Both may raise `StoreUnavailable`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._recent: Recent[Toolset] = Recent(RECENT_BYTES)

    async def put(self, toolset: Toolset) -> None:
        """Write a content, where it is not yet, or not whole."""
        key = CONTENTS + toolset.digest
        content = await asyncio.to_thread(encode_toolset, toolset)
        packed = await asyncio.to_thread(compress, content)
        if not await self._store.compare_and_set(key, None, packed) and await self._store.get(key) != packed:
            await self._store.set(key, packed)
        self._recent.keep(_recent_key(toolset.name, toolset.digest), toolset, len(content))

    async def get(self, summary: RevisionSummary) -> Toolset:
        """The content of a revision, from what is at hand or the store; raises `DamagedEntry`."""
        recent_key = _recent_key(summary.name, summary.digest)
        toolset = self._recent.get(recent_key)
        if toolset is None:
            key = CONTENTS + summary.digest
            packed = await self._store.get(key)
            if packed is None:
                raise DamagedEntry(key, f"it is missing, and toolset {summary.name!r} is in it")
            try:
                content = await asyncio.to_thread(decompress, packed)
                toolset = await asyncio.to_thread(decode_toolset, summary.name, summary.digest, content)
            except ValueError as error:
                raise DamagedEntry(key, f"{error}; put toolset {summary.name!r} again") from error
            self._recent.keep(recent_key, toolset, len(content))
        return toolset


def _recent_key(name: str, digest: str) -> str:
    return f"{name}/{digest}"
