"""How revisions lie in a store: small records that point to compressed contents.

Whoever can write to the store can alter them, and so can a fault: what is read is checked, and refused with a
ValueError that says what is wrong.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import msgspec
import zstandard

from toolspecs.errors import ToolspecsError
from toolspecs.revision import RevisionSummary
from toolspecs.tool import Tool
from toolspecs.toolset import Toolset

MAX_BYTES = 64 * 2**20
"""Of a content, before compression; none that was written is nearly as large."""


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of a toolset's log: a revision, or (`is_deleted`) the toolset's end at that number."""

    summary: RevisionSummary
    is_deleted: bool = False

    @property
    def etag(self) -> str | None:
        """The revision's ETag, None after the toolset's end."""
        return None if self.is_deleted else self.summary.etag


class _Fields(msgspec.Struct):
    """A record's fields; those that later versions may add are passed over."""

    name: str
    number: Annotated[int, msgspec.Meta(ge=1)]
    digest: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    created_at: datetime
    num_tools: Annotated[int, msgspec.Meta(ge=0)]
    is_deleted: bool


def encode_record(record: Record) -> bytes:
    """The record as JSON."""
    summary = record.summary
    fields = {
        "name": summary.name,
        "number": summary.number,
        "digest": summary.digest,
        "created_at": summary.created_at.isoformat(),
        "num_tools": summary.num_tools,
        "is_deleted": record.is_deleted,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_record(content: bytes) -> Record:
    """The record that `encode_record` wrote; raises ValueError."""
    try:
        fields = msgspec.json.decode(content, type=_Fields)
    except msgspec.MsgspecError as error:
        raise ValueError(f"it is no record: {error}") from error
    summary = RevisionSummary(fields.name, fields.number, fields.digest, fields.created_at, fields.num_tools)
    return Record(summary, fields.is_deleted)


def encode_toolset(toolset: Toolset) -> bytes:
    """The content of a toolset as JSON, before compression: a list of tools, or an object with documents."""
    rows = [[tool.name, tool.description, tool.parameters, tool.extras] for tool in toolset.tools]
    content = {"tools": rows, "documents": toolset.documents} if toolset.documents else rows
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def decode_toolset(name: str, digest: str, content: bytes) -> Toolset:
    """The toolset whose content `encode_toolset` wrote, key order kept; raises ValueError."""
    try:
        fields = json.loads(content)
        rows, documents = (fields, {}) if isinstance(fields, list) else (fields["tools"], fields["documents"])
        toolset = Toolset(name, tuple(Tool(*row) for row in rows), documents)
        found = toolset.digest
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, ToolspecsError) as error:
        raise ValueError(f"it is no toolset: {error}") from error
    if found != digest:
        raise ValueError("it is another toolset than was written there")
    return toolset


def compress(content: bytes) -> bytes:
    """`content` in zstd's format."""
    return zstandard.ZstdCompressor().compress(content)


def decompress(content: bytes) -> bytes:
    """What `compress` was given; raises ValueError."""
    try:
        if zstandard.frame_content_size(content) > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES} bytes")
        return zstandard.ZstdDecompressor().decompress(content)
    except zstandard.ZstdError as error:
        raise ValueError(f"{error}") from error
