"""Dialects of JSON Schema: which one a schema is read in.

A schema names its dialect by `$schema`. A schema without it is read in the newest draft, 2020-12, if it is
valid there. Otherwise it is read in the newest draft in which it is valid, provided that this draft has all
keywords of the schema, so that none is ignored. Two constructs identify an older draft: `exclusiveMinimum`
and `exclusiveMaximum` as booleans (draft-04), and `items` as a list (up to 2019-09).

OpenAPI 3.0 has its own dialect: draft-04 with `nullable`. It cannot be told from JSON Schema, which ignores
`nullable`, so a schema is read in this dialect only if its `$schema` says so.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from toolspecs.schemas.drafts import (
    DEFAULT_DRAFT,
    FIRST_WITH,
    LAST_WITH_REF_ALONE,
    OPENAPI_3_0,
    SchemaDraft,
    draft_named,
)
from toolspecs.schemas.metaschemas import SCHEMAS_BY_NAME, is_valid_in

VALUE_KEYWORDS = frozenset({"enum", "const", "default", "examples", "example"})
"""Keywords whose value is no schema."""
_BESIDE_REF = frozenset(
    {"$ref", "$comment", "title", "description", "default", "examples", "definitions", "$defs"}
)
"""Keywords that lose nothing beside `$ref`."""


def dialect_of(schema: Any) -> str:
    """The URI of the dialect that a schema is read in: a draft's, `OPENAPI_3_0` or an unknown one.

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
        draft.uri
        for draft in reversed(SchemaDraft)
        if _knows_all(draft, parts) and is_valid_in(schema, draft.uri)
    )
    return next(fitting, DEFAULT_DRAFT)


def normal_uri(uri: Any) -> str:
    """A dialect's URI as it is spelled here: without an empty fragment, and with the draft's own scheme."""
    bare = uri.removesuffix("#") if isinstance(uri, str) else ""
    if bare == OPENAPI_3_0 or bare.startswith(f"{OPENAPI_3_0}/"):
        return OPENAPI_3_0
    draft = draft_named(uri)
    return bare if draft is None else draft.uri


def _looks_older(schema: Mapping[str, Any]) -> bool:
    strict = (schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum"))
    return any(isinstance(value, bool) for value in strict) or isinstance(schema.get("items"), list)


def _knows_all(draft: SchemaDraft, parts: list[Mapping[str, Any]]) -> bool:
    """Whether a draft has every keyword of these parts that a newer draft has."""
    newer = {keyword for keyword, first in FIRST_WITH.items() if first > draft}
    has_ref_alone = draft <= LAST_WITH_REF_ALONE
    return not any(
        part.keys() & newer or (has_ref_alone and "$ref" in part and part.keys() - _BESIDE_REF)
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
