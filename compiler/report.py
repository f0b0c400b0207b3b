"""How each keyword of a schema is enforced."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a keyword is enforced."""

    EXACT = "exact"  # the mask admits what the keyword admits
    NARROWED = "narrowed"  # the mask admits a subset of it
    GUARDED = "guarded"  # a guard beside the grammar narrows the mask while decoding
    ANNOTATION = "annotation"  # the specification gives the keyword no force


Note = tuple[str, Verdict, str]
"""A keyword, how it is enforced, and a remark: an entry before its pointer is known."""


@dataclass(frozen=True, slots=True)
class ReportEntry:
    """One keyword of one schema object; `pointer` is the JSON pointer of that object, or of one around it.

    An empty keyword is the schema as a whole: what it leaves out though no keyword of it says so.
    """

    pointer: str
    keyword: str
    verdict: Verdict
    note: str = ""


@dataclass(frozen=True, slots=True)
class EnforcementReport:
    """The verdict on every keyword of a schema, in the order of the document."""

    entries: tuple[ReportEntry, ...]

    def __iter__(self) -> Iterator[ReportEntry]:
        """The entries."""
        return iter(self.entries)

    @property
    def num_characters(self) -> int:
        """About how long it is when it is told, and how much memory it takes."""
        return sum(len(each.pointer) + len(each.keyword) + len(each.note) + 100 for each in self.entries)

    @property
    def ignored(self) -> Iterator[ReportEntry]:
        """What has no force and is told: unknown keywords and formats, and a dialect that is not declared."""
        return (entry for entry in self.entries if entry.verdict is Verdict.ANNOTATION and entry.note)


@dataclass(frozen=True, slots=True)
class ToolReport:
    """The result of compiling one tool: the report, the bytes that its unit takes, the time that it took."""

    name: str
    digest: str
    report: EnforcementReport
    grammar_bytes: int
    compile_ms: float
