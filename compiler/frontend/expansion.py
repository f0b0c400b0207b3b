"""Expander that canonicalization leaves symbolic because of a reference in them, resolved in steps.

What has no canonical form as a whole often has one in pieces, so everything here is a union of schemas. Where
a schema cannot be subtracted exactly, what is known to fail it is kept, and no more.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import reduce
from itertools import product
from typing import Any

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, canonical

MAX_PIECES = 120
_MAX_REFERENCES = 50
_MAX_NESTING = 50
_PREFIX_ITEMS = 20
_NOTHING: dict[str, Any] = {"not": {}}

Pieces = list[CanonicalSchema]
"""A union of schemas."""


def simple(document: Any, draft: int) -> CanonicalSchema:
    """The canonical form of a schema of our own, to be combined with those of a document in `draft`.

    It is written in what all drafts share: `enum` for one value, `{"not": {}}` for nothing.
    """
    return jsonschema_rs.canonicalize(document, draft=draft, validate_formats=True, offline=True)


class TooManyCases(canonical.UnsupportedResult):
    """A combination outgrew `MAX_PIECES`."""


class Expander:
    """The combinations inside one document; `is_narrowed` if the last one resolved to less than it admits."""

    def __init__(self, document: CanonicalSchema) -> None:
        self._document = document
        self._draft = document.draft
        self._prefix = "prefixItems" if document.draft >= _PREFIX_ITEMS else "items"
        self.is_narrowed = False
        self._is_frugal = False

    def expand(self, schema: CanonicalSchema) -> Pieces:
        """The schema with its outermost references followed and its combination carried out, as a union.

        Returns the schema itself where there is nothing to expand.

        Raises:
            CanonicalizationError: the result has no canonical form, or a reference no target.
        """
        self.is_narrowed = False
        match schema.view():
            case canonical.ReferenceView():
                return [self._target(schema)]
            case canonical.AnyOfView():
                return [schema]
        with suppress(canonical.CanonicalizationError):
            whole = self._whole(schema)
            if whole != schema:
                return [whole]
        return self._pieces(schema, 0)

    def _whole(self, schema: CanonicalSchema) -> CanonicalSchema:
        """One step of it, in one form."""
        match schema.view():
            case canonical.ReferenceView():
                return self._target(schema)
            case canonical.NotView(inner):
                return self._whole(inner).negate()
            case canonical.AllOfView(branches):
                return reduce(CanonicalSchema.intersect, map(self._whole, branches))
            case canonical.OneOfView(branches):
                return _alone_of(list(map(self._whole, branches)))
            case canonical.TypedGroupView(type_name, body):
                return self._of_type(type_name, self._whole(body))
            case _:
                return schema

    def _pieces(self, schema: CanonicalSchema, depth: int) -> Pieces:  # noqa: PLR0911 - one case per view
        """The schema as a union of schemas that can be combined."""
        if depth > _MAX_NESTING:
            raise canonical.UnsupportedResult("it combines itself with something else without an end")
        match schema.view():
            case canonical.ReferenceView():
                return self._pieces(self._target(schema), depth + 1)
            case canonical.AnyOfView(branches):
                return [piece for branch in branches for piece in self._pieces(branch, depth + 1)]
            case canonical.NotView(inner):
                return self._subtract([self._simple({})], self._pieces(inner, depth + 1))
            case canonical.AllOfView(branches):
                return reduce(self._intersect, (self._pieces(branch, depth + 1) for branch in branches))
            case canonical.OneOfView(branches):
                return self._exactly_one([self._pieces(branch, depth + 1) for branch in branches])
            case canonical.TypedGroupView(type_name, body):
                return [self._of_type(type_name, piece) for piece in self._pieces(body, depth + 1)]
            case _:
                return [schema]

    def _simple(self, document: Any) -> CanonicalSchema:
        return simple(document, self._draft)

    def _target(self, schema: CanonicalSchema) -> CanonicalSchema:
        """The first schema that is no reference."""
        target = schema
        for _ in range(_MAX_REFERENCES):
            match target.view():
                case canonical.ReferenceView(uri):
                    found = target.definition(uri) or self._document.definition(uri)
                    if found is None:
                        raise canonical.CanonicalizationError(f"{uri!r} has no target")
                    target = found
                case _:
                    return target
        raise canonical.CanonicalizationError(f"a chain of more than {_MAX_REFERENCES} references")

    def _of_type(self, type_name: str, body: CanonicalSchema) -> CanonicalSchema:
        """The values of a type that `body` admits; draft 4 tells the integer 1 from the number 1.0."""
        match body.view():
            case canonical.ConstView(value) if type_name == "integer":
                return body if _is_integer(value) else self._simple({"not": {}})
            case canonical.EnumView(values) if type_name == "integer":
                return self._simple({"enum": list(filter(_is_integer, values))})
            case _:
                return self._simple({"type": type_name}).intersect(body)

    def _intersect(self, first: Pieces, second: Pieces) -> Pieces:
        return self._live(a.intersect(b) for a, b in product(first, second))

    def _exactly_one(self, unions: list[Pieces]) -> Pieces:
        """What one of the unions admits and no other; where that has too many cases, some of them."""
        try:
            return self._alone(unions)
        except TooManyCases:
            self._is_frugal = self.is_narrowed = True
            try:
                return self._alone(unions)
            finally:
                self._is_frugal = False

    def _alone(self, unions: list[Pieces]) -> Pieces:
        found: Pieces = []
        for index, union in enumerate(unions):
            others = [piece for other in (*unions[:index], *unions[index + 1 :]) for piece in other]
            found += self._subtract(union, others)
        return self._live(found)

    def _subtract(self, pieces: Pieces, others: Pieces) -> Pieces:
        for other in others:
            pieces = self._live(rest for piece in pieces for rest in self._difference(piece, other))
        return pieces

    def _difference(self, piece: CanonicalSchema, other: CanonicalSchema) -> Pieces:  # noqa: PLR0911 - one case per view
        """What `piece` admits and `other` does not; what is known to fail `other` where that has no form."""
        if _exclude(piece, other):
            return [piece]
        try:
            exact = piece.subtract(other)
            if not self._is_frugal or not isinstance(exact.view(), canonical.AnyOfView):
                return list(_branches(exact))
        except canonical.CanonicalizationError:
            pass
        match other.view():
            case canonical.AnyOfView(branches):
                return self._subtract([piece], list(branches))
            case canonical.ReferenceView():
                return self._difference(piece, self._target(other))
            case canonical.ConstView(value):
                return self._without([piece], value)
            case canonical.EnumView(values):
                return reduce(self._without, values, [piece])
            case canonical.ObjectView() as view:
                self.is_narrowed = True
                return self._kept(piece, _failing(view))
            case _:
                raise canonical.UnsupportedResult("it cannot be negated")

    def _without(self, pieces: Pieces, value: Any) -> Pieces:
        return self._live(
            rest for piece in pieces for rest in self._kept(piece, _unequal(value, self._prefix))
        )

    def _kept(self, piece: CanonicalSchema, conditions: Sequence[Any]) -> Pieces:
        """What of a schema meets any of the conditions, documents of our own."""
        found: Pieces = []
        for condition in conditions:
            try:
                found += self._live([piece.intersect(self._simple(condition))])
            except canonical.CanonicalizationError:
                self.is_narrowed = True
            if found and self._is_frugal:
                break
        return found

    def _live(self, pieces: Iterator[CanonicalSchema] | Pieces) -> Pieces:
        """The pieces that are not known to be empty, each once."""
        live: Pieces = []
        for piece in pieces:
            if piece.satisfiability() != canonical.Satisfiability.NO and piece not in live:
                live.append(piece)
            if len(live) > MAX_PIECES:
                raise TooManyCases(f"it has more than {MAX_PIECES} cases")
        return live


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _branches(schema: CanonicalSchema) -> Iterator[CanonicalSchema]:
    match schema.view():
        case canonical.AnyOfView(branches):
            yield from branches
        case _:
            yield schema


def _alone_of(schemas: Pieces) -> CanonicalSchema:
    """What one of the schemas admits and no other, in one form; what excludes it need not be subtracted."""

    def alone(index: int) -> CanonicalSchema:
        schema = schemas[index]
        others = schemas[:index] + schemas[index + 1 :]
        return reduce(CanonicalSchema.subtract, [o for o in others if not _exclude(schema, o)], schema)

    return reduce(CanonicalSchema.union, map(alone, range(len(schemas))))


def _exclude(first: CanonicalSchema, second: CanonicalSchema) -> bool:
    try:
        return first.intersect(second).satisfiability() == canonical.Satisfiability.NO
    except canonical.CanonicalizationError:
        return False


def _unequal(value: Any, prefix: str) -> list[Any]:
    """Schemas whose union is every value but this one; `prefix` is the keyword of items by position."""
    match value:
        case list():
            return [
                {"not": {"type": "array"}},
                *([{"type": "array", "maxItems": len(value) - 1}] if value else ()),
                {"type": "array", "minItems": len(value) + 1},
                *(
                    {"type": "array", "minItems": index + 1, prefix: [*[{}] * index, other]}
                    for index, item in enumerate(value)
                    for other in _unequal(item, prefix)
                ),
            ]
        case dict():
            return [
                {"not": {"type": "object"}},
                {"type": "object", "minProperties": len(value) + 1},
                *({"type": "object", "properties": {key: _NOTHING}} for key in value),
                *(
                    {"type": "object", "required": [key], "properties": {key: other}}
                    for key, item in value.items()
                    for other in _unequal(item, prefix)
                ),
            ]
        case _:
            return [{"not": {"enum": [value]}}]


def _failing(view: canonical.ObjectView) -> list[Any]:
    """Schemas of values that fail the view, not all of them."""
    failing: list[Any] = [{"not": {"type": "object"}}]
    failing += [{"type": "object", "properties": {key: _NOTHING}} for key in view.required]
    for key, schema in view.properties.items():
        try:
            opposite = schema.negate().to_json_schema()
        except canonical.CanonicalizationError:
            continue
        if isinstance(opposite, dict) and "$ref" in str(opposite):
            continue
        failing.append({"type": "object", "required": [key], "properties": {key: opposite}})
    return failing
