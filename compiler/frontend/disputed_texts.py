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
from typing import Any

import jsonschema_rs

from compiler.errors import UnsupportedSchema
from compiler.frontend.keywords import transformed, without
from compiler.frontend.last_steps import KEY_STEP, AppliedSchema, LastStep, below_negations, listed_strings
from compiler.frontend.literals import listed_keys
from compiler.regular.formats import FORMATS, is_known
from compiler.regular.language import is_valid_for_all, may_be_valid
from toolspecs.json_pointer import child
from toolspecs.schemas.drafts import draft_named

_LONGEST = {"uuid": 36, "hostname": 253}
"""The most characters that canonicalization knows texts of a format to have.

ajv takes `urn:uuid:` before a UUID, and a dot behind a name of a host, as Python's `jsonschema` does.
"""
TextsByFormat = Mapping[str, tuple[str, ...]]
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
    if not narrow and not wide:
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

    def change(schema: dict[str, Any]) -> dict[str, Any]:
        if not (texts := _of_format(schema, disputed)):
            return schema
        rest = without(schema, {"format"})
        either = {"anyOf": [{"format": schema["format"]}, {"enum": list(texts)}]}
        return {**rest, "allOf": [*schema.get("allOf", []), either]}

    return transformed(document, change) if disputed else document


def check_lengths(schemas: Collection[AppliedSchema], draft: int) -> None:
    """Refuse a format below a negation if a `minLength` asks for more characters than its texts may have.

    Canonicalization would take the format for one that no text has. A `minLength` for another key does not
    count.

    Raises:
        UnsupportedSchema: there is one.
    """
    least: dict[LastStep, float] = {}
    for each in schemas:
        if isinstance(length := each.schema.get("minLength"), int | float):
            least[each.last_step] = max(length, least.get(each.last_step, 0))
    if not least:
        return
    for each in below_negations(schemas):
        name, step = str(each.schema.get("format")), each.last_step
        if name not in _LONGEST or not is_known(name, draft):
            continue
        length = max(least.values()) if step is None else max(least.get(None, 0), least.get(step, 0))
        if length > _LONGEST[name]:
            reason = (
                f"is asked about texts of at least {length} characters, and not all validators agree on these"
            )
            suggestion = f"Lower minLength to {_LONGEST[name]}, or use `pattern` instead."
            raise UnsupportedSchema(child(each.pointer, "format"), "format", reason, suggestion)


def _of_format(schema: Mapping[str, Any], disputed: TextsByFormat) -> tuple[str, ...]:
    """The disputed texts of a schema's format; none if its `allOf` is no list, so that it is not valid."""
    name = schema.get("format")
    if not isinstance(name, str) or not isinstance(schema.get("allOf", []), list):
        return ()
    return disputed.get(name, ())


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
