"""BFCL's tools as JSON Schemas, and its expected calls as values: upstream has other forms of both."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import jsonschema_rs

TYPES = {
    "dict": "object",
    "HashMap": "object",
    "float": "number",
    "double": "number",
    "long": "integer",
    "tuple": "array",
    "Array": "array",
    "ArrayList": "array",
    "String": "string",
    "char": "string",
    "Boolean": "boolean",
}
"""JSON Schema's name for each type; `any` and the empty string mean any type and are left out."""

_Tool = tuple[str, Any, list[Any]]


def tools(items: Iterable[dict[str, Any]]) -> Iterator[_Tool]:
    """Name, schema and expected calls of each distinct schema; only calls that the schema admits."""
    seen: dict[str, _Tool] = {}
    for item in items:
        schemas = {tool["name"]: schema_of(tool["parameters"]) for tool in item["function"]}
        for name, schema in schemas.items():
            seen.setdefault(json.dumps(schema), (f"{item['id']}/{name}", schema, []))
        for expected in item["ground_truth"] or ():
            for name, arguments in expected.items():
                seen[json.dumps(schemas[name])][2].extend(expected_calls(arguments, schemas[name]))
    for name, schema, calls in seen.values():
        validator = jsonschema_rs.validator_for(schema, validate_formats=True, offline=True)
        yield name, schema, [call for call in _distinct(calls) if validator.is_valid(call)]


def schema_of(parameters: Any) -> Any:
    """`parameters` with JSON Schema's names of types, in all subschemas."""
    if not isinstance(parameters, dict):
        return parameters
    schema = {key: value for key, value in parameters.items() if key != "type"}
    spelled = parameters.get("type")
    if spelled and spelled != "any":
        schema = {"type": TYPES.get(spelled, spelled), **schema}
    if isinstance(schema.get("properties"), dict):
        schema["properties"] = {key: schema_of(value) for key, value in schema["properties"].items()}
    if "items" in schema:
        schema["items"] = schema_of(schema["items"])
    return schema


def expected_calls(arguments: dict[str, list[Any]], schema: Any) -> Iterator[Any]:
    """One call for each rank among the accepted values: all the first ones, all the second ones, and so on."""
    for rank in range(max(map(len, arguments.values()), default=1)):
        yield _ordered(_call(arguments, rank), schema)


def _call(arguments: dict[str, Any], rank: int) -> dict[str, Any]:
    call = {}
    for name, accepted in arguments.items():
        value = (
            accepted[min(rank, len(accepted) - 1)] if isinstance(accepted, list) and accepted else accepted
        )
        if value != "":  # which says that the parameter may be left out
            call[name] = _value(value, rank)
    return call


def _value(value: Any, rank: int) -> Any:
    match value:
        case dict():
            return _call(value, rank)
        case list():
            return [_value(item, rank) for item in value]
        case _:
            return value


def _ordered(value: Any, schema: Any) -> Any:
    """`value` with its keys in declared order: upstream compares calls as sets of parameters."""
    if not isinstance(schema, dict):
        return value
    if isinstance(value, list):
        return [_ordered(item, schema.get("items")) for item in value]
    if not isinstance(value, dict):
        return value
    declared = schema.get("properties") or {}
    keys = [key for key in declared if key in value] + [key for key in value if key not in declared]
    return {key: _ordered(value[key], declared.get(key)) for key in keys}


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list({json.dumps(value): value for value in values}.values())
