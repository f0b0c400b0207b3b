"""How revisions lie in a store: small records that point to compressed contents."""

import json
from dataclasses import dataclass
from datetime import datetime

import zstandard

from toolspecs.revision import RevisionSummary
from toolspecs.tool import Tool
from toolspecs.toolset import Toolset


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of a toolset's log: a revision, or (`is_deleted`) the toolset's end at that number."""

    summary: RevisionSummary
    is_deleted: bool = False

    @property
    def etag(self) -> str | None:
        """The revision's ETag, None after the toolset's end."""
        return None if self.is_deleted else self.summary.etag


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
    """The record that `encode_record` wrote."""
    fields = json.loads(content)
    summary = RevisionSummary(
        fields["name"],
        fields["number"],
        fields["digest"],
        datetime.fromisoformat(fields["created_at"]),
        fields["num_tools"],
    )
    return Record(summary, fields["is_deleted"])


def encode_toolset(toolset: Toolset) -> bytes:
    """The content of a toolset as JSON, before compression: a list of tools, or an object with documents."""
    rows = [[tool.name, tool.description, tool.parameters, tool.extras] for tool in toolset.tools]
    content = {"tools": rows, "documents": toolset.documents} if toolset.documents else rows
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def decode_toolset(name: str, content: bytes) -> Toolset:
    """The toolset whose content `encode_toolset` wrote, key order kept."""
    fields = json.loads(content)
    rows, documents = (fields, {}) if isinstance(fields, list) else (fields["tools"], fields["documents"])
    return Toolset(name, tuple(Tool(*row) for row in rows), documents)


def compress(content: bytes) -> bytes:
    """`content` in zstd's format."""
    return zstandard.ZstdCompressor().compress(content)


def decompress(content: bytes) -> bytes:
    """What `compress` was given."""
    return zstandard.ZstdDecompressor().decompress(content)
