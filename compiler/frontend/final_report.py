"""The enforcement report of a schema, made of all that its lowering told (`compiler.frontend.reporter`).

Schemas that no location has, such as those under `not`, are part of what another keyword demands. They are
enforced as well as that keyword is.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from compiler.digraph import reachable
from compiler.errors import UnsupportedSchema
from compiler.frontend.dialect_dependent import dialect_dependent
from compiler.frontend.disputed_texts import left_out
from compiler.frontend.keywords import ANNOTATIONS, ASSERTIONS, STRUCTURE, ignored_by_draft, short_pointer
from compiler.frontend.last_steps import applied_schemas
from compiler.frontend.references import References
from compiler.frontend.report_parts import ReportPart
from compiler.regular.formats import FORMATS
from compiler.report import IGNORED, EnforcementReport, ReportEntry, Verdict
from toolspecs.json_pointer import child
from toolspecs.nearest import MAX_NAME, did_you_mean, near_matches, shorten

_NOT_ASSERTED_BY_ALL = "not all validators assert it in this draft; the output is valid for all of them"
_DISPUTED = "texts are left out on which validators disagree, such as {}"
_DISPUTED_HERE = "texts are left out of which validators disagree whether they are of a format, such as {}"
_NULLABLE = (
    f"{IGNORED}, since JSON Schema does not have it: null is never written;"
    ' list "null" in `type`, or declare OpenAPI 3.0 by `$schema`'
)
_DISCRIMINATOR = (
    f"{IGNORED}, since JSON Schema does not have it:"
    " let each alternative require the property, and list its values"
)
_UNDECLARED = "no schema declares {}, so any value is written for it"
_OF_UNDECLARED = ("patternProperties", "additionalProperties", "unevaluatedProperties")
_MAX_SLIPS = 8
"""How many required keys that nothing declares are compared with declared ones: each takes 2 ms at most."""
_UNUSED = "no value is checked by it"
_LIKELY = 0.75
"""The `difflib` ratio from which on an unknown keyword is taken for a misspelled one."""
_MAX_MOVED = 20_000
"""Parts of a report that may be repeated at other locations."""
_MAX_NOTE = 1_000
"""Characters of a note, which may quote listed values."""

_SEVERITY = (Verdict.EXACT, Verdict.ANNOTATION, Verdict.NARROWED, Verdict.GUARDED)

_Verdict = tuple[Verdict, Mapping[str, None]]
"""A verdict and its notes, in the order in which they were made."""
_UNNOTED: _Verdict = (Verdict.EXACT, {})


def final_report(parts: Sequence[ReportPart], references: References, draft: int) -> EnforcementReport:
    """The verdict on every keyword of the document except those that only structure or describe it.

    Raises:
        UnsupportedSchema: the report would repeat too many parts.
    """
    schemas = references.subschemas
    ignored = {pointer: ignored_by_draft(schema, draft) for pointer, schema in schemas.items()}
    verdicts = _Verdicts(references, (*parts, *_moved_parts(parts)), ignored)
    disputed = left_out(applied_schemas(references.document, references.documents), draft)
    declared = {key for schema in schemas.values() for key in _declared(schema)}
    entries = [
        entry
        for pointer, schema in schemas.items()
        for entry in _entries(pointer, schema, verdicts, draft, disputed, declared=declared)
    ]
    of_booleans = [
        _entry(pointer, keyword, found)
        for (pointer, keyword), found in verdicts.noted.items()
        if pointer not in schemas
    ]
    return EnforcementReport((*entries, *of_booleans))


def _moved_parts(parts: Iterable[ReportPart]) -> Iterator[ReportPart]:
    """What holds at locations where a value stands that was lowered elsewhere."""
    pending = [use for part in parts for use in part.moved_uses()]
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
    pointer: str,
    schema: Mapping[str, Any],
    verdicts: "_Verdicts",
    draft: int,
    disputed: Mapping[tuple[str, str], Sequence[str]],
    *,
    declared: Collection[str],
) -> Iterator[ReportEntry]:
    """The entries of one schema: on the whole of it, then on its keywords.

    `declared` are the keys that any schema of the document declares.
    """
    verdict, texts = verdicts.noted.get((pointer, ""), _UNNOTED)
    of_keywords = {text for keyword in schema for text in verdicts.noted.get((pointer, keyword), _UNNOTED)[1]}
    if own_texts := {text: None for text in texts if text not in of_keywords}:
        yield _entry(pointer, "", (verdict, own_texts))
    dependent = dialect_dependent(schema, draft)
    for keyword, value in schema.items():
        if keyword in STRUCTURE:
            continue
        if not _has_force(keyword, value):
            yield _entry(pointer, keyword, (Verdict.ANNOTATION, {_ignored(keyword, value): None}))
            continue
        found = verdicts.of_keyword(pointer, keyword)
        is_asserted = keyword not in verdicts.ignored[pointer]
        if is_asserted and keyword in dependent:
            found = _narrowed(found, _NOT_ASSERTED_BY_ALL)
        elif is_asserted and (disputed_here := disputed.get((pointer, keyword))):
            note = _DISPUTED if keyword == "format" else _DISPUTED_HERE
            found = _narrowed(found, note.format(", ".join(disputed_here[:3])))
        if is_asserted and keyword == "required" and (slip := _misspelled_key(schema, declared)):
            found = found[0], {**found[1], slip: None}
        yield _entry(pointer, keyword, found)


def _entry(pointer: str, keyword: str, found: _Verdict) -> ReportEntry:
    """An entry whose size does not depend on how long the names around it are."""
    verdict, texts = found
    return ReportEntry(short_pointer(pointer), keyword, verdict, shorten("; ".join(texts), _MAX_NOTE))


def _weaker(first: Verdict, second: Verdict) -> Verdict:
    return max(first, second, key=_SEVERITY.index)


def _narrowed(found: _Verdict, note: str) -> _Verdict:
    """A verdict that is `NARROWED` at least, with one more note."""
    verdict, texts = found
    return _weaker(verdict, Verdict.NARROWED), {**texts, note: None}


def _ignored(keyword: str, value: object) -> str:
    """The note on a keyword or format that is ignored because it is unknown."""
    if keyword == "format" and isinstance(value, str) and value not in FORMATS:
        named = f"unknown format {shorten(repr(value), MAX_NAME)}, {IGNORED}"
        return named + did_you_mean(near_matches(value, FORMATS, 1, _LIKELY))
    if keyword == "nullable":
        return _NULLABLE if value is True else ""
    if keyword == "discriminator":
        return _DISCRIMINATOR
    if keyword in ASSERTIONS | ANNOTATIONS or keyword.startswith("x-"):
        return ""
    return f"unknown keyword, {IGNORED}{did_you_mean(near_matches(keyword, ASSERTIONS, 1, _LIKELY))}"


def _misspelled_key(schema: Mapping[str, Any], declared: Collection[str]) -> str:
    """A note on the first required key that nothing declares, but that resembles one that may be left out.

    There is none where the schema says which values undeclared keys have.
    """
    if any(isinstance(schema.get(keyword), dict) for keyword in _OF_UNDECLARED):
        return ""
    required = dict.fromkeys(key for key in schema["required"] if isinstance(key, str))
    optional = [key for key in _declared(schema) if key not in required]
    for key in islice((key for key in required if key not in declared), _MAX_SLIPS):
        if near := near_matches(key, optional, 1, _LIKELY):
            return _UNDECLARED.format(repr(shorten(key, MAX_NAME))) + did_you_mean(near)
    return ""


def _declared(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys that a schema declares."""
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _has_force(keyword: str, value: object) -> bool:
    return keyword in ASSERTIONS and (keyword != "format" or value in FORMATS)


class _Verdicts:
    """The verdicts on keywords, also of schemas that no location has.

    `noted` has what was told of each pointer and keyword; of two verdicts on one, the weaker stays. `ignored`
    has the keywords that its draft ignores at each pointer (`ignored_by_draft`).
    """

    def __init__(
        self, references: References, parts: Collection[ReportPart], ignored: Mapping[str, Mapping[str, str]]
    ) -> None:
        self.ignored = ignored
        self.noted: dict[tuple[str, str], _Verdict] = {}
        for part in parts:
            for pointer, keyword, verdict, note in part.notes:
                before, texts = self.noted.get((pointer, keyword), _UNNOTED)
                self.noted[pointer, keyword] = (_weaker(before, verdict), {**texts, note: None})
        self._owners = references.owners()
        self._lowered = self._applied({pointer for part in parts for pointer in part.lowered})
        self._by_schema: dict[str, _Verdict] = {}

    def _applied(self, lowered: set[str]) -> set[str]:
        """Those of the lowered schemas to which not only keywords without force lead."""
        held: defaultdict[str, list[str]] = defaultdict(list)
        for pointer, owners in self._owners.items():
            for at, keyword in owners:
                if keyword not in self.ignored.get(at, ()):
                    held[at].append(pointer)
        applied = reachable({""} | (lowered - self._owners.keys()), held.__getitem__)
        return lowered & applied

    def of_keyword(self, pointer: str, keyword: str) -> _Verdict:
        """The verdict on a keyword, with its notes."""
        if keyword in self.ignored.get(pointer, ()):
            return Verdict.ANNOTATION, {self.ignored[pointer][keyword]: None}
        noted = self.noted.get((pointer, keyword), _UNNOTED)
        if pointer in self._lowered:
            return noted
        verdict, texts = self._of_schema(pointer)
        return _weaker(verdict, noted[0]), {**texts, **noted[1]}

    def _of_schema(self, pointer: str) -> _Verdict:
        """The weakest verdict on the keywords that a schema is a part of."""
        if pointer not in self._by_schema:
            self._by_schema[pointer] = _UNNOTED  # what holds itself adds nothing
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
            return _UNNOTED
        return weakest, {f"part of {child(at, keyword)}": None}
