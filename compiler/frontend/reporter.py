"""The enforcement report while a schema is lowered, and refusals that point at a keyword of the source."""

from collections.abc import Collection, Iterable

from compiler.errors import UnsupportedKeyword, UnsupportedSchema
from compiler.frontend.dialect_dependent import dialect_dependent
from compiler.frontend.keywords import ANNOTATIONS, ASSERTIONS, STRUCTURE, child
from compiler.frontend.source_map import SchemaLocation, SourceMap
from compiler.regular.formats import FORMATS
from compiler.report import EnforcementReport, Note, ReportEntry, Verdict
from toolspecs.nearest import did_you_mean, near_matches

_STRICT = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}
"""What draft 6 and later call a bound that is itself not admitted."""
_NOT_ASSERTED_BY_ALL = "not all validators assert it in this draft; the output is valid for all of them"
_NULLABLE = (
    "ignored, since JSON Schema does not have it: null is never written;"
    ' list "null" in `type`, or declare OpenAPI 3.0 by `$schema`'
)
_LIKELY = 0.75
"""The `difflib` ratio from which on an unknown keyword is taken for a misspelled one."""

_SEVERITY = (Verdict.EXACT, Verdict.ANNOTATION, Verdict.NARROWED, Verdict.GUARDED)


class Reporter:
    """Collects a verdict for each keyword; canonicalization upholds exactly what has none."""

    def __init__(self, source_map: SourceMap, draft: int) -> None:
        self._source_map = source_map
        self._draft = draft
        self._notes: dict[tuple[str, str], tuple[Verdict, dict[str, None]]] = {}

    def note(
        self,
        location: SchemaLocation,
        keyword: str,
        verdict: Verdict,
        note: str,
        types: Collection[str] = (),
    ) -> None:
        """Record a verdict for a keyword in every schema of a location; the weaker of two verdicts stays.

        It concerns values of `types`: a `type` that names none of them gets no note.
        """
        for pointer, schema in self._source_map.schemas(location):
            named = schema.get("type") if keyword == "type" and types else None
            names = named if isinstance(named, list) else [named]
            if keyword in schema and (named is None or not set(types).isdisjoint(names)):
                before, texts = self._notes.get((pointer, keyword), (Verdict.EXACT, {}))
                stays = max(before, verdict, key=_SEVERITY.index)
                self._notes[pointer, keyword] = (stays, {**texts, note: None})

    def note_first(
        self, location: SchemaLocation, keywords: Iterable[str], verdict: Verdict, note: str
    ) -> None:
        """Record a verdict for the first of some keywords that a schema of the location has."""
        used = {keyword for _, schema in self._source_map.schemas(location) for keyword in schema}
        for keyword in [keyword for keyword in keywords if keyword in used][:1]:
            self.note(location, keyword, verdict, note)

    def note_all(self, location: SchemaLocation, notes: Iterable[Note], types: Collection[str] = ()) -> None:
        """Record several verdicts on values of `types`: keyword, verdict and note."""
        for keyword, verdict, note in notes:
            self.note(location, keyword, verdict, note, types)

    def refusal(
        self, location: SchemaLocation, keyword: str, reason: str, suggestion: str = ""
    ) -> UnsupportedSchema:
        """A refusal that points at the keyword, or at the location if none of its schemas has the keyword."""
        found = [
            (child(at, name), name)
            for name in (keyword, _STRICT.get(keyword, keyword))
            for at, schema in self._source_map.schemas(location)
            if name in schema
        ]
        pointer, name = found[0] if found else (location.pointer, keyword)
        return UnsupportedSchema(pointer, name, reason, suggestion)

    def refusal_of(self, location: SchemaLocation, unsupported: UnsupportedKeyword) -> UnsupportedSchema:
        """The refusal of a string or number that the lowering of scalars cannot uphold."""
        return self.refusal(location, unsupported.keyword, unsupported.reason, unsupported.suggestion)

    def report(self) -> EnforcementReport:
        """The verdict on every keyword of the document except those that only structure or describe it."""
        entries = []
        for pointer, schema in self._source_map.subschemas():
            dependent = dialect_dependent(schema, self._draft)
            for keyword in schema:
                if keyword in STRUCTURE:
                    continue
                default = _default(keyword, schema[keyword])
                verdict, texts = self._notes.get((pointer, keyword), (default, {}))
                if keyword in dependent:
                    verdict = max(verdict, Verdict.NARROWED, key=_SEVERITY.index)
                    texts = {**texts, _NOT_ASSERTED_BY_ALL: None}
                note = "; ".join(texts) or _ignored(keyword, schema[keyword])
                entries.append(ReportEntry(pointer, keyword, verdict, note))
        return EnforcementReport(tuple(entries))


def _ignored(keyword: str, value: object) -> str:
    """The note on a keyword or format that is ignored because it is unknown."""
    if keyword == "format" and isinstance(value, str) and value not in FORMATS:
        return f"unknown format, ignored{did_you_mean(near_matches(value, FORMATS, 1, _LIKELY))}"
    if keyword == "nullable":
        return _NULLABLE if value is True else ""
    if keyword in ASSERTIONS | ANNOTATIONS or keyword.startswith("x-"):
        return ""
    return f"unknown keyword, ignored{did_you_mean(near_matches(keyword, ASSERTIONS, 1, _LIKELY))}"


def _default(keyword: str, value: object) -> Verdict:
    has_force = keyword in ASSERTIONS and (keyword != "format" or value in FORMATS)
    return Verdict.EXACT if has_force else Verdict.ANNOTATION
