"""The contents of toolsets in a store, under their digest: `toolset/content/<digest>`.

They are shared by all toolsets of equal content, and never changed.
"""

import asyncio

from toolspecs.codec import compress, decode_toolset, decompress, encode_toolset
from toolspecs.errors import StoreUnavailable
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
        """Write a content, where it is not yet."""
        content = await asyncio.to_thread(encode_toolset, toolset)
        packed = await asyncio.to_thread(compress, content)
        await self._store.compare_and_set(CONTENTS + toolset.digest, None, packed)
        self._recent.keep(_key(toolset.name, toolset.digest), toolset, len(content))

    async def get(self, summary: RevisionSummary) -> Toolset:
        """The content of a revision, from what is at hand or the store."""
        key = _key(summary.name, summary.digest)
        toolset = self._recent.get(key)
        if toolset is None:
            packed = await self._store.get(CONTENTS + summary.digest)
            if packed is None:
                reason = f"the content of toolset {summary.name!r} is missing"
                raise StoreUnavailable(repr(self._store), reason)
            content = await asyncio.to_thread(decompress, packed)
            toolset = await asyncio.to_thread(decode_toolset, summary.name, content)
            self._recent.keep(key, toolset, len(content))
        return toolset


def _key(name: str, digest: str) -> str:
    return f"{name}/{digest}"
