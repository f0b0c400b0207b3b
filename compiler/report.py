"""How each keyword of a schema is enforced."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from toolspecs.nearest import DID_YOU_MEAN

IGNORED = "ignored"
"""Is part of the note on a keyword that has no effect."""
MAX_IGNORED = 32
"""Keywords without effect that are remembered of one schema."""


class Verdict(StrEnum):
    """How a keyword is enforced."""

    EXACT = "exact"  # the mask admits what the keyword admits
    NARROWED = "narrowed"  # the mask admits a subset of it
    GUARDED = "guarded"  # a guard beside the grammar narrows the mask while decoding
    ANNOTATION = "annotation"  # the specification gives the keyword no force


Note = tuple[str, Verdict, str]
"""A keyword, the verdict on it, and a remark: a `ReportEntry` whose pointer is not known yet."""


@dataclass(frozen=True, slots=True)
class ReportEntry:
    """One keyword of one schema object; `pointer` is the JSON pointer of that object, or of one around it.

    An empty keyword stands for the schema as a whole: the entry says what masks leave out although no keyword
    of the schema does.
    """

    pointer: str
    keyword: str
    verdict: Verdict
    note: str = ""

    @property
    def is_ignored(self) -> bool:
        """Whether the keyword, or the format that it names, has no effect because it is not known here."""
        return self.verdict is Verdict.ANNOTATION and IGNORED in self.note

    @property
    def is_slip(self) -> bool:
        """Whether the keyword or the format is probably a typing error for a known one."""
        return self.is_ignored and DID_YOU_MEAN in self.note


@dataclass(frozen=True, slots=True)
class EnforcementReport:
    """The verdict on every keyword of a schema, in the order of the document.

    `ignored` are the first keywords that have no effect because they are not known here, and of these the
    slips first. They are found when the report is made, since each request with this schema names them.
    """

    entries: tuple[ReportEntry, ...]
    ignored: tuple[ReportEntry, ...] = field(init=False)

    def __post_init__(self) -> None:
        ignored = [entry for entry in self.entries if entry.is_ignored]
        ignored.sort(key=lambda entry: not entry.is_slip)
        object.__setattr__(self, "ignored", tuple(ignored[:MAX_IGNORED]))

    def __iter__(self) -> Iterator[ReportEntry]:
        return iter(self.entries)

    @property
    def num_characters(self) -> int:
        """About how many characters the report has as JSON, and how many bytes in memory."""
        return sum(len(entry.pointer) + len(entry.keyword) + len(entry.note) + 100 for entry in self.entries)

    @property
    def warnings(self) -> Iterator[ReportEntry]:
        """The entries that warn: of a keyword or format without effect, a slip, or an undeclared dialect."""
        return (
            entry
            for entry in self.entries
            if (entry.verdict is Verdict.ANNOTATION and entry.note) or DID_YOU_MEAN in entry.note
        )


@dataclass(frozen=True, slots=True)
class ToolReport:
    """The result of compiling one tool: its report, the size of its unit, and how long compiling took.

    `compile_ms` is None for who must not learn whether the unit was compiled before.
    """

    name: str
    digest: str
    report: EnforcementReport
    grammar_bytes: int
    compile_ms: float | None
