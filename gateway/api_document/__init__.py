"""Describes the HTTP API: an OpenAPI document of every route, and a page that shows it.

The document is derived from what the routes themselves use: paths and parameters from Litestar's handlers,
request bodies from the structs and field tables that the wire formats read with, and errors from the table of
statuses. Only the answers are described separately (`gateway.wire.answers`), because writers make plain
dictionaries. The tests compare every answered request, and every answer, with the document.

    document = describe(routes)              # {"openapi": "3.1.0", "paths": …}
    page = write_page(document)              # HTML without a script, and without anything from elsewhere
"""

from gateway.api_document.document import describe
from gateway.api_document.page import PAGE_HEADERS, write_page

__all__ = ["PAGE_HEADERS", "describe", "write_page"]
