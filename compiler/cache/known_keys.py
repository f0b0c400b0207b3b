"""The keys of tools' entries, remembered: computing them reads all of each tool."""

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from compiler.errors import UnsupportedSchema
from compiler.isolation.compile_job import CompileJob
from compiler.prepared_vocabulary import PreparedVocabulary
from toolspecs.lru_cache import LruCache
from toolspecs.tool import KeyOrder, Tool

_NUM_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class ToolsToFind:
    """Tools, and what their entries are for; without a `key_order`, every tool says its own."""

    tools: Sequence[Tool]
    syntax: str
    prepared: PreparedVocabulary
    key_order: KeyOrder | None = None

    def memo_key(self, tool: Tool) -> str:
        """What names the entry of one of the tools; the tool has been hashed."""
        return f"{tool.digest} {self.syntax} {self.prepared.vocabulary.digest} {self.key_order}"

    @property
    def digest(self) -> str | None:
        """What names the entries together; None if some tool has not been hashed yet, which takes time."""
        if not all(tool.is_hashed for tool in self.tools):
            return None
        digests = (tool.digest for tool in self.tools)
        parts = (self.syntax, self.prepared.vocabulary.digest, str(self.key_order), *digests)
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    def jobs(self) -> list[CompileJob]:
        """What compiles each of the tools."""
        return [CompileJob.tool(tool, self.syntax, self.key_order) for tool in self.tools]


class KnownKeys:
    """Remembers the keys of single tools, and of tools that were found together."""

    def __init__(self) -> None:
        self._keys: LruCache[str] = LruCache(_NUM_BYTES)
        self._keys_together: LruCache[tuple[str, ...]] = LruCache(_NUM_BYTES)

    def together(self, wanted: ToolsToFind) -> tuple[str, ...] | None:
        """The keys of tools that were found together before; for many tools, much cheaper than their jobs."""
        digest = wanted.digest
        return None if digest is None else self._keys_together.get(digest)

    def remember(self, wanted: ToolsToFind, keys: tuple[str, ...]) -> None:
        """Note the keys of tools that were found."""
        if (digest := wanted.digest) is not None:
            self._keys_together.put(digest, keys, sum(map(len, keys)) + len(digest))

    async def jobs(self, wanted: ToolsToFind) -> list[CompileJob]:
        """The jobs of tools, each with its key, unless its tool is refused. A thread hashes new tools."""
        jobs, vocabulary = wanted.jobs(), wanted.prepared.vocabulary

        def compute_keys() -> dict[str, str]:
            keys = {}
            for tool, job in zip(wanted.tools, jobs, strict=True):
                # `CachedEntries.find` raises the error again, for this job.
                with suppress(UnsupportedSchema, RecursionError):
                    keys[wanted.memo_key(tool)] = job.key(vocabulary)
            return keys

        if not all(tool.is_hashed and self._keys.get(wanted.memo_key(tool)) for tool in wanted.tools):
            for memo_key, key in (await asyncio.to_thread(compute_keys)).items():
                self._keys.put(memo_key, key, len(memo_key) + len(key))
        for tool, job in zip(wanted.tools, jobs, strict=True):
            if tool.is_hashed and (known := self._keys.get(wanted.memo_key(tool))):
                job.keep_key(vocabulary, known)
        return jobs
