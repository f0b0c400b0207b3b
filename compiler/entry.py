"""A cache entry: a compiled grammar and its report, as stored."""

import hashlib
import hmac
import json
import time
from dataclasses import asdict, dataclass
from typing import Any

from compiler.errors import CorruptUnit
from compiler.report import EnforcementReport, Verdict
from compiler.report import Entry as ReportEntry
from compiler.schema import CompiledSchema, compile_schema
from compiler.style import SPACED
from compiler.syntaxes import Syntax
from compiler.toolset import lower_tool
from compiler.unit import Unit, compile_unit
from compiler.vocabulary import Vocabulary
from toolspecs.tool import Tool

_MAC_BYTES = hashlib.sha256().digest_size


@dataclass(frozen=True)
class Entry:
    """A tool's unit or a response's schema, the verdict on its keywords, and how long it took to compile.

    What a generation needs of its unit is built here, so that none waits for it later.
    """

    unit: Unit | CompiledSchema
    report: EnforcementReport
    compile_ms: float
    vocabulary: Vocabulary

    def __post_init__(self) -> None:
        """Build what closing a call reads."""
        assert self.unit.network is not None
        assert self.unit.shortest is not None

    @classmethod
    def of_tool(cls, tool: Tool, syntax: Syntax, vocabulary: Vocabulary) -> "Entry":
        """Compile a tool; raises UnsupportedSchema, UnsupportedGrammar."""
        start = time.perf_counter()
        lowered = lower_tool(tool, syntax, vocabulary)
        unit = compile_unit(lowered.grammar, syntax, vocabulary, lowered.types)
        return cls(unit, lowered.report, _milliseconds_since(start), vocabulary)

    @classmethod
    def of_schema(cls, schema: Any, vocabulary: Vocabulary) -> "Entry":
        """Compile a response's schema; raises UnsupportedSchema, UnsupportedGrammar."""
        start = time.perf_counter()
        compiled = compile_schema(schema, tokenizer=vocabulary, style=SPACED)
        return cls(compiled, compiled.report, _milliseconds_since(start), vocabulary)

    def to_bytes(self) -> bytes:
        """A line of JSON on the entry, one with the report, then the unit's bytes."""
        kind = "schema" if isinstance(self.unit, CompiledSchema) else "tool"
        head = json.dumps([kind, self.compile_ms])
        report = json.dumps([asdict(entry) for entry in self.report.entries])
        return b"\n".join([head.encode(), report.encode(), self.unit.to_bytes(self.vocabulary)])

    @staticmethod
    def compile_ms_of(data: bytes) -> float:
        """The compile time in what `to_bytes` wrote; raises CorruptUnit."""
        return _parts(data)[1]

    @classmethod
    def from_bytes(cls, data: bytes, vocabulary: Vocabulary, expected_kind: str) -> "Entry":
        """Read what `to_bytes` wrote, once it is authenticated; a kind is `tool` or `schema`.

        Raises:
            CorruptUnit: of another kind, version, vocabulary or xgrammar.
        """
        kind, compile_ms, rows, body = _parts(data)
        if kind != expected_kind:
            raise CorruptUnit(f"a stored {kind}, where a {expected_kind} was expected")
        try:
            verdicts = [
                ReportEntry(row["pointer"], row["keyword"], Verdict(row["verdict"]), row["note"])
                for row in json.loads(rows)
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptUnit(f"not a stored report: {error}") from error
        report = EnforcementReport(tuple(verdicts))
        unit: Unit | CompiledSchema
        if kind == "tool":
            unit = Unit.from_bytes(body, vocabulary)
        else:
            unit = CompiledSchema.from_bytes(body, report, vocabulary)
        return cls(unit, report, compile_ms, vocabulary)


def _parts(data: bytes) -> tuple[str, float, bytes, bytes]:
    try:
        head, rows, body = data.split(b"\n", 2)
        kind, compile_ms = json.loads(head)
        return str(kind), float(compile_ms), rows, body
    except (ValueError, TypeError) as error:
        raise CorruptUnit(f"not a stored entry: {error}") from error


def sealed(content: bytes, key: str, secret: bytes) -> bytes:
    """`content` behind an HMAC-SHA-256 over it and the key it is stored under."""
    return _mac(content, key, secret) + content


def unsealed(stored: bytes, key: str, secret: bytes) -> bytes:
    """What `sealed` wrapped.

    Raises:
        CorruptUnit: altered, cut short, or stored under another key or secret.
    """
    mac, content = stored[:_MAC_BYTES], stored[_MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(content, key, secret)):
        raise CorruptUnit("it is not authentic")
    return content


def _mac(content: bytes, key: str, secret: bytes) -> bytes:
    return hmac.digest(secret, key.encode() + b"\n" + content, "sha256")


def _milliseconds_since(start: float) -> float:
    return (time.perf_counter() - start) * 1e3
