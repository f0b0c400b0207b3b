"""The enforcement report while a schema is lowered, and refusals that point at a keyword of the source."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from compiler.errors import UnsupportedKeyword, UnsupportedSchema
from compiler.frontend.alike_locations import MovedPointers
from compiler.frontend.dialect_dependent import dialect_dependent
from compiler.frontend.disputed_texts import TextsByFormat, not_valid_for_all
from compiler.frontend.keywords import ANNOTATIONS, ASSERTIONS, NUMBERS, STRUCTURE, child, short_pointer
from compiler.frontend.source_map import SchemaLocation, SourceMap
from compiler.regular.formats import FORMATS
from compiler.report import EnforcementReport, Note, ReportEntry, Verdict
from toolspecs.nearest import did_you_mean, near_matches, shorten

_STRICT = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}
"""What draft 6 and later call a bound that is itself not admitted."""
_NOT_ASSERTED_BY_ALL = "not all validators assert it in this draft; the output is valid for all of them"
_DISPUTED = "of listed values, those are left out on which validators disagree, such as {}"
_NULLABLE = (
    "ignored, since JSON Schema does not have it: null is never written;"
    ' list "null" in `type`, or declare OpenAPI 3.0 by `$schema`'
)
_KEPT_DISTINCT = (
    "an item is never repeated, because another array that may stand here must have distinct items"
)
_LIKELY = 0.75
"""The `difflib` ratio from which on an unknown keyword is taken for a misspelled one."""

_UNUSED = "no value is checked by it"
_MAX_MOVED = 20_000
"""Parts of a report that may be repeated at other locations."""
_MAX_NOTE = 1_000
"""Characters of a note, which may quote listed values."""

TYPES_OF: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("pattern", "format", "minLength", "maxLength"), ("string",)),
    **dict.fromkeys(("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), NUMBERS),
    **dict.fromkeys(("minItems", "maxItems", "uniqueItems", "contains"), ("array",)),
    **dict.fromkeys(
        ("properties", "patternProperties", "additionalProperties", "dependentRequired", "dependencies"),
        ("object",),
    ),
}
"""The JSON types that a keyword is about."""
_OF_ARRAYS = (
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "minItems",
    "maxItems",
    "contains",
)
_NEGATIVE = ("not", "oneOf", "if", "dependentSchemas", "dependencies")
_INSTEAD: Mapping[str, tuple[str, ...]] = {
    "minimum": ("exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "maximum": ("exclusiveMaximum", "exclusiveMinimum", "multipleOf"),
    "exclusiveMinimum": ("minimum",),
    "exclusiveMaximum": ("maximum",),
    "maxLength": ("pattern", "format"),
    "pattern": ("format",),
    "const": ("enum",),
    "enum": ("const",),
    "not": _NEGATIVE,
    "oneOf": ("anyOf", "allOf"),
}
"""The keywords that get a note if no schema there has its own: canonicalization turns one into another."""

_SEVERITY = (Verdict.EXACT, Verdict.ANNOTATION, Verdict.NARROWED, Verdict.GUARDED)


_Verdict = tuple[Verdict, dict[str, None]]
"""A verdict and its notes, in the order in which they were made."""
_UNNOTED: _Verdict = (Verdict.EXACT, {})


class _PlacedNote(NamedTuple):
    """A verdict on a keyword of the schema at a pointer, and its reason."""

    pointer: str
    keyword: str
    verdict: Verdict
    text: str


@dataclass(eq=False)
class ReportPart:
    """What the lowering told while it lowered one value at a location; it holds wherever that value stands.

    `lowered` are the pointers that it vouched for. `uses` are the values inside, each with the location where
    it stands, which may be another one than that where it was lowered.
    """

    location: SchemaLocation
    notes: dict[_PlacedNote, None] = field(default_factory=dict)
    lowered: set[str] = field(default_factory=set)
    uses: dict[tuple["ReportPart", SchemaLocation], None] = field(default_factory=dict)

    def moved_uses(self) -> Iterator[tuple["ReportPart", SchemaLocation]]:
        """The values inside that were lowered at another location than the one where they stand."""
        return ((part, location) for part, location in self.uses if part.location != location)

    def moved(self, location: SchemaLocation) -> "ReportPart":
        """What holds of the value at an alike location."""
        moved = MovedPointers(self.location, location)
        return ReportPart(
            location,
            {note._replace(pointer=moved.pointer(note.pointer)): None for note in self.notes},
            set(map(moved.pointer, self.lowered)),
            {(part, moved.location(place)): None for part, place in self.uses},
        )


class ReportPlace(NamedTuple):
    """A location inside the value of a part."""

    part: ReportPart
    location: SchemaLocation


class Reporter:
    """Collects what the lowering says of the keywords of a schema.

    The lowering tells of every location that it makes rules for (`lowered`). With that it vouches for the
    keywords of the location's schemas: the rules admit what they demand, except for what notes say. A note is
    never lost. If no schema there has its keyword, it goes to a related keyword or to the schema as a whole.
    Where no schema of the document applies, it goes to the schema around that place.

    Schemas that no location has, such as those under `not`, are part of what another keyword demands. They
    are enforced as well as that keyword is.

    A value is lowered once for all locations that are alike (`compiler.frontend.alike_locations`). What was
    told meanwhile is a `ReportPart`, and `report` tells it of the other locations, too.
    """

    def __init__(self, source_map: SourceMap, draft: int) -> None:
        self._source_map = source_map
        self._draft = draft
        self._notes: dict[tuple[str, str], _Verdict] = {}
        self._lowered: set[str] = set()
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
            part.notes[_PlacedNote(pointer, "", Verdict.NARROWED, _KEPT_DISTINCT)] = None

    def use(self, part: ReportPart, location: SchemaLocation) -> None:
        """Note that the value of a part stands at a location, inside the value that is being lowered."""
        self._part.uses[part, location] = None

    def lowered(self, location: SchemaLocation) -> None:
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
        for pointer, name in self._noted(location, keyword, types or TYPES_OF.get(keyword, ()), values):
            self._part.notes[_PlacedNote(pointer, name, verdict, note)] = None

    def _noted(
        self, location: SchemaLocation, keyword: str, types: Collection[str], values: Collection[Any]
    ) -> list[tuple[str, str]]:
        """The pointers and keywords that a note concerns."""
        concerned = self._source_map.concerned(location, types)
        for schemas in (concerned, self._source_map.schemas(location)):
            for name in (keyword, *_INSTEAD.get(keyword, ())):
                having = [(pointer, schema) for pointer, schema in schemas if name in schema]
                exactly = [(pointer, schema) for pointer, schema in having if schema[name] in values]
                if having:
                    return [(pointer, name) for pointer, _ in exactly or having]
        return [(pointer, "") for pointer, _ in concerned[:1]] or [(location.pointer, "")]

    def note_first(
        self, location: SchemaLocation, keywords: Iterable[str], verdict: Verdict, note: str
    ) -> None:
        """Record a verdict for the first of some keywords of objects that a schema of the location has."""
        used = {k for _, schema in self._source_map.concerned(location, ("object",)) for k in schema}
        first = next((keyword for keyword in keywords if keyword in used), "")
        self.note(location, first, verdict, note, types=("object",))

    def note_all(
        self,
        location: SchemaLocation,
        notes: Iterable[Note],
        types: Collection[str],
        values: Mapping[str, Collection[Any]] = MappingProxyType({}),
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

    def refusal_of(self, location: SchemaLocation, unsupported: UnsupportedKeyword) -> UnsupportedSchema:
        """The refusal of a string or number that the lowering of scalars cannot uphold."""
        return self.refusal(location, unsupported.keyword, unsupported.reason, unsupported.suggestion)

    def report(self) -> EnforcementReport:
        """The verdict on every keyword of the document except those that only structure or describe it."""
        for part in (*self._parts, *self._moved_parts()):
            self._collect(part)
        verdicts = _Verdicts(self._source_map, self._notes, self._lowered)
        schemas = dict(self._source_map.subschemas())
        disputed = not_valid_for_all(schemas.values(), self._draft)
        entries = [
            entry
            for pointer, schema in schemas.items()
            for entry in self._entries(pointer, schema, verdicts, disputed)
        ]
        of_booleans = [
            ReportEntry(pointer, keyword, verdict, "; ".join(texts))
            for (pointer, keyword), (verdict, texts) in self._notes.items()
            if pointer not in schemas
        ]
        return EnforcementReport(tuple(map(_shortened, (*entries, *of_booleans))))

    def _collect(self, part: ReportPart) -> None:
        self._lowered |= part.lowered
        for pointer, name, verdict, note in part.notes:
            before, texts = self._notes.get((pointer, name), _UNNOTED)
            stays = max(before, verdict, key=_SEVERITY.index)
            self._notes[pointer, name] = (stays, {**texts, note: None})

    def _moved_parts(self) -> Iterator[ReportPart]:
        """What holds at locations where a value stands that was lowered elsewhere."""
        pending = [use for part in self._parts for use in part.moved_uses()]
        seen = set(pending)
        while pending:
            part, location = pending.pop()
            moved = part.moved(location)
            yield moved
            if len(seen) > _MAX_MOVED:
                reason = f"holds equal schemas at more than {_MAX_MOVED} places"
                raise UnsupportedSchema(location.pointer, "", reason, "Define them once, and refer to them.")
            inside = [use for use in moved.moved_uses() if use not in seen]
            seen.update(inside)
            pending += inside

    def _entries(
        self, pointer: str, schema: Mapping[str, Any], verdicts: "_Verdicts", disputed: TextsByFormat
    ) -> Iterator[ReportEntry]:
        """The entries of one schema: on the whole of it, then on its keywords."""
        verdict, texts = self._notes.get((pointer, ""), _UNNOTED)
        of_keywords = {
            text for keyword in schema for text in self._notes.get((pointer, keyword), _UNNOTED)[1]
        }
        if own_texts := [text for text in texts if text not in of_keywords]:
            yield ReportEntry(pointer, "", verdict, "; ".join(own_texts))
        dependent = dialect_dependent(schema, self._draft)
        disputed_here = () if "format" in dependent else disputed.get(str(schema.get("format")), ())
        for keyword, value in schema.items():
            if keyword in STRUCTURE:
                continue
            if not _has_force(keyword, value):
                yield ReportEntry(pointer, keyword, Verdict.ANNOTATION, _ignored(keyword, value))
                continue
            verdict, texts = verdicts.of_keyword(pointer, keyword)
            if keyword in dependent:
                verdict = max(verdict, Verdict.NARROWED, key=_SEVERITY.index)
                texts = {**texts, _NOT_ASSERTED_BY_ALL: None}
            if keyword == "format" and disputed_here:
                verdict = max(verdict, Verdict.NARROWED, key=_SEVERITY.index)
                texts = {**texts, _DISPUTED.format(", ".join(map(repr, disputed_here[:3]))): None}
            yield ReportEntry(pointer, keyword, verdict, "; ".join(texts))


def _lets_items_repeat(schema: Mapping[str, Any]) -> bool:
    """Whether a schema is about arrays, and by itself lets an item stand in them twice."""
    is_about_arrays = schema.get("type") is not None or not schema.keys().isdisjoint(_OF_ARRAYS)
    return is_about_arrays and schema.get("uniqueItems") is not True and schema.get("maxItems") not in (0, 1)


def _shortened(entry: ReportEntry) -> ReportEntry:
    """An entry whose size does not depend on how long the names around it are."""
    return replace(entry, pointer=short_pointer(entry.pointer), note=shorten(entry.note, _MAX_NOTE))


def _ignored(keyword: str, value: object) -> str:
    """The note on a keyword or format that is ignored because it is unknown."""
    if keyword == "format" and isinstance(value, str) and value not in FORMATS:
        return f"unknown format, ignored{did_you_mean(near_matches(value, FORMATS, 1, _LIKELY))}"
    if keyword == "nullable":
        return _NULLABLE if value is True else ""
    if keyword in ASSERTIONS | ANNOTATIONS or keyword.startswith("x-"):
        return ""
    return f"unknown keyword, ignored{did_you_mean(near_matches(keyword, ASSERTIONS, 1, _LIKELY))}"


def _has_force(keyword: str, value: object) -> bool:
    return keyword in ASSERTIONS and (keyword != "format" or value in FORMATS)


class _Verdicts:
    """The verdicts on keywords, also of schemas that no location has."""

    def __init__(
        self, source_map: SourceMap, notes: Mapping[tuple[str, str], _Verdict], lowered: Collection[str]
    ) -> None:
        self._owners = source_map.owners()
        self._notes = notes
        self._lowered = lowered
        self._by_schema: dict[str, _Verdict] = {}

    def of_keyword(self, pointer: str, keyword: str) -> _Verdict:
        """The verdict on a keyword, with its notes."""
        noted = self._notes.get((pointer, keyword), _UNNOTED)
        if pointer in self._lowered:
            return noted
        verdict, texts = self._of_schema(pointer)
        return max(verdict, noted[0], key=_SEVERITY.index), {**texts, **noted[1]}

    def _of_schema(self, pointer: str) -> _Verdict:
        """The weakest verdict on the keywords that a schema is a part of."""
        if pointer not in self._by_schema:
            self._by_schema[pointer] = (Verdict.EXACT, {})  # what holds itself adds nothing
            if pointer not in self._owners:
                self._by_schema[pointer] = (Verdict.ANNOTATION, {_UNUSED: None})
            else:
                self._by_schema[pointer] = self._of_owners(pointer)
        return self._by_schema[pointer]

    def _of_owners(self, pointer: str) -> _Verdict:
        owners = self._owners[pointer]
        verdicts = [(self.of_keyword(at, keyword)[0], at, keyword) for at, keyword in owners]
        if all(verdict is Verdict.ANNOTATION for verdict, _, _ in verdicts):
            return Verdict.ANNOTATION, {_UNUSED: None}
        weakest, at, keyword = max(verdicts, key=lambda owner: _SEVERITY.index(owner[0]))
        if weakest in (Verdict.EXACT, Verdict.ANNOTATION):
            return Verdict.EXACT, {}
        return weakest, {f"part of {child(at, keyword)}": None}
