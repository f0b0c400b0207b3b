"""The keys of tools' entries, remembered: computing them reads all of each tool."""

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from compiler.errors import UnsupportedSchema
from compiler.isolation.compile_job import CompileJob, KeyedJob
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

    def job(self, tool: Tool) -> CompileJob:
        """What compiles one of the tools."""
        return CompileJob.tool(tool, self.syntax, self.key_order)


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

    async def jobs(self, wanted: ToolsToFind) -> list[KeyedJob | UnsupportedSchema]:
        """The job of each tool, or the refusal of one that has no key. A thread hashes new tools."""
        known = [self._known_job(wanted, tool) for tool in wanted.tools]
        new = [tool for tool, job in zip(wanted.tools, known, strict=True) if job is None]
        hashed = await asyncio.to_thread(_hashed_jobs, wanted, new) if new else []
        for tool, job in zip(new, hashed, strict=True):
            if tool.is_hashed and isinstance(job, KeyedJob):
                memo_key = wanted.memo_key(tool)
                self._keys.put(memo_key, job.key, len(memo_key) + len(job.key))
        in_order = iter(hashed)
        return [job or next(in_order) for job in known]

    def _known_job(self, wanted: ToolsToFind, tool: Tool) -> KeyedJob | None:
        """The job of a tool whose key is remembered."""
        key = self._keys.get(wanted.memo_key(tool)) if tool.is_hashed else None
        return None if key is None else KeyedJob(key, wanted.job(tool))


def _hashed_jobs(wanted: ToolsToFind, tools: Sequence[Tool]) -> list[KeyedJob | UnsupportedSchema]:
    """The jobs of tools; the tools are hashed too, unless they are nested too deeply."""
    for tool in tools:
        with suppress(RecursionError):
            _ = tool.digest
    return [wanted.job(tool).keyed(wanted.prepared.vocabulary) for tool in tools]
