"""Listed texts that validators disagree on where a `format` stands.

Canonicalization asks one validator whether a listed text is of a format. In a draft that does not know the
format, this validator takes every text for valid. And there are rare texts, such as unusual addresses, on
which validators disagree. A grammar may only list what is valid for all of them. So a schema is read in two
ways, as the lowering reads formats for all other texts:

- In the *inner reading*, each schema with a format forbids the listed texts that are not valid for all.
- In the *outer reading*, it admits the listed texts that may be valid for some. It is needed only where
  asserting more can admit more; elsewhere it admits all that the inner reading does.

>>> inner_reading({"format": "duration"}, {"duration": ("x-1",)})
{'format': 'duration', 'allOf': [{'not': {'enum': ['x-1']}}]}
>>> outer_reading({"format": "email"}, {"email": ("a@b",)})
{'allOf': [{'anyOf': [{'format': 'email'}, {'enum': ['a@b']}]}]}

None of the keywords evaluates anything, so `unevaluated*` sees the same.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import jsonschema_rs

from compiler.frontend.keywords import transformed, without
from compiler.frontend.last_steps import KEY_STEP, AppliedSchema, LastStep, below_negations, listed_strings
from compiler.frontend.literals import listed_keys
from compiler.regular.formats import FORMATS, is_known
from compiler.regular.language import is_valid_for_all, may_be_valid
from toolspecs.schemas.drafts import draft_named


class _LongerTexts(NamedTuple):
    """The texts of a format that some validator takes, and that are too long to canonicalization.

    They have more characters than `longest`, and match `pattern`; a report writes them as `shown`.
    """

    longest: int
    pattern: str
    shown: str


_LONGER = {
    "uuid": _LongerTexts(36, f"^[Uu][Rr][Nn]:[Uu][Uu][Ii][Dd]:{FORMATS['uuid'].pattern[1:-1]}", "urn:uuid:…"),
    "hostname": _LongerTexts(253, "[.]$", "a."),
}
"""ajv takes `urn:uuid:` before a UUID, and a dot behind a name of a host, as Python's `jsonschema` does."""
TextsByFormat = Mapping[str, tuple[str, ...]]
_Value = TypeVar("_Value")
_LastSteps = Mapping[str, set[LastStep]]
"""By each text or format, the last steps of the paths to the values that it is listed for, or asked about."""


def not_valid_for_all(schemas: Collection[AppliedSchema], draft: int) -> TextsByFormat:
    """The listed texts, by format, that canonicalization takes for valid and some validator may not.

    The schemas are all those of a document in `draft` and of what it refers to. Texts that a format is never
    asked about are left out.

    >>> from compiler.frontend.last_steps import applied_schemas
    >>> not_valid_for_all(applied_schemas({"enum": ["P1D", "x-1"], "format": "duration"}, {}), draft=7)
    {'duration': ('x-1',)}
    """
    oldest = min((draft, *(draft_named(each.schema.get("$schema")) or draft for each in schemas)))

    def disputed(name: str, text: str) -> bool:
        is_taken = not is_known(name, oldest) or _is_valid_for_one(name, text)
        return is_taken and not is_valid_for_all(name, text)

    return _by_format(_formats(schemas), schemas, disputed)


def valid_for_some(schemas: Collection[AppliedSchema], draft: int) -> TextsByFormat:
    """The listed texts, by format, that some validator may take for valid and others not.

    The formats are those that the draft knows, and that stand where asserting more may admit more. What the
    inner reading forbids for such a format is among its texts, wherever it is listed: forbidding it may admit
    more.

    >>> from compiler.frontend.last_steps import applied_schemas
    >>> schema = {"enum": ["a@b", "c"], "not": {"format": "email"}, "allOf": [{"format": "email"}]}
    >>> valid_for_some(applied_schemas(schema, {}), draft=7)
    {'email': ('a@b',)}
    """

    def disputed(name: str, text: str) -> bool:
        return may_be_valid(name, text) and not is_valid_for_all(name, text)

    negative = _negative_formats(schemas, draft)
    formats = {name: steps for name, steps in _formats(schemas).items() if name in negative}
    return _by_format(formats, schemas, disputed)


def left_out(schemas: Collection[AppliedSchema], draft: int) -> Mapping[tuple[str, str], list[str]]:
    """What a report tells of disputed texts, by pointer and keyword.

    At a format, these are the texts that it may be asked about. At `enum` and `const`, they are those that a
    format may be asked about where asserting more may admit more, each with the format.

    >>> from compiler.frontend.last_steps import applied_schemas
    >>> left_out(applied_schemas({"oneOf": [{"const": "24:00"}, {"format": "time"}]}, {}), draft=2020)
    {('/oneOf/0', 'const'): ["'24:00' (time)"], ('/oneOf/1', 'format'): ["'24:00'"]}
    """
    narrow, wide = not_valid_for_all(schemas, draft), valid_for_some(schemas, draft)
    longer = longer_texts(schemas, draft)
    if not narrow and not wide and not longer:
        return {}
    texts, formats = _texts(schemas), _negative_formats(schemas, draft)
    disputed_by: dict[str, list[str]] = defaultdict(list)
    for name, disputed in wide.items():
        for text in disputed:
            disputed_by[text].append(name)
    told: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in schemas:
        name, step = str(each.schema.get("format")), each.last_step
        asked = {*narrow.get(name, ()), *(wide.get(name, ()) if step in formats.get(name, ()) else ())}
        told[each.pointer, "format"] += [repr(t) for t in sorted(asked) if _can_meet(texts[t], {step})]
        told[each.pointer, "format"] += [repr(_LONGER[name].shown) for _ in longer.keys() & {name}]
        for keyword, text, step in listed_strings(each):
            told[each.pointer, keyword] += [
                f"{text!r} ({name})" for name in disputed_by.get(text, ()) if _can_meet({step}, formats[name])
            ]
    return {where: descriptions for where, descriptions in told.items() if descriptions}


def first_emptied(schemas: Collection[AppliedSchema], draft: int) -> tuple[AppliedSchema, str] | None:
    """A schema with a format for which listed texts are left out, and what a report tells of one of them.

    If there are several, one that lists no other texts comes first, and one of the document before those that
    it refers to.
    """
    told = left_out(schemas, draft)
    asked = [each for each in schemas if (each.pointer, "format") in told]

    def rank(each: AppliedSchema) -> tuple[bool, bool]:
        listed = each.schema.get("enum", [each.schema.get("const")])
        texts = told[each.pointer, "format"]
        has_more = any(not isinstance(value, str) or repr(value) not in texts for value in listed)
        return has_more, bool(each.pointer) and not each.pointer.startswith("/")

    first = min(asked, key=rank, default=None)
    return None if first is None else (first, told[first.pointer, "format"][0])


def inner_reading(document: Any, disputed: TextsByFormat) -> Any:
    """The document, in which every schema with a format forbids the disputed texts of that format."""

    def change(schema: dict[str, Any]) -> dict[str, Any]:
        if not (texts := _of_format(schema, disputed)):
            return schema
        return {**schema, "allOf": [*schema.get("allOf", []), {"not": {"enum": list(texts)}}]}

    return transformed(document, change) if disputed else document


def outer_reading(document: Any, disputed: TextsByFormat) -> Any:
    """The document, in which every schema with a format admits the disputed texts of that format."""
    return _admitting(document, {name: {"enum": list(texts)} for name, texts in disputed.items()})


def longer_texts(schemas: Collection[AppliedSchema], draft: int) -> Mapping[str, str]:
    """The patterns of texts, by format, that some validator takes and that are too long to canonicalization.

    They are needed only for formats that stand where asserting more may admit more, and only if a `minLength`
    asks for such a length.

    >>> from compiler.frontend.last_steps import applied_schemas
    >>> longer_texts(applied_schemas({"not": {"format": "uuid"}, "minLength": 40}, {}), draft=2020)
    {'uuid': '^[Uu][Rr][Nn]:[Uu][Uu][Ii][Dd]:[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}'}
    """
    least = [number for each in schemas if isinstance(number := each.schema.get("minLength"), int | float)]
    negative = _negative_formats(schemas, draft)
    return {
        name: longer.pattern
        for name, longer in _LONGER.items()
        if name in negative and any(number > longer.longest for number in least)
    }


def with_longer_texts(document: Any, patterns: Mapping[str, str]) -> Any:
    """The document, in which every schema with a format admits the texts of that format's pattern, too."""
    return _admitting(document, {name: {"pattern": pattern} for name, pattern in patterns.items()})


def _admitting(document: Any, more: Mapping[str, Any]) -> Any:
    """The document, in which every schema with a format admits what one more schema for that format does."""

    def change(schema: dict[str, Any]) -> dict[str, Any]:
        if (other := _of_format(schema, more)) is None:
            return schema
        rest = without(schema, {"format"})
        either = {"anyOf": [{"format": schema["format"]}, other]}
        return {**rest, "allOf": [*schema.get("allOf", []), either]}

    return transformed(document, change) if more else document


def _of_format(schema: Mapping[str, Any], by_format: Mapping[str, _Value]) -> _Value | None:
    """What there is for the format of a schema; None if its `allOf` is no list, so that it is not valid."""
    name = schema.get("format")
    if not isinstance(name, str) or not isinstance(schema.get("allOf", []), list):
        return None
    return by_format.get(name)


def _by_format(
    formats: _LastSteps, schemas: Collection[AppliedSchema], disputed: Callable[[str, str], bool]
) -> TextsByFormat:
    if not formats:
        return {}
    texts = _texts(schemas)
    texts_by_format = {
        name: tuple(sorted(text for text in texts if _can_meet(texts[text], steps) and disputed(name, text)))
        for name, steps in sorted(formats.items())
    }
    return {name: disputed_texts for name, disputed_texts in texts_by_format.items() if disputed_texts}


def _can_meet(first: set[LastStep], second: set[LastStep]) -> bool:
    """Whether paths to the same value may end with a step of each."""
    return None in first or None in second or not first.isdisjoint(second)


def _formats(schemas: Iterable[AppliedSchema]) -> _LastSteps:
    """The formats with force that schemas name."""
    steps: dict[str, set[LastStep]] = defaultdict(set)
    for each in schemas:
        name = each.schema.get("format")
        if isinstance(name, str) and name in FORMATS:
            steps[name].add(each.last_step)
    return steps


def _negative_formats(schemas: Collection[AppliedSchema], draft: int) -> _LastSteps:
    """The formats that the draft knows, and that stand where asserting more may admit more."""
    formats = _formats(below_negations(schemas))
    return {name: steps for name, steps in formats.items() if is_known(name, draft)}


def _texts(schemas: Collection[AppliedSchema]) -> _LastSteps:
    """The texts that a format may be asked about: listed ones, and keys where `propertyNames` asks."""
    steps: dict[str, set[LastStep]] = defaultdict(set)
    for each in schemas:
        for _, text, step in listed_strings(each):
            steps[text].add(step)
    if any("propertyNames" in each.schema for each in schemas):
        for each in schemas:
            for key in listed_keys(each.schema):
                steps[key].add(KEY_STEP)
    return steps


def _is_valid_for_one(name: str, text: str) -> bool:
    """Whether the validator takes the text for one of the format that canonicalization asks."""
    return jsonschema_rs.validator_for({"format": name}, validate_formats=True).is_valid(text)
