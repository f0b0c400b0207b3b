"""A value with its keys in declared order: an object has no order, but the texts that a grammar admits have one.

The declared order is that of first appearance under `properties`, then under `required`, references followed.
Where alternatives declare different orders there are two readings: the alternatives in document order, and those first
that the value satisfies.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import jsonschema
import jsonschema_rs
from jsonschema.validators import validator_for
from jsonschema_specifications import REGISTRY
from referencing import Resource, Specification
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, specification_with

_NAMING = ("properties", "required")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_SINGLE = ("if", "then", "else")
_ALTERNATIVES = ("anyOf", "oneOf")
_MAPS = ("dependentSchemas", "dependencies")
_OTHER_VALUES = ("additionalProperties", "unevaluatedProperties")
_OTHER_ITEMS = ("items", "additionalItems", "unevaluatedItems", "contains")


def in_declared_order(
    value: Any, schema: Any, documents: Mapping[str, Any] = MappingProxyType({})
) -> tuple[Any, Any]:
    """`value` in both readings: the keys of its objects in declared order, then undeclared ones in their old order.

    The schema may refer to `documents` by URI; a reference without a target is ignored.
    """
    kind = validator_for(schema, default=jsonschema.Draft202012Validator)
    specification = specification_with(kind.META_SCHEMA["$schema"], default=DRAFT202012)
    others = [(uri, Resource.from_contents(other, specification)) for uri, other in documents.items()]
    registry = REGISTRY.with_resources(others)
    resolver = registry.resolver_with_root(Resource(schema, specification))
    root = _Subschema(schema, resolver, specification, kind(schema, registry=registry))
    return _ordered(value, [root], is_fitting_first=False), _ordered(value, [root], is_fitting_first=True)


@dataclass(frozen=True, slots=True)
class _Subschema:
    """A schema inside a document, with what resolves the references in it and what judges values by it."""

    schema: Any
    resolver: Any
    specification: Specification[Any]
    validator: Any

    def inside(self, schema: Any) -> "_Subschema":
        """A subschema of this one."""
        here = self.resolver.in_subresource(Resource(self.schema, self.specification))
        return replace(self, schema=schema, resolver=here)

    def referent(self, uri: str) -> Iterator["_Subschema"]:
        """The schema that a reference leads to, if there is one."""
        try:
            found = self.inside(None).resolver.lookup(uri)
        except Unresolvable:
            return
        yield replace(self, schema=found.contents, resolver=found.resolver)

    def admits(self, value: Any) -> bool:
        """Whether the schema admits a value, as far as is known."""
        try:
            return next(self.validator.descend(value, self.schema, resolver=self.resolver), None) is None
        except (Unresolvable, RecursionError, re.error, TypeError):
            return True

    def beside(self, keyword: str) -> Iterator["_Subschema"]:
        """The schemas under a keyword that apply to the same value as this one."""
        match self.schema[keyword]:
            case str(uri) if keyword in _REFERENCES:
                yield from self.referent(uri)
            case list(schemas) if keyword in ("allOf", *_ALTERNATIVES):
                yield from map(self.inside, schemas)
            case dict(schemas) if keyword in _MAPS:
                yield from map(self.inside, schemas.values())
            case schema if keyword in _SINGLE:
                yield self.inside(schema)

    def of_key(self, keyword: str, key: str) -> Iterator["_Subschema"]:
        """The schemas under a keyword that apply to the value under `key`."""
        match self.schema[keyword]:
            case {**schemas} if keyword == "properties" and key in schemas:
                yield self.inside(schemas[key])
            case {**schemas} if keyword == "patternProperties":
                matching = (p for p in schemas if jsonschema_rs.is_valid({"pattern": p}, key))
                yield from (self.inside(schemas[pattern]) for pattern in matching)
            case schema if keyword in _OTHER_VALUES and key not in self.schema.get("properties", ()):
                yield self.inside(schema)

    def of_item(self, keyword: str, index: int) -> Iterator["_Subschema"]:
        """The schemas under a keyword that apply to the item at `index`."""
        match self.schema[keyword]:
            case list(schemas) if keyword in ("prefixItems", "items"):
                yield from map(self.inside, schemas[index : index + 1])
            case schema if keyword in _OTHER_ITEMS:
                yield self.inside(schema)


def _ordered(value: Any, subschemas: list[_Subschema], *, is_fitting_first: bool) -> Any:
    """`value` in the order declared by the schemas that apply to it."""
    if not isinstance(value, dict | list):
        return value
    met = list(_keywords(subschemas, None, set()))
    if is_fitting_first:
        met = [*_keywords(subschemas, value, set()), *met]
    ordered = partial(_ordered, is_fitting_first=is_fitting_first)
    if isinstance(value, list):
        return [
            ordered(item, [inner for found, keyword in met for inner in found.of_item(keyword, index)])
            for index, item in enumerate(value)
        ]
    named = [
        key
        for naming in _NAMING
        for found, keyword in met
        if keyword == naming and isinstance(found.schema[keyword], dict | list)
        for key in found.schema[keyword]
        if key in value
    ]
    return {
        key: ordered(value[key], [inner for found, keyword in met for inner in found.of_key(keyword, key)])
        for key in dict.fromkeys([*named, *value])
    }


def _keywords(
    subschemas: Iterable[_Subschema], value: Any | None, seen: set[int]
) -> Iterator[tuple[_Subschema, str]]:
    """The keywords of schemas, and of all that apply to the same value, in reading order.

    With a `value` alternatives are left out that do not admit it. Each schema is read once.
    """
    for found in subschemas:
        if isinstance(found.schema, dict) and id(found.schema) not in seen:
            seen.add(id(found.schema))
            for keyword in found.schema:
                yield found, keyword
                inner = found.beside(keyword)
                if value is not None and keyword in _ALTERNATIVES:
                    inner = (alternative for alternative in inner if alternative.admits(value))
                yield from _keywords(inner, value, seen)
