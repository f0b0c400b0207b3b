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

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import jsonschema_rs

from compiler.frontend.dialect_dependent import NEGATIVE
from compiler.frontend.keywords import inside, transformed
from compiler.frontend.literals import listed_keys, listed_texts
from compiler.regular.formats import FORMATS, is_known
from compiler.regular.language import is_valid_for_all, may_be_valid
from toolspecs.bundle import REFERENCES
from toolspecs.drafts import draft_named

_Schema = Mapping[str, Any]
TextsByFormat = Mapping[str, tuple[str, ...]]


def not_valid_for_all(schemas: Collection[_Schema], draft: int) -> TextsByFormat:
    """The listed texts, by format, that canonicalization takes for valid and some validator may not.

    The schemas are all those of a document in `draft` and of what it refers to.

    >>> not_valid_for_all([{"enum": ["P1D", "x-1"], "format": "duration"}], draft=7)
    {'duration': ('x-1',)}
    """
    oldest = min((draft, *(draft_named(schema.get("$schema")) or draft for schema in schemas)))

    def disputed(name: str, text: str) -> bool:
        is_taken = not is_known(name, oldest) or _is_valid_for_one(name, text)
        return is_taken and not is_valid_for_all(name, text)

    return _by_format(_formats(schemas), _texts(schemas), disputed)


def valid_for_some(schemas: Collection[_Schema], draft: int) -> TextsByFormat:
    """The listed texts, by format, that some validator may take for valid and others not.

    Of the formats that the draft knows, and that stand where asserting more may admit more.

    >>> valid_for_some([{"enum": ["a@b", "c"], "not": {"format": "email"}}, {"format": "email"}], draft=7)
    {'email': ('a@b',)}
    """
    below = [part for schema in schemas for held in _negative(schema) for part in inside(held)]
    reached = schemas if any(part.keys() & REFERENCES for part in below) else below
    names = {name for name in _formats(reached) if is_known(name, draft)}

    def disputed(name: str, text: str) -> bool:
        return may_be_valid(name, text) and not is_valid_for_all(name, text)

    return _by_format(names, _texts(schemas), disputed) if below else {}


def inner_reading(document: Any, disputed: TextsByFormat) -> Any:
    """The document, in which every schema with a format forbids the disputed texts of that format."""

    def change(schema: dict[str, Any]) -> dict[str, Any]:
        if not (texts := _disputed_in(schema, disputed)):
            return schema
        return {**schema, "allOf": [*schema.get("allOf", []), {"not": {"enum": list(texts)}}]}

    return transformed(document, change) if disputed else document


def outer_reading(document: Any, disputed: TextsByFormat) -> Any:
    """The document, in which every schema with a format admits the disputed texts of that format."""

    def change(schema: dict[str, Any]) -> dict[str, Any]:
        if not (texts := _disputed_in(schema, disputed)):
            return schema
        others = {keyword: value for keyword, value in schema.items() if keyword != "format"}
        either = {"anyOf": [{"format": schema["format"]}, {"enum": list(texts)}]}
        return {**others, "allOf": [*schema.get("allOf", []), either]}

    return transformed(document, change) if disputed else document


def _disputed_in(schema: _Schema, disputed: TextsByFormat) -> tuple[str, ...]:
    name = schema.get("format")
    if not isinstance(name, str) or not isinstance(schema.get("allOf", []), list):
        return ()
    return disputed.get(name, ())


def _by_format(
    names: Iterable[str], texts: Iterable[str], disputed: Callable[[str, str], bool]
) -> TextsByFormat:
    texts_by_format = {
        name: tuple(sorted(text for text in texts if disputed(name, text))) for name in sorted(names)
    }
    return {name: disputed_texts for name, disputed_texts in texts_by_format.items() if disputed_texts}


def _formats(schemas: Iterable[_Schema]) -> set[str]:
    """The formats with force that schemas name."""
    return {s["format"] for s in schemas if isinstance(s.get("format"), str)} & FORMATS.keys()


def _texts(schemas: Collection[_Schema]) -> set[str]:
    """The texts that a format may be asked about: listed ones, and keys where `propertyNames` asks."""
    texts = {text for schema in schemas for text in listed_texts(schema)}
    if any("propertyNames" in schema for schema in schemas):
        texts |= {key for schema in schemas for key in listed_keys(schema)}
    return texts


def _negative(schema: _Schema) -> Iterator[Any]:
    """The subschemas for which asserting more may admit more."""
    for keyword in NEGATIVE & schema.keys():
        held = schema[keyword]
        yield from held if isinstance(held, list) else [held]


def _is_valid_for_one(name: str, text: str) -> bool:
    """Whether the validator takes the text for one of the format that canonicalization asks."""
    return jsonschema_rs.validator_for({"format": name}, validate_formats=True).is_valid(text)
