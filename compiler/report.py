"""How each keyword of a schema is enforced."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a constraint is kept."""

    EXACT = "exact"  # the mask admits what the keyword admits
    NARROWED = "narrowed"  # the mask admits a subset of it
    GUARDED = "guarded"  # a guard beside the grammar narrows the mask while decoding
    ANNOTATION = "annotation"  # the specification gives the keyword no force


@dataclass(frozen=True, slots=True)
class ReportEntry:
    """One keyword at one place: `pointer` names the schema object that holds `keyword`."""

    pointer: str
    keyword: str
    verdict: Verdict
    note: str = ""


@dataclass(frozen=True, slots=True)
class EnforcementReport:
    """The verdict on every keyword of a schema, in document order."""

    entries: tuple[ReportEntry, ...]

    def __iter__(self) -> Iterator[ReportEntry]:
        """Iterate over the entries."""
        return iter(self.entries)

    @property
    def ignored(self) -> Iterator[ReportEntry]:
        """Keywords and formats that nobody knows, most likely slips."""
        return (entry for entry in self.entries if entry.verdict is Verdict.ANNOTATION and entry.note)


@dataclass(frozen=True, slots=True)
class ToolReport:
    """What became of one tool: its keywords, the size of its unit in bytes, how long compiling took."""

    name: str
    digest: str
    report: EnforcementReport
    grammar_bytes: int
    compile_ms: float
