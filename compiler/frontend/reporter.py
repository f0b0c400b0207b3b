"""Collects what the lowering tells of keywords, and makes refusals that point into the source."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from compiler.errors import UnsupportedKeyword, UnsupportedSchema
from compiler.frontend.final_report import final_report
from compiler.frontend.keywords import NUMBERS, ignored_by_draft
from compiler.frontend.report_parts import PlacedNote, ReportPart
from compiler.frontend.source_map import SchemaLocation, SourceMap
from compiler.report import EnforcementReport, Note, Verdict
from toolspecs.json_pointer import child

_STRICT = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}
"""What draft 6 and later call a bound that is itself not admitted."""
_KEPT_DISTINCT = (
    "an item is never repeated, because another array that may stand here must have distinct items"
)
_OF_ARRAYS = (
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "minItems",
    "maxItems",
    "uniqueItems",
)
_TYPES_OF: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("pattern", "format", "minLength", "maxLength"), ("string",)),
    **dict.fromkeys(("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), NUMBERS),
    **dict.fromkeys(_OF_ARRAYS, ("array",)),
    **dict.fromkeys(
        ("properties", "patternProperties", "additionalProperties", "dependentRequired", "dependencies"),
        ("object",),
    ),
}
"""The JSON types that a keyword is about."""
_INSTEAD_OF_NOT = ("not", "oneOf", "if", "dependentSchemas", "dependencies")
_INSTEAD: Mapping[str, tuple[str, ...]] = {
    "minimum": ("exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "maximum": ("exclusiveMaximum", "exclusiveMinimum", "multipleOf"),
    "exclusiveMinimum": ("minimum",),
    "exclusiveMaximum": ("maximum",),
    "maxLength": ("pattern", "format"),
    "pattern": ("format",),
    "const": ("enum",),
    "enum": ("const",),
    "not": _INSTEAD_OF_NOT,
    "oneOf": ("anyOf", "allOf"),
}
"""The keywords that get a note if no schema there has its own: canonicalization turns one into another."""


class ReportPlace(NamedTuple):
    """A location inside the value of a part."""

    part: ReportPart
    location: SchemaLocation


class Reporter:
    """Collects what the lowering says of the keywords of a schema.

    The lowering vouches for the schemas of every location that it makes rules for (`vouch_for`): the rules
    admit what these schemas demand, except for what notes say. A note is never lost. If no schema of its
    location has its keyword, the note goes to a related keyword or to the schema as a whole. Where no schema
    of the document applies, it goes to the schema around that location.

    A value is lowered once for all locations that are alike (`compiler.frontend.alike_locations`). What was
    told meanwhile is a `ReportPart`, and `report` tells it of the other locations, too.
    """

    def __init__(self, source_map: SourceMap, draft: int) -> None:
        self._source_map = source_map
        self._draft = draft
        self._part = ReportPart(source_map.root)
        self._parts = [self._part]

    @contextmanager
    def part(self, location: SchemaLocation) -> Iterator[ReportPart]:
        """Collect what is told while a value is lowered at a location."""
        part = ReportPart(location)
        self._parts.append(part)
        with self._collecting(part):
            yield part

    @contextmanager
    def again(self, part: ReportPart) -> Iterator[None]:
        """Collect what is told while the value of a part is lowered again, instead of what was told."""
        part.notes.clear()
        part.uses.clear()
        with self._collecting(part):
            yield

    @contextmanager
    def _collecting(self, part: ReportPart) -> Iterator[None]:
        outer, self._part = self._part, part
        try:
            yield
        finally:
            self._part = outer

    def place(self, location: SchemaLocation) -> ReportPlace:
        """A location in the value that is being lowered, for what is told of it later."""
        return ReportPlace(self._part, location)

    def note_kept_distinct(self, place: ReportPlace) -> None:
        """Note that arrays at a place never repeat an item, though their own schemas would let them."""
        part, location = place
        if location.is_anywhere:
            return
        concerned = self._source_map.concerned(location, ("array",))
        repeating = [pointer for pointer, schema in concerned if _lets_items_repeat(schema)]
        for pointer in repeating or [location.pointer]:
            part.notes[PlacedNote(pointer, "", Verdict.NARROWED, _KEPT_DISTINCT)] = None

    def use(self, part: ReportPart, location: SchemaLocation) -> None:
        """Note that the value of a part stands at a location, inside the value that is being lowered."""
        self._part.uses[part, location] = None

    def vouch_for(self, location: SchemaLocation) -> None:
        """Vouch for the schemas of a location: its rules admit what they demand, except what notes tell."""
        self._part.lowered.update(location.pointers)

    def note(
        self,
        location: SchemaLocation,
        keyword: str,
        verdict: Verdict,
        note: str,
        *,
        types: Collection[str] = (),
        values: Collection[Any] = (),
    ) -> None:
        """Record a verdict for a keyword in the schemas of a location; the weaker of two verdicts stays.

        The note is about values of `types` alone. If any schema there gives the keyword one of `values`, it
        is about those schemas alone. A keyword of "" is the schema as a whole.
        """
        if location.is_anywhere:
            return
        for pointer, name in self._noted(location, keyword, types or _TYPES_OF.get(keyword, ()), values):
            self._part.notes[PlacedNote(pointer, name, verdict, note)] = None

    def _noted(
        self, location: SchemaLocation, keyword: str, types: Collection[str], values: Collection[Any]
    ) -> list[tuple[str, str]]:
        """The pointers and keywords that a note concerns."""
        concerned = self._source_map.concerned(location, types)
        for schemas in (concerned, self._source_map.schemas(location)):
            for name in (keyword, *_INSTEAD.get(keyword, ())):
                having = [(pointer, schema) for pointer, schema in schemas if self._has(schema, name)]
                exactly = [(pointer, schema) for pointer, schema in having if schema[name] in values]
                if having:
                    return [(pointer, name) for pointer, _ in exactly or having]
        return [(pointer, "") for pointer, _ in concerned[:1]] or [(location.pointer, "")]

    def _has(self, schema: Mapping[str, Any], keyword: str) -> bool:
        """Whether a schema has a keyword, and its draft does not ignore it there."""
        return keyword in schema and keyword not in ignored_by_draft(schema, self._draft)

    def note_narrowed(
        self, location: SchemaLocation, keyword: str, note: str, *, types: Collection[str] = ()
    ) -> None:
        """Record that the rules admit less than a keyword in the schemas of a location does."""
        self.note(location, keyword, Verdict.NARROWED, note, types=types)

    def note_first_narrowed(self, location: SchemaLocation, keywords: Iterable[str], note: str) -> None:
        """The same of the first of some keywords of objects that a schema of the location has."""
        schemas = [schema for _, schema in self._source_map.concerned(location, ("object",))]
        first = next((name for name in keywords if any(self._has(schema, name) for schema in schemas)), "")
        self.note_narrowed(location, first, note, types=("object",))

    def note_all(
        self,
        location: SchemaLocation,
        notes: Iterable[Note],
        types: Collection[str],
        values: Mapping[str, Collection[Any]],
    ) -> None:
        """Record several verdicts on values of `types`; `values` are what keywords are there, if known."""
        for keyword, verdict, note in notes:
            self.note(location, keyword, verdict, note, types=types, values=values.get(keyword, ()))

    def refusal(
        self, location: SchemaLocation, keyword: str, reason: str, suggestion: str = ""
    ) -> UnsupportedSchema:
        """A refusal that points at the keyword, or at the location if none of its schemas has the keyword."""
        places = [
            (child(at, name), name)
            for name in (keyword, _STRICT.get(keyword, keyword))
            for at, schema in self._source_map.schemas(location)
            if name in schema
        ]
        pointer, name = places[0] if places else (location.pointer, keyword)
        return UnsupportedSchema(pointer, name, reason, suggestion)

    @contextmanager
    def refusing_at(self, location: SchemaLocation) -> Iterator[None]:
        """Refuse the schemas of a location if a string or a number cannot be enforced."""
        try:
            yield
        except UnsupportedKeyword as unsupported:
            keyword, reason, suggestion = unsupported.keyword, unsupported.reason, unsupported.suggestion
            raise self.refusal(location, keyword, reason, suggestion) from unsupported

    def report(self) -> EnforcementReport:
        """The verdict on every keyword of the document except those that only structure or describe it."""
        return final_report(self._parts, self._source_map.references, self._draft)


def _lets_items_repeat(schema: Mapping[str, Any]) -> bool:
    """Whether a schema is about arrays, and by itself lets an item stand in them twice."""
    is_about_arrays = schema.get("type") is not None or not schema.keys().isdisjoint(_OF_ARRAYS)
    return is_about_arrays and schema.get("uniqueItems") is not True and schema.get("maxItems") not in (0, 1)
