"""The contents of revisions in a store, compressed, under their digests: `toolset/content/<digest>`.

Toolsets with equal contents share one entry. A content never changes, but the stamp at its end does: it says
when a writer last relied on the content. So the collector does not remove a content that a writer is about to
name in a record (`toolspecs/revisions/collector.py`).
"""

import hashlib
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import zstandard

from toolspecs.errors import DamagedEntry, ToolspecsError
from toolspecs.fairness.fair_turns import FairTurns
from toolspecs.fairness.thread_time import in_thread
from toolspecs.json_scan import ContentLimits, scan
from toolspecs.json_value import DEFAULT_LIMITS, Limits
from toolspecs.lru_cache import LruCache
from toolspecs.nearest import shorten
from toolspecs.pinned_source import SourceFields
from toolspecs.resolved_types import resolved
from toolspecs.shapes import EXTRAS
from toolspecs.store import Store
from toolspecs.tool import CustomInput, KeyOrder, ShownTools, Tool, ToolSearch
from toolspecs.toolset import RevisionSummary, Toolset

CONTENTS = "toolset/content/"

STAMP_AFTER_S = 15 * 60
"""A stamp that is younger is not renewed, so that equal writes in a row do not write a content each time."""
_STAMP_MARK, _STAMP_BYTES = b"used", 16

ROOM_BYTES = 4 * 2**20
"""A stored content may have so many bytes more than a toolset that is registered now."""
COUNTED_VALUES = 4
"""At most as many values of the text as of the toolset: rows and empty objects make more in the text."""

CONTENT_CACHE_BYTES = 64 * 1024 * 1024
"""The memory for decoded contents: for large ones, and again for all others."""
LARGE = 128 * 1024
"""Bytes, of its text or in memory, from which a content is large: it takes long to decode."""
KNOWN_LARGE_BYTES, DIGEST_BYTES = 2**20, 256
"""The memory for digests of large contents, and about what one takes."""
REASON_LENGTH, DAMAGE_BYTES = 300, 1024
"""The most characters of why a content is damaged, and about what the note of a damaged one takes."""
VALUE_BYTES = 80
"""About what a decoded JSON value takes in memory beside its text, most of all an empty list or object."""


def encode_toolset(toolset: Toolset) -> bytes:
    """The content of a toolset as JSON: a list of tools, or an object with the tools and the other fields."""
    rows = [_row(tool) for tool in toolset.tools]
    others: dict[str, Any] = {"documents": toolset.documents} if toolset.documents else {}
    if toolset.prompt_tools:
        others["prompt_tools"] = toolset.prompt_tools
    if toolset.tool_search:
        others["tool_search"] = [toolset.tool_search.limit, *toolset.tool_search.always]
    if toolset.sources:
        others["sources"] = [[source.fields(), [*map(_row, source.offered)]] for source in toolset.sources]
    content = {"tools": rows, **others} if others else rows
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


class _CustomRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    syntax: Literal["text", "regex", "lark"]
    definition: str


class _Row(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A tool as `_row` writes it."""

    name: str
    description: str
    parameters: dict[str, Any]
    extras: dict[str, Any]
    key_order: KeyOrder = "declared"
    custom: _CustomRow | None = None

    def tool(self) -> Tool:
        """The tool; raises ValueError."""
        for extra, value in self.extras.items():
            if value is not None and not isinstance(value, EXTRAS.get(extra, object)):
                raise ValueError(f"{extra} of tool {self.name!r} has the wrong type")
        custom = CustomInput(self.custom.syntax, self.custom.definition) if self.custom else None
        return Tool(
            self.name, self.description, self.parameters, self.extras, custom=custom, key_order=self.key_order
        )


class _Content(msgspec.Struct):
    """The fields that `encode_toolset` writes."""

    tools: list[_Row]
    documents: dict[str, Any] = {}
    prompt_tools: ShownTools | None = None
    tool_search: list[int | str] = []
    sources: list[tuple[SourceFields, list[_Row]]] = []

    def toolset(self, name: str) -> Toolset:
        """The toolset; raises ValueError and ToolspecsError."""
        return Toolset(
            name,
            tuple(row.tool() for row in self.tools),
            self.documents,
            prompt_tools=self.prompt_tools,
            tool_search=_tool_search(self.tool_search),
            sources=tuple(source.pinned(row.tool() for row in offered) for source, offered in self.sources),
        )


def _tool_search(stored: list[int | str]) -> ToolSearch | None:
    if not stored:
        return None
    limit, *always = stored
    names = tuple(name for name in always if isinstance(name, str))
    if not isinstance(limit, int) or limit < 1 or len(names) < len(always):
        raise ValueError("its tool_search is not a number and names")
    return ToolSearch(limit, names)


def decode_toolset(name: str, digest: str, content: bytes, limits: Limits = DEFAULT_LIMITS) -> Toolset:
    """The toolset whose content `encode_toolset` wrote, with the same order of keys; raises ValueError.

    Whoever may write into the store may have written it, so values are counted before they are decoded.
    """
    most = ContentLimits(COUNTED_VALUES * limits.num_values, num_long_numbers=limits.toolset_bytes)
    try:
        scan(content, most)
        # `msgspec` takes 20 times as long as `json` for some numbers.
        value = json.loads(_whole_text(content))
        fields = msgspec.convert(value, type=resolved(_Content | list[_Row]))  # type: ignore[arg-type]  # a union
        stored = _Content(fields) if isinstance(fields, list) else fields
        toolset = stored.toolset(name)
        digest_found = toolset.digest
        toolset.measure()  # here, in a thread
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, ToolspecsError) as error:
        raise ValueError(f"it is not a toolset: {shorten(str(error), REASON_LENGTH)}") from error
    if digest_found != digest:
        raise ValueError("it is not the toolset that was written there: its digest differs")
    return toolset


def _whole_text(content: bytes) -> str:
    """The text of a content; raises ValueError if it may have half surrogate pairs, as no content has."""
    without_backslashes = content.replace(rb"\\", b"")
    if rb"\ud" in without_backslashes or rb"\uD" in without_backslashes:
        raise ValueError("it escapes characters that are written as they are")
    return content.decode()


def _row(tool: Tool) -> list[Any]:
    """A tool as it is stored, with its key order and its custom input only if they are not the defaults."""
    row: list[Any] = [tool.name, tool.description, tool.parameters, tool.extras]
    if tool.custom:
        return [*row, tool.key_order, [tool.custom.syntax, tool.custom.definition]]
    return row if tool.key_order == "declared" else [*row, tool.key_order]


def compress(content: bytes) -> bytes:
    """`content` in the format of zstd."""
    return zstandard.ZstdCompressor().compress(content)


def unpacked_size(content: bytes) -> int:
    """How many bytes `decompress` returns; raises ValueError."""
    try:
        return zstandard.frame_content_size(content)
    except zstandard.ZstdError as error:
        raise ValueError(f"{error}") from error


def decompress(content: bytes, max_bytes: int) -> bytes:
    """Undo `compress`; raises ValueError, also if the result would have more than `max_bytes`."""
    try:
        if unpacked_size(content) > max_bytes:
            raise ValueError(f"it is larger than {max_bytes} bytes")
        return zstandard.ZstdDecompressor().decompress(content)
    except zstandard.ZstdError as error:
        raise ValueError(f"{error}") from error


@dataclass(frozen=True, slots=True)
class ContentCache:
    """Decoded contents in memory, by digest; they are decoded one at a time, as the event loop waits.

    The stores that share the cache take turns. Each tenant has one of its own.
    """

    toolsets: LruCache[Toolset] = field(default_factory=lambda: LruCache(CONTENT_CACHE_BYTES))
    turns: FairTurns = field(default_factory=FairTurns)


@dataclass(frozen=True, slots=True)
class DecodedContents:
    """Decoded contents in two caches: who reads many large ones delays and evicts no small ones.

    The catalogs of a process may share them, even if their stores differ.
    """

    small: ContentCache = field(default_factory=ContentCache)
    large: ContentCache = field(default_factory=ContentCache)
    known_large: LruCache[bool] = field(default_factory=lambda: LruCache(KNOWN_LARGE_BYTES))
    """The digests of contents that are not even read from the store before it is their turn."""
    damaged: LruCache[tuple[bytes, str]] = field(default_factory=lambda: LruCache(KNOWN_LARGE_BYTES))
    """By digest: the hash of a stored content that was found damaged, and why. It is not unpacked again."""

    def cache_of(self, num_bytes: int) -> ContentCache:
        """The cache of a content that has so many bytes."""
        return self.large if num_bytes >= LARGE else self.small

    def get(self, key: str) -> Toolset | None:
        """A content in memory."""
        toolset = self.small.toolsets.get(key)
        return self.large.toolsets.get(key) if toolset is None else toolset


class ContentStore:
    """Reads and writes contents, through a cache. Both may raise `StoreUnavailable`."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = time.time,
        decoded: DecodedContents | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._decoded_contents = decoded or DecodedContents()
        self._limits = limits
        self._max_bytes = limits.toolset_bytes + ROOM_BYTES

    async def put(self, toolset: Toolset, digest: str, content: bytes, packed: bytes) -> None:
        """Write the content of `toolset`, unless it is stored intact and was stamped lately.

        `content` is the encoded toolset, `packed` the same compressed.
        """
        key, now = CONTENTS + digest, self._clock()
        stored = await self._store.get(key)
        is_intact = stored is not None and unstamped(stored) == packed
        if stored is None or not is_intact or stamp_of(stored) < now - STAMP_AFTER_S:
            renewed = stamped(packed, now)
            if not await self._store.compare_and_set(key, stored, renewed):
                await self._store.set(key, renewed)  # another writer or the collector was there
        self._keep(toolset, digest, content)

    async def get(self, summary: RevisionSummary) -> Toolset:
        """The content of a revision, from the cache or the store; raises `DamagedEntry`."""
        toolset = self._cached(summary)
        if toolset is not None:
            return toolset
        if self._decoded_contents.known_large.get(summary.digest):
            async with self._decoded_contents.large.turns.of(self):
                return self._cached(summary) or await self._decoded(summary, await self._packed(summary))
        packed = await self._packed(summary)
        try:
            num_bytes = unpacked_size(packed)
        except ValueError as error:
            raise _damaged(summary, error) from error
        async with self._decoded_contents.cache_of(num_bytes).turns.of(self):
            return self._cached(summary) or await self._decoded(summary, packed)

    async def _packed(self, summary: RevisionSummary) -> bytes:
        stored = await self._store.get(CONTENTS + summary.digest)
        if stored is None:
            raise _damaged(summary, "it is missing")
        if len(stored) > self._max_bytes:
            raise _damaged(summary, "it is larger than any toolset")
        return unstamped(stored)

    async def _decoded(self, summary: RevisionSummary, packed: bytes) -> Toolset:
        known_damaged = self._decoded_contents.damaged
        seen, reason = known_damaged.get(summary.digest) or (b"", "")
        if seen and seen == hashlib.sha256(packed).digest():
            raise _damaged(summary, reason)
        try:
            content = await in_thread(decompress, packed, self._max_bytes)
            toolset = await in_thread(decode_toolset, summary.name, summary.digest, content, self._limits)
        except ValueError as error:
            note = (hashlib.sha256(packed).digest(), str(error))
            known_damaged.put(summary.digest, note, DAMAGE_BYTES)
            raise _damaged(summary, error) from error
        self._keep(toolset, summary.digest, content)
        return toolset

    def _cached(self, summary: RevisionSummary) -> Toolset | None:
        return self._decoded_contents.get(_cache_key(summary.name, summary.digest))

    def _keep(self, toolset: Toolset, digest: str, content: bytes) -> None:
        num_bytes = len(content) + VALUE_BYTES * toolset.num_values
        cache = self._decoded_contents.cache_of(num_bytes)
        cache.toolsets.put(_cache_key(toolset.name, digest), toolset, num_bytes)
        if cache is self._decoded_contents.large:
            self._decoded_contents.known_large.put(digest, value=True, num_bytes=DIGEST_BYTES)


def _damaged(summary: RevisionSummary, reason: str | ValueError) -> DamagedEntry:
    return DamagedEntry(CONTENTS + summary.digest, f"{reason}; put toolset {summary.name!r} again")


def stamped(packed: bytes, now: float) -> bytes:
    """A content followed by the time and random bytes, so that no two writers write the same."""
    return packed + _STAMP_MARK + round(now).to_bytes(8) + secrets.token_bytes(4)


def stamp_of(stored: bytes) -> float:
    """When a writer last relied on a stored content; 0 where an earlier version wrote it."""
    stamp = stored[-_STAMP_BYTES:]
    return int.from_bytes(stamp[4:12]) if stamp.startswith(_STAMP_MARK) else 0


def unstamped(stored: bytes) -> bytes:
    """The compressed content alone."""
    return stored[:-_STAMP_BYTES] if stored[-_STAMP_BYTES:].startswith(_STAMP_MARK) else stored


def _cache_key(name: str, digest: str) -> str:
    return f"{name}/{digest}"
