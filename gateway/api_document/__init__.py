"""The HTTP API, described: an OpenAPI document of every route, and a page that shows it.

The document is made of what the routes themselves use. Paths and parameters are those that Litestar finds in
the handlers, request bodies are the structs and the tables of fields that the wire formats read with, and
errors are those of the table of statuses. Only the answers are described apart (`gateway.wire.answers`),
because writers make plain dictionaries. The tests compare every request that was answered, and every answer,
with the document.

    document = describe(routes)              # {"openapi": "3.1.0", "paths": …}
    page = write_page(document)              # HTML without a script, and without anything from elsewhere
"""

from gateway.api_document.document import describe
from gateway.api_document.page import PAGE_HEADERS, write_page

__all__ = ["PAGE_HEADERS", "describe", "write_page"]
