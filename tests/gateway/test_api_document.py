"""The OpenAPI document, and the page that shows it. `described.py` compares all other tests with it."""

import json
import re

import pytest
from described import closed, document, operation_of, refuse
from litestar import get
from openapi_spec_validator import OpenAPIV31SpecValidator
from served_routes import handlers

from compiler.regular import ecma
from gateway.api_document.document import describe
from gateway.api_document.operations import OPERATIONS
from gateway.http.error_shapes import openai_code
from gateway.http.problems import CLIENT_CLOSED_REQUEST, STATUSES
from toolspecs.imports.openapi import EVERYTHING, import_openapi, unreachable
from toolspecs.shapes import Shape, write_tool
from toolspecs.tool_parser import parse_tools


def test_the_document_is_openapi_3_1():
    assert [error.message for error in OpenAPIV31SpecValidator(document()).iter_errors()] == []


def patterns_in(value):
    """Every pattern of a part of the document."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        if isinstance(value.get("pattern"), str):
            yield value["pattern"]
        for part in value.values():
            yield from patterns_in(part)


def test_every_pattern_is_read_by_ecma_262_and_by_python():
    patterns = set(patterns_in(document()))
    assert patterns
    for pattern in patterns:
        ecma.parse(pattern)
        re.compile(pattern)


def test_the_gateway_reads_its_own_document():
    imported = import_openapi("http://gateway/openapi.json", json.dumps(document()), unreachable, EVERYTHING)
    assert not imported.faults
    tools = parse_tools([write_tool(tool, Shape.MCP) for tool in imported.with_source_ids()])
    assert len(tools) == len(imported.tools)


def test_every_route_is_described(app):
    described = {
        (re.sub(r"\{\w+\}", "{}", path), method.upper())
        for path, item in document()["paths"].items()
        for method in item
    }
    served = {
        (re.sub(r"\{[^}]+\}", "{}", path), method) for method, path, _ in handlers(app) if method != "HEAD"
    }
    pages = {"/", "/console", "/console/{}/{}", "/docs", "/openapi.json"}
    assert served - described == {(path, "GET") for path in pages}
    assert described <= served


def test_every_row_is_a_route():
    ids = [operation["operationId"] for item in document()["paths"].values() for operation in item.values()]
    assert len(set(ids)) == len(ids)
    assert {operation_id.partition(":")[0] for operation_id in ids} == OPERATIONS.keys()


def test_a_route_without_a_row_is_named():
    @get("/healthz")
    async def unknown_probe() -> str:
        return "up"

    with pytest.raises(AssertionError, match=r"api_document/operations\.py: add 'unknown_probe'"):
        describe([unknown_probe])


CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": 3},
        {"messages": []},
        {"messages": [{"role": "nobody"}]},
        {"tool_choice": {"type": "function", "name": "f"}},
        {"tools": [{"type": "function", "function": {}}]},
        {"tools": [{"type": "custom", "custom": {"name": "f", "format": {"type": "grammar"}}}]},
        {"response_format": {"type": "json_schema"}},
        {"functions": []},
        {"echo": True},
    ],
    ids=str,
)
def test_requests_that_are_refused_are_not_described(wrong):
    schema = operation_of("post", "/v1/chat/completions")["requestBody"]["content"]["application/json"][
        "schema"
    ]
    refuse("chat", "request", schema, CHAT, is_open=True)
    with pytest.raises(AssertionError, match="is not as described"):
        refuse("chat", "request", schema, CHAT | wrong, is_open=True)


def test_an_answer_with_a_field_too_many_is_told():
    with pytest.raises(AssertionError, match="too_many"):
        refuse("version", "answer", {"$ref": "#/components/schemas/Version"}, {"version": "1", "too_many": 1})
    assert closed({"type": "object", "properties": {}})["additionalProperties"] is False


@pytest.mark.parametrize(
    ("path", "kind", "name"),
    [
        ("/v1/responses", "response.output_item.added", "ResponseOutputItemAdded"),
        ("/v1/messages", "content_block_stop", "ContentBlockStop"),
    ],
)
def test_the_type_of_an_event_tells_its_schema(path, kind, name):
    content = document()["paths"][path]["post"]["responses"]["200"]["content"]
    events, *_ = content["text/event-stream"]["x-item-schema"]["anyOf"]
    assert events["discriminator"]["propertyName"] == "type"
    assert events["discriminator"]["mapping"][kind] == f"#/components/schemas/{name}"


def test_errors_are_those_of_the_route():
    responses = operation_of("put", "/v1/toolsets/a")["responses"]
    assert "`stale_revision`" in responses["412"]["description"]
    assert list(responses["412"]["content"]) == ["application/problem+json"]
    chat = operation_of("post", "/v1/chat/completions")["responses"]
    assert "`max_tokens_too_small`" in chat["400"]["description"]
    assert "422" not in chat


def test_every_route_that_takes_a_body_has_the_errors_of_bodies():
    for path, item in document()["paths"].items():
        for method, operation in item.items():
            assert "requestBody" not in operation or "413" in operation["responses"], (method, path)


def test_every_error_is_one_of_some_route():
    operations = [operation for item in document()["paths"].values() for operation in item.values()]
    described = {
        code
        for operation in operations
        for answer in operation["responses"].values()
        for code in re.findall(r"`(\w+)`", answer["description"])
    }
    codes = {openai_code(code) for status, code in STATUSES.values() if status != CLIENT_CLOSED_REQUEST}
    assert codes - described == set(), "add the error to a row in gateway/api_document/operations.py"


async def test_the_document_and_the_page_need_no_key(client_with):
    async with client_with(api_key="12345678") as client:
        assert (await client.get("/v1/models")).status_code == 401
        assert (await client.get("/openapi.json")).json() == document()
        page = await client.get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    ids = set(re.findall(r'id="([^"]+)"', page.text))
    assert ids == document()["components"]["schemas"].keys()
    assert set(re.findall(r'href="#([^"]+)"', page.text)) <= ids
