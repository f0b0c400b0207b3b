"""Dialects of JSON Schema: which one a schema is read in.

A schema names its dialect by `$schema`. A schema without it is read in the newest draft, 2020-12, if it is
valid there. Otherwise it is read in the newest draft in which it is valid, provided that this draft has all
keywords of the schema, so that none is ignored. Two constructs identify an older draft: `exclusiveMinimum`
and `exclusiveMaximum` as booleans (draft-04), and `items` as a list (up to 2019-09).

OpenAPI 3.0 has its own dialect: draft-04 with `nullable`. It cannot be told from JSON Schema, which ignores
`nullable`, so a schema is read in this dialect only if its `$schema` says so.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import jsonschema_rs

DEFAULT_DRAFT = "https://json-schema.org/draft/2020-12/schema"

DRAFTS: Mapping[str, type[jsonschema_rs.Validator]] = {
    "http://json-schema.org/draft-04/schema": jsonschema_rs.Draft4Validator,
    "http://json-schema.org/draft-06/schema": jsonschema_rs.Draft6Validator,
    "http://json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema_rs.Draft201909Validator,
    DEFAULT_DRAFT: jsonschema_rs.Draft202012Validator,
}
"""From the oldest to the newest."""
OPENAPI_3_0 = "https://spec.openapis.org/oas/3.0/schema"
"""What `$schema` names as OpenAPI 3.0 begins with this; a date may follow."""

SCHEMAS_BY_NAME = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
"""Keywords whose value is an object of schemas by name."""
VALUE_KEYWORDS = frozenset({"enum", "const", "default", "examples", "example"})
"""Keywords whose value is no schema."""
_ADDED = (
    frozenset[str](),
    frozenset({"const", "contains", "propertyNames"}),
    frozenset({"if"}),
    frozenset(
        {
            "dependentRequired",
            "dependentSchemas",
            "minContains",
            "maxContains",
            "unevaluatedItems",
            "unevaluatedProperties",
            "$anchor",
            "$recursiveRef",
        }
    ),
    frozenset({"prefixItems", "$dynamicRef"}),
)
"""The keywords with force that each of `DRAFTS` added."""
_REF_ALONE = 3
"""The number of drafts in which keywords beside `$ref` have no force."""
_BESIDE_REF = frozenset(
    {"$ref", "$comment", "title", "description", "default", "examples", "definitions", "$defs"}
)
"""Keywords that lose nothing beside `$ref`."""


def dialect_of(schema: Any) -> str:
    """The URI of the dialect that a schema is read in: of `DRAFTS`, `OPENAPI_3_0`, or else an unknown one.

    >>> dialect_of({"properties": {"a": {"minimum": 0, "exclusiveMinimum": True}}})
    'http://json-schema.org/draft-04/schema'
    >>> dialect_of({"properties": {"a": {"minimum": 0, "exclusiveMinimum": True}, "b": {"const": 1}}})
    'https://json-schema.org/draft/2020-12/schema'
    """
    if not isinstance(schema, dict):
        return DEFAULT_DRAFT
    if "$schema" in schema:
        return normal_uri(schema["$schema"])
    parts = list(_subschemas(schema))
    if not any(map(_looks_older, parts)):
        return DEFAULT_DRAFT
    fitting = (
        uri
        for age, uri in reversed(list(enumerate(DRAFTS)))
        if _knows_all(age, parts) and next(metaschema_errors(schema, uri), None) is None
    )
    return next(fitting, DEFAULT_DRAFT)


def metaschema_errors(schema: Any, uri: str) -> Iterator[Any]:
    """Why a schema is not valid in a dialect; each error is located as deep in the schema as possible."""
    for error in _metaschema(next(iter(DRAFTS)) if uri == OPENAPI_3_0 else uri).iter_errors(schema):
        deepest = deepest_error(error)
        # Of all formats only patterns are checked: real schemas have identifiers that no draft allows.
        if deepest.kind.name != "format" or '"regex"' in deepest.message:
            yield deepest


def normal_uri(uri: Any) -> str:
    """A dialect's URI as it is spelled here: without an empty fragment, and with the draft's own scheme."""
    bare = uri.removesuffix("#") if isinstance(uri, str) else ""
    if bare == OPENAPI_3_0 or bare.startswith(f"{OPENAPI_3_0}/"):
        return OPENAPI_3_0
    _, _, rest = bare.partition("://")
    return next((known for known in DRAFTS if bare.startswith("http") and known.endswith(f"://{rest}")), bare)


@cache
def _metaschema(uri: str) -> jsonschema_rs.Validator:
    return DRAFTS[uri]({"$ref": uri}, validate_formats=True)


def deepest_error(error: Any) -> Any:
    """The error deepest in the instance; for an `anyOf`, the error of the branch that got deepest."""
    while branches := getattr(error.kind, "context", None):
        inner = [cause for branch in branches for cause in branch]
        cause = max(inner, key=lambda cause: len(cause.instance_path), default=error)
        if len(cause.instance_path) <= len(error.instance_path):
            return error
        error = cause
    return error


def _looks_older(schema: Mapping[str, Any]) -> bool:
    strict = (schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum"))
    return any(isinstance(value, bool) for value in strict) or isinstance(schema.get("items"), list)


def _knows_all(age: int, parts: list[Mapping[str, Any]]) -> bool:
    """Whether the draft at index `age` has every keyword of these parts that a later draft has."""
    newer = frozenset[str]().union(*_ADDED[age + 1 :])
    return not any(
        part.keys() & newer or (age < _REF_ALONE and "$ref" in part and part.keys() - _BESIDE_REF)
        for part in parts
    )


def _subschemas(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schema and everything inside it that can be a schema."""
    stack: list[Any] = [schema]
    while stack:
        part = stack.pop()
        if isinstance(part, list):
            stack += part
        elif isinstance(part, dict):
            yield part
            for keyword, value in part.items():
                if keyword in SCHEMAS_BY_NAME and isinstance(value, dict):
                    stack += value.values()
                elif keyword not in VALUE_KEYWORDS:
                    stack.append(value)
