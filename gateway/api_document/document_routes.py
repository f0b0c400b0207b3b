"""The routes of the API's description: the OpenAPI document, and a page that shows it."""

import json
from functools import lru_cache

from litestar import Response, get

from gateway.api_document.document import describe
from gateway.api_document.page import PAGE_HEADERS, write_page
from gateway.routes.generation_routes import GENERATION_ROUTES
from gateway.routes.health_routes import HEALTH_ROUTES
from gateway.routes.import_routes import ImportController
from gateway.routes.key_routes import KeyController
from gateway.routes.mcp_routes import MCP_ROUTES
from gateway.routes.model_routes import MODEL_ROUTES
from gateway.routes.operations_routes import OPERATIONS_ROUTES
from gateway.routes.toolset_routes import ToolsetController

API_ROUTES = (
    *GENERATION_ROUTES,
    *MODEL_ROUTES,
    *HEALTH_ROUTES,
    ToolsetController,
    *MCP_ROUTES,
    ImportController,
    *OPERATIONS_ROUTES,
    KeyController,
)
"""The routes that the document describes; beside them are only pages."""


@lru_cache(maxsize=1)
def _document() -> bytes:
    return json.dumps(describe(API_ROUTES), ensure_ascii=False).encode()


@lru_cache(maxsize=1)
def _page() -> bytes:
    return write_page(json.loads(_document())).encode()


@get("/openapi.json", sync_to_thread=True)
def openapi_document() -> Response[bytes]:
    """The OpenAPI document of all routes."""
    return Response(_document(), media_type="application/json")


@get("/docs", sync_to_thread=True)
def docs_page() -> Response[bytes]:
    """The OpenAPI document as a web page."""
    return Response(_page(), media_type="text/html", headers=dict(PAGE_HEADERS))


DOCUMENT_ROUTES = (openapi_document, docs_page)
