"""OpenAPI documents of a shop, and the tools that are made of them."""

import json

from compiler import compile_schema
from toolspecs.imports.openapi import OperationFilter, import_openapi, unreachable

URI = "file:///api/shop.json"


def document(paths, version="3.1.0", **components):
    return {"openapi": version, "info": {"title": "Shop"}, "paths": paths, "components": components}


def read(paths, version="3.1.0", *, files=None, selection=None, **components):
    text = json.dumps(document(paths, version, **components))
    retrieve = (lambda uri: files[uri]) if files else unreachable
    return import_openapi(URI, text, retrieve, selection or OperationFilter())


def operation(parameters=(), body=None, **fields):
    content = {"requestBody": {"content": {"application/json": {"schema": body}}}} if body else {}
    return {"parameters": list(parameters), **content, **fields}


def only(imported):
    assert not imported.faults
    [tool] = imported.tools
    return tool


def body_tool(schema, version="3.1.0", **schemas):
    return only(read({"/a": {"post": operation(body=schema)}}, version, schemas=schemas))


def admits(tool, arguments):
    return compile_schema(tool.parameters).accepts(json.dumps(arguments))
