"""Two independent validators, and a strict reading of JSON, as judges of what a mask admitted.

`jsonschema_rs` (Rust) reads numbers as Python's `json` does. `jsonschema` (Python) judges twice: on floats, and on exact decimals,
since in floats its `multipleOf` divides in binary and is wrong for some decimals.
"""

import decimal
import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jsonschema
import jsonschema_rs
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.jsonschema import specification_with

from toolspecs.schemas.dialects import dialect_of
from toolspecs.schemas.drafts import OPENAPI_3_0

_NO_DOCUMENTS: Mapping[str, Any] = MappingProxyType({})
_EXACT = decimal.Context(prec=2000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


class Judges:
    """All judges of one schema, which may refer to `documents` by URI.

    A schema without `$schema` is judged in the dialect that it is read in, as its registration says; one of
    OpenAPI 3.0 as the schema of draft-04 that it stands for.
    """

    def __init__(self, schema: Any, documents: Mapping[str, Any] = _NO_DOCUMENTS) -> None:
        if isinstance(schema, dict) and "$schema" not in schema:
            schema = {"$schema": dialect_of(schema), **schema}
        if isinstance(schema, dict) and str(schema["$schema"]).startswith(OPENAPI_3_0):
            schema = {**_with_null(schema), "$schema": jsonschema.Draft4Validator.META_SCHEMA["$schema"]}
        kind = validator_for(schema, default=jsonschema.Draft202012Validator)
        dialect = kind.META_SCHEMA["$schema"]
        draft = jsonschema_rs.canonicalize({"$schema": dialect}).draft
        known = [("", schema), *documents.items()]  # documents may refer back to the schema
        rust = jsonschema_rs.Registry(known, draft=draft) if documents else None
        self._rust = jsonschema_rs.validator_for(schema, validate_formats=True, offline=True, registry=rust)

        def python(schema: Any, documents: Mapping[str, Any]) -> Any:
            default = specification_with(dialect)
            known = [(uri, Resource.from_contents(document, default)) for uri, document in documents.items()]
            registry = Registry().with_resources(known)
            return kind(schema, format_checker=kind.FORMAT_CHECKER, registry=registry)

        text = json.dumps([schema, dict(documents)])
        self._python = python(schema, documents)
        self._exact = python(*_read(text, decimal.Decimal))
        self._has_divisor = '"multipleOf"' in text

    def faults(self, text: bytes) -> list[str]:
        """What is wrong with `text` as an instance; empty if nothing is."""
        try:
            value = _read(text.decode(), float)
        except ValueError as error:
            return [f"no strict JSON: {error}"]
        faults = []
        if not self._rust.is_valid(value):
            faults.append(f"jsonschema_rs: {_first(self._rust.iter_errors(value))}")
        with decimal.localcontext(_EXACT):
            if (error := _first(self._exact.iter_errors(_read(text.decode(), decimal.Decimal)))) is not None:
                faults.append(f"jsonschema, decimals: {error}")
        if not self._has_divisor and (error := _first(self._python.iter_errors(value))) is not None:
            faults.append(f"jsonschema: {error}")
        return faults

    def verdicts(self, text: bytes) -> tuple[bool, bool]:
        """What `jsonschema_rs` and `jsonschema` say of an instance, each for itself."""
        value = json.loads(text)
        return self._rust.is_valid(value), _first(self._python.iter_errors(value)) is None


def _with_null(value: Any) -> Any:
    """OpenAPI 3.0's `nullable`, which adds null to the `type` beside it, as JSON Schema writes it."""
    if isinstance(value, list):
        return [_with_null(item) for item in value]
    if not isinstance(value, dict):
        return value
    schema = {key: _with_null(inner) for key, inner in value.items()}
    if schema.get("nullable") is True and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
    return schema


def _read(text: str, parse_float: Any) -> Any:
    """The value of a strict JSON text: no NaN, no control character in a string, no lone surrogate, no repeated key.

    Raises:
        ValueError: the text is not strict JSON.
    """
    value = json.loads(
        text, parse_float=parse_float, parse_constant=_refuse, object_pairs_hook=without_repeats
    )
    json.dumps(value, ensure_ascii=False, default=str).encode()
    return value


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of a JSON text, for `object_pairs_hook`; raises ValueError if a key repeats."""
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError(f"an object repeats a key: {[key for key, _ in pairs]}")
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _first(errors: Any) -> str | None:
    try:
        return next((error.message[:300] for error in errors), None)
    except (RecursionError, re.error, TypeError):
        return None  # no verdict: too deep for Python's stack, a pattern it cannot read, `items: false` in draft 7
