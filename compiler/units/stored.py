"""The stored form of a compiled grammar: a line of identity and the grammar's source, compressed.

The compiled form is not stored: a warm compiler rebuilds it faster than it could be read, in 2 ms against
11 at the median, and in 96 ms against 450 for the largest of the demo's tools. The compiled form of a slow
grammar is huge: one that compiles in 3 s has 111 MB, which take 12 s to write and 3 s to read. And compiling
releases the interpreter's lock.
"""

import importlib.metadata
import json

import msgspec
import xgrammar as xgr
import zstandard

from compiler.errors import CorruptUnit
from compiler.vocabulary import Vocabulary

MAX_BYTES = 64 * 2**20
BYTES_PER_CHAR = 10
"""Memory that source, grammar and network of real tools take per character of source."""
VERSIONS = (importlib.metadata.version("xgrammar"), str(xgr.get_serialization_version()))
_ZSTD_LEVEL = 9


def pack(digest: str, kind: str, source: str, vocabulary: Vocabulary) -> bytes:
    """The bytes that `unpack` reads; `kind` tells what the grammar is used for."""
    identity = json.dumps([digest, kind, vocabulary.digest, *VERSIONS])
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(f"{identity}\n{source}".encode())


def unpack(data: bytes, vocabulary: Vocabulary) -> tuple[str, str, str]:
    """Digest, kind and source; the caller has authenticated the bytes.

    Raises:
        CorruptUnit: truncated, altered, of another vocabulary or of another xgrammar.
    """
    try:
        if zstandard.frame_content_size(data) > MAX_BYTES:
            raise CorruptUnit("it would take too much memory")
        identity, source = zstandard.ZstdDecompressor().decompress(data).decode().split("\n", 1)
        digest, kind, *origin = msgspec.json.decode(identity, type=list[str])
    except (zstandard.ZstdError, ValueError) as error:
        raise CorruptUnit(f"not a stored unit: {error}") from error
    if origin != [vocabulary.digest, *VERSIONS]:
        raise CorruptUnit("the stored unit was compiled for another vocabulary or by another xgrammar")
    return digest, kind, source
