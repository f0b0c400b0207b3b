"""The operations of an OpenAPI document as schemas of one object: its parameters by name, and `body`."""

from collections.abc import Iterator
from typing import Any

_METHODS = ("get", "put", "post", "delete", "patch")
_PREFIX = "#/components/schemas/"


def tools(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and schema of each operation; its `$defs` have what it refers to."""
    components = document.get("components", {}).get("schemas", {})
    is_nullable_a_keyword = document["openapi"].startswith("3.0")
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method not in item:
                continue
            operation = item[method]
            schema = _arguments(document, [*item.get("parameters", ()), *operation.get("parameters", ())])
            body = _resolved(document, operation.get("requestBody", {}))
            content = body.get("content", {}).get("application/json", {})
            if "schema" in content:
                schema["properties"]["body"] = content["schema"]
                if body.get("required"):
                    schema["required"].append("body")
            bundled = _bundled(schema, components)
            name = operation.get("operationId", f"{method} {path}")
            yield name, _with_null(bundled) if is_nullable_a_keyword else bundled


def _arguments(document: dict[str, Any], parameters: list[Any]) -> dict[str, Any]:
    resolved = [_resolved(document, parameter) for parameter in parameters]
    return {
        "type": "object",
        "properties": {parameter["name"]: parameter["schema"] for parameter in resolved},
        "required": [parameter["name"] for parameter in resolved if parameter.get("required")],
    }


def _resolved(document: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in value:
        target: Any = document
        for step in value["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        value = target
    return value


def _bundled(schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    stack: list[Any] = [schema]
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack += value
        elif isinstance(value, dict):
            stack += value.values()
            name = str(value.get("$ref", "")).removeprefix(_PREFIX)
            if name in components and name not in found:
                found[name] = components[name]
                stack.append(components[name])
    bundled = _renamed(schema)
    return {**bundled, "$defs": {name: _renamed(found[name]) for name in found}} if found else bundled


def _renamed(value: Any) -> Any:
    if isinstance(value, list):
        return [_renamed(item) for item in value]
    if not isinstance(value, dict):
        return value
    renamed = {key: _renamed(item) for key, item in value.items()}
    if isinstance(value.get("$ref"), str):
        renamed["$ref"] = value["$ref"].replace(_PREFIX, "#/$defs/")
    return renamed


def _with_null(value: Any) -> Any:
    """OpenAPI 3.0's `nullable` as JSON Schema writes it."""
    if isinstance(value, list):
        return [_with_null(item) for item in value]
    if not isinstance(value, dict):
        return value
    schema = {key: _with_null(item) for key, item in value.items()}
    if schema.get("nullable") is not True:
        return schema
    del schema["nullable"]
    return {"anyOf": [schema, {"type": "null"}]}
