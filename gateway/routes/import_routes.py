"""The routes of imports: import tools from a source, list what differs there, accept or decline it."""

import asyncio
import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any

import msgspec
from litestar import Controller, Response, get, post
from litestar.params import FromPath, FromQuery
from msgspec import Meta

from gateway.errors import InvalidField
from gateway.http.conversion import convert
from gateway.http.error_shapes import REGISTRY
from gateway.http.json_body import position_after
from gateway.http.leaving_clients import unless_gone
from gateway.http.plain_reasons import (
    HEADER_NAME_PATTERN,
    HEADER_VALUE_PATTERN,
    SOURCE_KIND_PATTERN,
    SOURCE_URL_PATTERN,
)
from gateway.routes.request_context import RequestContext, WiredContext, check_query
from gateway.routes.toolset_json import (
    DIFFERENCE_BYTES,
    differences_json,
    import_json,
    registration_json,
    summary_json,
)
from gateway.routes.toolset_routes import RevisionNumber, change_precondition, tagged
from gateway.sources.outbound import OWN_HEADERS
from gateway.sources.source_process import SourceOrder
from gateway.toolsets.tool_imports import Offer
from toolspecs.imports.documents import LIMITS
from toolspecs.imports.openapi import OperationFilter
from toolspecs.json_pointer import shown_pointer
from toolspecs.json_value import find_flaw
from toolspecs.nearest import shorten
from toolspecs.revisions.preconditions import Precondition

SourceURL = Annotated[str, Meta(pattern=SOURCE_URL_PATTERN, max_length=2000)]
HeaderName = Annotated[str, Meta(pattern=HEADER_NAME_PATTERN)]
HeaderValue = Annotated[str, Meta(pattern=HEADER_VALUE_PATTERN, max_length=8000)]
SourceHeaders = Annotated[dict[HeaderName, HeaderValue], Meta(max_length=50)]
Patterns = Annotated[tuple[Annotated[str, Meta(max_length=500)], ...], Meta(max_length=100)]
_WITH_PASSWORD = re.compile(r"https?://[^/?#]*@", re.IGNORECASE)
_MAX_PLACE = 1_000
"""Characters of a place in a document that an error names."""
Location = Annotated[str, Meta(min_length=1, max_length=2000)]


class OperationSelection(msgspec.Struct, forbid_unknown_fields=True):
    """Which operations of a document to import: one pattern of each kind must match, if the kind has any."""

    tags: Patterns = ()
    paths: Patterns = ()
    operations: Patterns = ()

    @property
    def filter(self) -> OperationFilter:
        """Which operations these are."""
        return OperationFilter(self.tags, self.paths, self.operations)

    def check(self, field: str) -> None:
        """Raise InvalidField, with the name of this source's field, if it cannot be kept and shown."""
        _check_visible(field, (*self.tags, *self.paths, *self.operations))


class McpServer(msgspec.Struct, forbid_unknown_fields=True):
    """An MCP server, over streamable HTTP; `headers` are sent with every request and are not kept."""

    url: SourceURL
    headers: SourceHeaders = {}

    def check(self, field: str) -> None:
        """Raise InvalidField if its headers cannot be sent."""
        _check_headers(field, self.headers)

    def order(self) -> SourceOrder:
        """What is read of it."""
        return SourceOrder(kind="mcp", url=self.url, headers=self.headers)


class OpenApiDocument(OperationSelection):
    """An OpenAPI document: its URL, or the document itself, as a JSON object or as JSON or YAML text."""

    url: SourceURL | None = None
    headers: SourceHeaders = {}
    document: str | dict[str, Any] | None = None

    def check(self, field: str) -> None:
        """Raise InvalidField unless there is one document, whose headers and selection can be kept."""
        if (self.url is None) == (self.document is None):
            raise InvalidField(field, 'give it either "url" or "document"')
        _check_headers(field, self.headers)
        super().check(field)

    def order(self) -> SourceOrder:
        """What is read of it. This takes long for a large document; raises InvalidField if it is not JSON."""
        return SourceOrder(
            kind="openapi",
            url=self.url,
            document=_text(self.document),
            headers=self.headers,
            tags=self.tags,
            paths=self.paths,
            operations=self.operations,
        )


class ToolListing(OperationSelection, kw_only=True):
    """Tools that the client itself has read from a source, in any shape.

    `kind` and `location` identify the source; `location` is its URL or its name. `unread` names tools that
    the source has but that the client could not read.
    """

    kind: Annotated[str, Meta(pattern=SOURCE_KIND_PATTERN)]
    location: Location
    tools: list[Any]
    unread: list[str] = []

    def check(self, field: str) -> None:
        """Raise InvalidField if its location or selection cannot be kept and shown."""
        if _WITH_PASSWORD.match(self.location):
            reason = "a URL is kept and shown; leave its user and password out, and send a header"
            raise InvalidField(f"{field}.location", reason)
        _check_visible(field, (self.location,))
        super().check(field)


class ImportBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of an import: one source.

    With `skip_refused`, tools that cannot be read or enforced are left out; otherwise one such tool fails the
    import. With `dry_run`, nothing is stored.
    """

    mcp: McpServer | None = None
    openapi: OpenApiDocument | None = None
    listing: ToolListing | None = None
    skip_refused: bool = False
    dry_run: bool = False

    def source(self) -> McpServer | OpenApiDocument | ToolListing:
        """The source; raises InvalidField unless one is named, in a way that can be kept."""
        sources = {"mcp": self.mcp, "openapi": self.openapi, "listing": self.listing}
        named = [(name, source) for name, source in sources.items() if source is not None]
        if len(named) != 1:
            names = " and ".join(name for name, _ in named)
            reason = f"{names} are sources" if named else "there is no source"
            raise InvalidField("", f"{reason}; name one: mcp, openapi or listing")
        [(name, source)] = named
        source.check(name)
        return source


class DecisionBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which differing tools to accept or decline: the named ones or all, of `source` or of every source."""

    tools: Annotated[list[str], Meta(min_length=1, max_length=10_000)] | None = None
    source: str | None = None


class ImportController(Controller):
    """The routes of `/v1/toolsets/{toolset}` that are about sources of tools."""

    path = REGISTRY
    before_request = check_query  # type: ignore[assignment] # Litestar calls it without self

    @post("/{toolset:str}/import", status_code=200)
    async def import_tools(self, toolset: FromPath[str], context: WiredContext) -> Response[Any]:
        """Create a toolset from the tools of a source (201), or record what differs at the source (200)."""
        precondition = change_precondition(context.request)
        await context.services.registry.catalog.check_precondition(toolset, precondition)
        body = convert(await context.read_registry_body(), ImportBody)
        offer = await unless_gone(context.request, _read_source(context, body))
        async with context.registry_turn():
            outcome = await context.services.imports.import_offer(
                toolset,
                offer,
                principal=context.principal,
                precondition=precondition,
                skip_refused=body.skip_refused,
                is_dry_run=body.dry_run,
            )
        return await context.json_answer(
            partial(import_json, outcome),
            num_bytes=DIFFERENCE_BYTES * len(outcome.differences),
            etag=outcome.revision.etag if outcome.revision else None,
            status=201 if outcome.is_created else 200,
        )

    @get("/{toolset:str}/differences")
    async def list_differences(
        self,
        toolset: FromPath[str],
        context: WiredContext,
        *,
        revision: RevisionNumber = None,
        source: FromQuery[str | None] = None,
    ) -> Response[Any]:
        """The differences between the served tools and their sources, as of each source's last import.

        With `source`, only of that source. Very large differences are returned for one source at a time only.
        """
        async with context.registry_turn():
            resolved, differences = await context.services.imports.differences(
                toolset, revision, source, principal=context.principal
            )
        make = partial(differences_json, resolved, differences)
        size = resolved.toolset.num_bytes * len(resolved.toolset.sources)  # each may repeat all tools
        return await context.json_answer(make, num_bytes=size, etag=resolved.etag)

    @post("/{toolset:str}/accept", status_code=200)
    async def accept_tools(self, toolset: FromPath[str], context: WiredContext) -> Response[Any]:
        """Serve tools as their sources offer them.

        With `If-Match`, the offers accepted are those that the revision with that ETag showed.
        """
        precondition, body = await _read_decision(toolset, context)
        async with context.registry_turn():
            registration = await context.services.imports.accept(
                toolset, body.tools, body.source, principal=context.principal, precondition=precondition
            )
        return tagged(registration.revision, registration_json(registration))

    @post("/{toolset:str}/decline", status_code=200)
    async def decline_tools(self, toolset: FromPath[str], context: WiredContext) -> Response[Any]:
        """Decline differences: they are not reported again until the source changes these tools again.

        With `If-Match`, the offers declined are those that the revision with that ETag showed.
        """
        precondition, body = await _read_decision(toolset, context)
        async with context.registry_turn():
            revision = await context.services.imports.decline(
                toolset, body.tools, body.source, principal=context.principal, precondition=precondition
            )
        return tagged(revision, summary_json(revision.summary))


async def _read_decision(toolset: str, context: RequestContext) -> tuple[Precondition, DecisionBody]:
    precondition = change_precondition(context.request)
    await context.services.registry.catalog.check_precondition(toolset, precondition, must_exist=True)
    submitted = await context.read_registry_body(is_optional=True)
    return precondition, convert(submitted, DecisionBody)


def _check_headers(field: str, headers: Mapping[str, str]) -> None:
    for header in headers:
        if header.lower() in OWN_HEADERS:
            raise InvalidField(f"{field}.headers", f"the gateway sets {header} itself; leave it out")


def _check_visible(field: str, texts: Iterable[str]) -> None:
    for text in texts:
        if not text.isprintable():
            raise InvalidField(field, f"{text!r} has invisible characters; leave them out")


async def _read_source(context: RequestContext, body: ImportBody) -> Offer:
    """The tools that the source in the body has now.

    Raises:
        InvalidField: the body names no source, or not one that can be read and kept.
        GatewayError, ToolspecsError: as `SourceProcesses.read`.
    """
    source = body.source()
    if isinstance(source, ToolListing):
        listing, selection = source, source.filter.by_kind
        return Offer(
            listing.kind, listing.location, listing.tools, unread=listing.unread, selection=selection
        )
    # In a thread: a document may have 16 MB, and what is wrong with it is looked for value by value.
    order = await asyncio.to_thread(source.order)
    imported = await context.services.sources.read(order, context.principal.client_id)
    selection = order.selection.by_kind
    return Offer(
        imported.kind, imported.location, imported.tools, imported.found_faults(), selection=selection
    )


def _text(document: str | dict[str, Any] | None) -> str | None:
    """A document as text.

    Raises:
        InvalidField: it holds half a surrogate pair, or as an object anything else that JSON does not have. A
            registry's body is read nevertheless (see `read_json`).
    """
    if isinstance(document, dict):
        if flaw := find_flaw(document, LIMITS, is_document=True):
            place = shorten(shown_pointer("", flaw.path) or "/", _MAX_PLACE)
            raise InvalidField("openapi.document", f"at {place}: {flaw.message}")
        return msgspec.json.encode(document).decode()
    if document is not None:
        try:
            document.encode()
        except UnicodeEncodeError as error:
            line, column = position_after(document[: error.start])
            reason = f"at line {line}, column {column}: half a surrogate pair is not Unicode text"
            raise InvalidField("openapi.document", reason) from error
    return document
