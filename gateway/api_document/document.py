"""Writes the OpenAPI document: paths from Litestar's handlers; bodies, answers and errors from the tables."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import HttpMethod, Litestar
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.types import ControllerRouterHandler

from gateway.access.route_scopes import ROUTE_SCOPES
from gateway.api_document.operations import (
    ANY_REQUEST,
    HEADER_SCHEMAS,
    HEADERS,
    OPERATIONS,
    WITH_BODY,
    WITH_KEY,
    Operation,
)
from gateway.api_document.request_schemas import STRUCTS, reached, ref, request_schemas
from gateway.http.error_shapes import ANTHROPIC, JSON_RPC, OPENAI, PROBLEM_DETAILS, ErrorShape, shape_of
from gateway.http.problems import STATUSES
from gateway.wire.answers.operation_answers import McpErrorBody
from gateway.wire.answers.registry_answers import AnthropicErrorBody, OpenAIErrorBody, ProblemDetails
from toolspecs.json_value import JSON

DESCRIPTION = """\
Callgate answers with calls that are valid under the schemas of the tools. It speaks OpenAI's Chat
Completions, Responses and Completions and Anthropic's Messages, and has a registry of toolsets. Each toolset
is also an MCP server, which checks arguments.

Every answer has the header `X-Request-ID`. An answer to a request with fields that have no effect here has
the header `X-Callgate-Ignored`, which names them. Requests whose head or body does not come in time, or whose
head is too long, are answered with 408 or 431 and plain text."""

_METHODS = ("get", "put", "post", "delete")

_ERROR_BODIES: Mapping[ErrorShape, type] = {
    ANTHROPIC: AnthropicErrorBody,
    JSON_RPC: McpErrorBody,
    OPENAI: OpenAIErrorBody,
    PROBLEM_DETAILS: ProblemDetails,
}


def describe(routes: Sequence[ControllerRouterHandler]) -> JSON:
    """The OpenAPI 3.1 document of some routes."""
    # An application that is never started: it finds out the paths and parameters of the handlers.
    config = OpenAPIConfig(
        "Callgate",
        "1",
        operation_id_creator=_operation_id,
        use_handler_docstrings=True,
        create_examples=False,
    )
    unused = {name: Provide(lambda: None, sync_to_thread=False) for name in ("services", "context")}
    app = Litestar(routes, dependencies=unused, openapi_config=config, logging_config=None)
    schema = app.openapi_schema.to_schema()
    types = [*STRUCTS, *_answer_types(), *_ERROR_BODIES.values()]
    refs, components = _components(types)
    described = _Described(dict(zip(map(repr, types), refs, strict=True)))
    bodies = request_schemas(components, dict(zip(types, refs, strict=True)))
    schemas = {**components, **schema["components"]["schemas"], **bodies}
    assert len(schemas) == len(components) + len(schema["components"]["schemas"]) + len(bodies), (
        "names are unique"
    )
    paths = {
        path: {method: described.operation(path, item[method]) for method in _METHODS if method in item}
        for path, item in sorted(schema["paths"].items())
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Callgate", "version": "1", "description": DESCRIPTION},
        "tags": [{"name": tag} for tag in dict.fromkeys(operation.tag for operation in OPERATIONS.values())],
        "paths": paths,
        "components": {
            "schemas": {name: schemas[name] for name in sorted(reached(paths, schemas))},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "key_header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
    }


def _operation_id(handler: Any, method: Any, path: Any) -> str:
    """The name of the handler; if a handler has several paths or methods, each has its own name."""
    own = ["_".join(str(part) for part in path if isinstance(part, str))] if len(handler.paths) > 1 else []
    own += [str(method)] if method == HttpMethod.HEAD else []  # which is not described
    return ":".join((handler.fn.__name__, *own))


def _answer_types() -> Iterator[Any]:
    for operation in OPERATIONS.values():
        yield from (answer for answer in operation.answers.values() if answer is not None)
        yield from operation.events


def _components(types: Sequence[Any]) -> tuple[tuple[JSON, ...], dict[str, JSON]]:
    """The schemas of some types, and the components that they refer to.

    Structs with equal names are told apart by the last but one part of their modules' names.
    """
    refs, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    names = {name: _short(name) for name in components}
    assert len(set(names.values())) == len(names), "two structs of a package have one name"
    text = msgspec.json.encode([refs, components]).decode()
    for name, short in names.items():
        text = text.replace(f'"#/components/schemas/{name}"', f'"#/components/schemas/{short}"')
    read_refs, read = msgspec.json.decode(text)
    return tuple(read_refs), {names[name]: schema for name, schema in read.items()}


def _short(name: str) -> str:
    *packages, struct = name.split(".")
    if not packages:
        return name
    module = packages[-1] if packages[-1] != "request" else packages[-2]
    return f"{module}.{struct}"


class _Described:
    """Writes operations; `refs` has the schemas of types by their representations."""

    def __init__(self, refs: Mapping[str, JSON]) -> None:
        self._refs = refs

    def operation(self, path: str, generated: Mapping[str, Any]) -> JSON:
        """One operation; `generated` is what Litestar makes of the handler: its parameters and docstring."""
        operation_id = generated["operationId"]
        name = operation_id.partition(":")[0]
        assert name in OPERATIONS, f"{path} has no row in gateway/api_document/operations.py: add {name!r}"
        row = OPERATIONS[name]
        parameters = [*generated.get("parameters", ()), *map(_header, row.headers)]
        body = (
            {
                "required": not row.has_optional_body,
                "content": {"application/json": {"schema": ref(row.body)}},
            }
            if row.body
            else None
        )
        return {
            "operationId": operation_id,
            "tags": [row.tag],
            "summary": generated["description"].split("\n\n")[0].replace("\n", " "),
            "description": generated["description"],
            **({"parameters": list(map(_parameter, parameters))} if parameters else {}),
            **({"requestBody": body} if body else {}),
            "responses": {
                **{str(status): self._answer(row, status) for status in row.answers},
                **self._errors(path, name, row),
            },
            "security": list(_security(name)),
        }

    def _answer(self, row: Operation, status: int) -> JSON:
        answer = row.answers[status]
        described: JSON = {"description": HTTPStatus(status).phrase}
        if answer is not None:
            described["content"] = {row.media_type: {"schema": self._refs[repr(answer)]}}
        if row.events:
            # OpenAPI 3.1 has no word for the schema of each event; 3.2 calls it `itemSchema`.
            event = {"anyOf": [self._refs[repr(event_type)] for event_type in row.events]}
            described["content"]["text/event-stream"] = {"schema": {"type": "string"}, "x-item-schema": event}
        if row.has_etag:
            described["headers"] = {"ETag": {"schema": {"type": "string"}}}
        return described

    def _errors(self, path: str, name: str, row: Operation) -> dict[str, JSON]:
        """The errors of a route by status, with their codes."""
        shape = shape_of(path)
        codes: defaultdict[int, dict[str, None]] = defaultdict(dict)
        codes[500]["internal_error"] = None
        with_key, with_body = WITH_KEY if ROUTE_SCOPES[name] else (), WITH_BODY if row.body else ()
        for error in (*ANY_REQUEST, *with_key, *with_body, *row.errors):
            status, kind = STATUSES[error]
            codes[shape.status(status)][shape.code_of(kind)] = None
        content = {shape.media_type: {"schema": self._refs[repr(_ERROR_BODIES[shape])]}}
        return {
            str(status): {
                "description": ", ".join(f"`{code}`" for code in of_status),
                "content": content,
            }
            for status, of_status in sorted(codes.items())
            if status not in row.answers
        }


def _security(name: str) -> Iterator[JSON]:
    """A key with one of the route's scopes, or no key if the gateway asks for none."""
    for scope in sorted(ROUTE_SCOPES[name]):
        yield from ({scheme: [scope]} for scheme in ("key", "key_header"))
    if ROUTE_SCOPES[name]:
        yield {}


def _header(name: str) -> JSON:
    schema = HEADER_SCHEMAS.get(name, {"type": "string"})
    return {"name": name, "in": "header", "schema": schema, "description": HEADERS[name]}


def _parameter(parameter: Mapping[str, Any]) -> JSON:
    """A parameter, without fields that have their default values."""
    return {name: value for name, value in parameter.items() if value not in (False, None)}
