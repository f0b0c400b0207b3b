"""Combinations that canonicalization leaves symbolic because of a reference in them, resolved in steps."""

from functools import reduce
from typing import Any

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, canonical


def simple(document: Any, draft: int) -> CanonicalSchema:
    """The canonical form of a schema of our own, to be combined with those of a document in `draft`."""
    return jsonschema_rs.canonicalize(document, draft=draft, validate_formats=True, offline=True)


class Combinations:
    """The combinations inside one document."""

    def __init__(self, document: CanonicalSchema) -> None:
        self._document = document

    def unfold(self, schema: CanonicalSchema) -> CanonicalSchema:
        """The schema with its outermost references followed and its combination carried out.

        Returns the schema itself where there is nothing to unfold.

        Raises:
            CanonicalizationError: the result has no canonical form, or a reference no target.
        """
        match schema.view():
            case canonical.ReferenceView(uri):
                return self._definition(schema, uri)
            case canonical.NotView(inner):
                return self.unfold(inner).negate()
            case canonical.AllOfView(branches):
                return reduce(CanonicalSchema.intersect, map(self.unfold, branches))
            case canonical.OneOfView(branches):
                return _exactly_one(list(map(self.unfold, branches)))
            case canonical.TypedGroupView(type_name, body):
                return self._of_type(type_name, self.unfold(body))
            case _:
                return schema

    def _definition(self, schema: CanonicalSchema, uri: str) -> CanonicalSchema:
        target = schema.definition(uri) or self._document.definition(uri)
        if target is None:
            raise canonical.CanonicalizationError(f"{uri!r} has no target")
        return target

    def _of_type(self, type_name: str, body: CanonicalSchema) -> CanonicalSchema:
        """The values of a type that `body` admits; draft 4 tells the integer 1 from the number 1.0."""
        match body.view():
            case canonical.ConstView(value) if type_name == "integer":
                return body if _is_integer(value) else simple({"not": {}}, body.draft)
            case canonical.EnumView(values) if type_name == "integer":
                return simple({"enum": list(filter(_is_integer, values))}, body.draft)
            case _:
                return simple({"type": type_name}, body.draft).intersect(body)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _exactly_one(schemas: list[CanonicalSchema]) -> CanonicalSchema:
    """What one of the schemas admits and no other; what provably excludes it need not be subtracted."""

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
