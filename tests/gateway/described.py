"""Compares requests and answers with the OpenAPI document, and refuses what it does not describe."""

import json
import re
from functools import cache

import jsonschema_rs
from litestar.testing import AsyncTestClient

from gateway.api_document.document import describe
from gateway.api_document.document_routes import API_ROUTES


@cache
def document():
    return json.loads(json.dumps(describe(API_ROUTES)))


class DescribedClient(AsyncTestClient):
    """A client whose every request and answer must be as the document says."""

    async def send(self, request, *, stream=False, **options):
        response = await super().send(request, stream=stream, **options)
        if not stream:
            check(request, response)
        return response


def check(request, response):
    """Compare an exchange with the document; an answered request must be described, a refused one need not."""
    operation = operation_of(request.method.lower(), request.url.path)
    if operation is None:
        return
    where = f"{request.method} {request.url.path}"
    described = operation["responses"].get(str(response.status_code))
    assert described, f"{where} answers {response.status_code}, of which the document knows nothing"
    if code := code_of(response):
        assert f"`{code}`" in described["description"], (
            f"{where} answers {response.status_code} {code}, of which the document knows nothing:"
            " add the error to its row in gateway/api_document/operations.py"
        )
    media_type = response.headers.get("content-type", "").partition(";")[0]
    contents = described.get("content", {})
    if response.content and media_type != "text/plain":
        assert media_type in contents, f"{where} answers {media_type!r}, of which the document knows nothing"
        check_answer(where, contents[media_type], response)
    body = operation.get("requestBody")
    if response.is_success and body and (request.content.strip() or body["required"]):
        schema = body["content"]["application/json"]["schema"]
        refuse(
            where, "request", schema, json.loads(request.content.removeprefix(b"\xef\xbb\xbf")), is_open=True
        )


def code_of(response):
    """The code of an error; None if there is none."""
    if not response.is_error or "json" not in response.headers.get("content-type", ""):
        return None
    body = response.json()
    if "error" not in body:
        return body["type"].removeprefix("urn:callgate:").replace("-", "_") if "type" in body else None
    code = body["error"].get("data", body["error"])["code"]
    return code if isinstance(code, str) else None  # one of JSON-RPC's own is a number


def check_answer(where, content, response):
    if "x-item-schema" not in content:
        refuse(where, "answer", content["schema"], response.json())
        return
    for line in response.text.splitlines():
        if line.startswith("data: ") and line != "data: [DONE]":
            event = json.loads(line.removeprefix("data: "))
            refuse(where, "event", content["x-item-schema"], event)


def operation_of(method, path):
    """The operation of a path; None if there is none, as for the page itself."""
    for template, item in document()["paths"].items():
        pattern = re.sub(r"\{(model_id|tool)\}", "(.+)", template)
        pattern = re.sub(r"\{(\w+)\}", "([^/]+)", pattern)
        if method in item and re.fullmatch(pattern, path):
            return item[method]
    return None


def refuse(where, part, schema, value, *, is_open=False):
    """Fail if a value is not as the schema says, with the first reason."""
    error = next(validator(json.dumps(schema), is_open).iter_errors(value), None)
    assert error is None, (
        f"{where}: the {part} is not as described, at {error.instance_path}: {error.message}"
    )


@cache
def validator(schema, is_open):
    """A validator of a schema; unless it `is_open`, without fields that are not described."""
    components = document()["components"]
    whole = {**json.loads(schema), "components": components if is_open else closed(components)}
    return jsonschema_rs.Draft202012Validator(whole)


def closed(schema):
    """A schema whose objects have only the properties that it names."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: closed(part) for key, part in schema.items()}
    is_object = parts.get("type") == "object" and isinstance(parts.get("properties"), dict)
    return {"additionalProperties": False, **parts} if is_object else parts
