"""The report while it is being written."""

from collections.abc import Iterable

from compiler.errors import UnsupportedKeyword, UnsupportedSchema
from compiler.frontend.contested import contested
from compiler.frontend.outline import Outline, Site
from compiler.frontend.pointer import child
from compiler.regular.formats import FORMATS
from compiler.report import EnforcementReport, ReportEntry, Verdict
from toolspecs.nearest import did_you_mean, near_matches

ASSERTIONS = frozenset(
    {
        "type",
        "enum",
        "const",
        "multipleOf",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "format",
        "maxItems",
        "minItems",
        "uniqueItems",
        "contains",
        "maxContains",
        "minContains",
        "maxProperties",
        "minProperties",
        "required",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "properties",
        "patternProperties",
        "additionalProperties",
        "propertyNames",
        "prefixItems",
        "items",
        "additionalItems",
        "unevaluatedItems",
        "unevaluatedProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "$ref",
        "$dynamicRef",
        "$recursiveRef",
    }
)
_STRUCTURE = frozenset(
    {
        "$schema",
        "$id",
        "id",
        "$anchor",
        "$dynamicAnchor",
        "$recursiveAnchor",
        "$vocabulary",
        "$defs",
        "definitions",
        "$comment",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
    }
)
_ANNOTATIONS = frozenset({"contentEncoding", "contentMediaType", "contentSchema"})
_STRICT = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}
"""Bounds by how they are spelled if they are not admitted themselves."""
_DISPUTED = "not all engines assert it in this draft; what is written holds for all"
_LIKELY = 0.75
"""How alike a misspelled keyword is to the one that is meant, by `difflib`."""

_SEVERITY = (Verdict.EXACT, Verdict.ANNOTATION, Verdict.NARROWED, Verdict.GUARDED)


class Reporter:
    """Collects what became of each keyword; what nobody notes is upheld exactly by canonicalization."""

    def __init__(self, outline: Outline, draft: int) -> None:
        self._outline = outline
        self._draft = draft
        self._notes: dict[tuple[str, str], tuple[Verdict, dict[str, None]]] = {}

    def note(self, site: Site, keyword: str, verdict: Verdict, note: str) -> None:
        """Record a verdict wherever the place spells the keyword; the weaker verdict stays."""
        for pointer, schema in self._outline.schemas(site):
            if keyword in schema:
                before, texts = self._notes.get((pointer, keyword), (Verdict.EXACT, {}))
                stays = max(before, verdict, key=_SEVERITY.index)
                self._notes[pointer, keyword] = (stays, {**texts, note: None})

    def note_first(self, site: Site, keywords: Iterable[str], verdict: Verdict, note: str) -> None:
        """Record a verdict on the first of some keywords that the place spells."""
        spelled = {keyword for _, schema in self._outline.schemas(site) for keyword in schema}
        for keyword in [keyword for keyword in keywords if keyword in spelled][:1]:
            self.note(site, keyword, verdict, note)

    def note_all(self, site: Site, notes: Iterable[tuple[str, Verdict, str]]) -> None:
        """Record several."""
        for keyword, verdict, note in notes:
            self.note(site, keyword, verdict, note)

    def refusal(self, site: Site, keyword: str, reason: str, suggestion: str = "") -> UnsupportedSchema:
        """A refusal that points at the keyword, or at the place where none of its schemas spells it."""
        spelled = [
            (child(at, name), name)
            for name in (keyword, _STRICT.get(keyword, keyword))
            for at, schema in self._outline.schemas(site)
            if name in schema
        ]
        place, name = spelled[0] if spelled else (site.pointer, keyword)
        return UnsupportedSchema(place, name, reason, suggestion)

    def refusal_of(self, site: Site, unsupported: UnsupportedKeyword) -> UnsupportedSchema:
        """The refusal of a string or number."""
        return self.refusal(site, unsupported.keyword, unsupported.reason, unsupported.suggestion)

    def report(self) -> EnforcementReport:
        """The verdict on every keyword of the document but those that only structure or describe it."""
        entries = []
        for pointer, schema in self._outline.subschemas():
            disputed = contested(schema, self._draft)
            for keyword in schema:
                if keyword in _STRUCTURE:
                    continue
                default = _default(keyword, schema[keyword])
                verdict, texts = self._notes.get((pointer, keyword), (default, {}))
                if keyword in disputed:
                    verdict = max(verdict, Verdict.NARROWED, key=_SEVERITY.index)
                    texts = {**texts, _DISPUTED: None}
                note = "; ".join(texts) or _ignored(keyword, schema[keyword])
                entries.append(ReportEntry(pointer, keyword, verdict, note))
        return EnforcementReport(tuple(entries))


def _ignored(keyword: str, value: object) -> str:
    """What to say of a keyword, or of a format, that has no force because nobody knows it."""
    if keyword == "format" and isinstance(value, str) and value not in FORMATS:
        return f"unknown format, ignored{did_you_mean(near_matches(value, FORMATS, 1, _LIKELY))}"
    if keyword in ASSERTIONS | _ANNOTATIONS or keyword.startswith("x-"):
        return ""
    return f"unknown keyword, ignored{did_you_mean(near_matches(keyword, ASSERTIONS, 1, _LIKELY))}"


def _default(keyword: str, value: object) -> Verdict:
    has_force = keyword in ASSERTIONS and (keyword != "format" or value in FORMATS)
    return Verdict.EXACT if has_force else Verdict.ANNOTATION
