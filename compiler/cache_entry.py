"""Cache entries: a compiled grammar with its report, and both as the bytes that a store keeps."""

import json
import time
from dataclasses import dataclass, replace

import msgspec

from compiler.closing.segmentation import Segmentation
from compiler.compiled_format import CompiledFormat
from compiler.errors import CorruptUnit, UnsupportedSchema
from compiler.grammar.shortest import NEVER
from compiler.lowering.json_text import SPACED
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.recogniser.search_budget import SearchBudget
from compiler.report import EnforcementReport, ReportEntry
from compiler.response_format import ResponseFormat, compile_format
from compiler.syntax import Syntax
from compiler.toolset_compiler import lower_tool
from compiler.units.compiled_grammar import CompiledGrammar
from compiler.units.unit import Unit, compile_unit
from toolspecs.resolved_types import resolved
from toolspecs.tool import KeyOrder, Tool

LAZY_COMPILE_MS = 20.0
"""A unit that compiles in less time is compiled lazily, when its tool is first called."""

TOOL = "tool"
"""The kind of a tool's entry; those of response formats are the kinds of `ResponseFormat`."""


@dataclass(frozen=True)
class CacheEntry:
    """A tool's unit or a response format, the report on its keywords, and the time that compiling it took.

    `num_bytes` is the memory that it takes once all of it is compiled.
    """

    compiled: Unit | CompiledFormat
    report: EnforcementReport
    compile_ms: float
    num_bytes: int
    kind: str

    @property
    def can_compile_lazily(self) -> bool:
        """Whether it is compiled only when a call of its tool first begins."""
        return self.is_of_tool and self.compile_ms < LAZY_COMPILE_MS

    @property
    def is_of_tool(self) -> bool:
        """Whether it holds the unit of a tool, not a response format."""
        return self.kind == TOOL

    @property
    def unit(self) -> Unit:
        """The unit of a tool's entry."""
        assert isinstance(self.compiled, Unit), "a tool's entry holds a unit"
        return self.compiled

    @property
    def compiled_format(self) -> CompiledFormat:
        """The grammar of a response format's entry."""
        assert isinstance(self.compiled, CompiledFormat), "a format's entry holds its grammar"
        return self.compiled

    def prepare(self) -> None:
        """Compile it and build what the budget closer needs, if not done yet; takes about `compile_ms`."""
        self.compiled.compile()
        _ = self.compiled.network

    @classmethod
    def of_tool(cls, tool: Tool, syntax: Syntax, prepared: PreparedVocabulary) -> "CacheEntry":
        """Compile a tool completely, and find a call of it; raises UnsupportedSchema, UnsupportedGrammar."""
        start = time.perf_counter()
        lowered = lower_tool(tool, syntax, prepared.vocabulary)
        unit = compile_unit(lowered.grammar, syntax, prepared, lowered.types)
        return cls._compiled_since(start, unit, lowered.report, TOOL)

    @classmethod
    def of_format(
        cls, response_format: ResponseFormat, prepared: PreparedVocabulary, key_order: KeyOrder = "declared"
    ) -> "CacheEntry":
        """Compile a response format completely; raises UnsupportedSchema, UnsupportedGrammar."""
        start = time.perf_counter()
        compiled = compile_format(response_format, tokenizer=prepared, key_order=key_order, formatting=SPACED)
        return cls._compiled_since(start, compiled, compiled.report, response_format.kind)

    @classmethod
    def _compiled_since(
        cls, start: float, compiled: Unit | CompiledFormat, report: EnforcementReport, kind: str
    ) -> "CacheEntry":
        entry = cls(compiled, report, 0.0, compiled.num_bytes, kind)
        entry.prepare()
        _check_writable(compiled)
        return replace(entry, compile_ms=milliseconds_since(start))

    def to_bytes(self) -> bytes:
        """The stored form: a line of JSON with kind, time and size, one with the report, the grammar."""
        head = json.dumps([self.kind, self.compile_ms, self.num_bytes])
        report = json.dumps(msgspec.to_builtins(self.report.entries))
        return b"\n".join([head.encode(), report.encode(), self.compiled.to_bytes()])

    @classmethod
    def from_bytes(cls, data: bytes, prepared: PreparedVocabulary, expected_kind: str) -> "CacheEntry":
        """Read what `to_bytes` wrote, without compiling; the caller has verified the signature.

        `expected_kind` is `tool` or the kind of a response format.

        Raises:
            CorruptUnit: the entry is of another kind, version, vocabulary or xgrammar.
        """
        try:
            head, rows, body = data.split(b"\n", 2)
            kind, compile_ms, num_bytes = msgspec.json.decode(head, type=tuple[str, float, int])
            verdicts = msgspec.json.decode(rows, type=resolved(tuple[ReportEntry, ...]))
        except ValueError as error:
            raise CorruptUnit(f"not a stored entry: {error}") from error
        if kind != expected_kind:
            raise CorruptUnit(f"a stored {kind}, where a {expected_kind} was expected")
        report = EnforcementReport(verdicts)
        compiled: Unit | CompiledFormat
        if kind == TOOL:
            compiled = Unit.from_bytes(body, prepared)
        else:
            compiled = CompiledFormat.from_bytes(body, report, prepared)
        return cls(compiled, report, compile_ms, num_bytes, kind)


def _check_writable(compiled: CompiledGrammar) -> None:
    """Check that a text is found which the guard admits, and that the vocabulary's tokens spell it.

    Raises:
        UnsupportedSchema: they do not, so that every request would be refused.
    """
    index, plan = compiled.prepared.index, compiled.grammar.plan
    forbids_repeats = plan is not None and plan.forbids_repeats
    if index.spells_bytes and not forbids_repeats:
        return
    texts = compiled.shortest_texts(SearchBudget())
    if forbids_repeats and not texts:
        reason = "no text is found that has as many distinct keys and items as it demands"
        raise UnsupportedSchema("", "minItems", reason, "Lower minItems and minProperties.")
    spelling = Segmentation(index)
    for text in texts:
        unspelled = [
            char for char in sorted({*text.decode(errors="ignore")}) if spelling.count(char.encode()) >= NEVER
        ]
        if unspelled and spelling.count(text) >= NEVER:
            reason = f"its shortest value needs U+{ord(unspelled[0]):04X}, which no token of the model spells"
            raise UnsupportedSchema("", "", reason, "Leave that character out, or serve another model.")


def milliseconds_since(start: float) -> float:
    """The milliseconds since `start`, a time of `time.perf_counter`."""
    return (time.perf_counter() - start) * 1e3
