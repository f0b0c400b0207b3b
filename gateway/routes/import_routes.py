"""The routes of imports: tools from their sources, what differs there, and accepting it."""

import re
from typing import Annotated, Any

import msgspec
from litestar import Controller, Response, get, post
from litestar.params import FromPath, FromQuery
from msgspec import Meta

from gateway.body import convert
from gateway.errors import InvalidField
from gateway.headers import HttpRequest
from gateway.principal import Principal, RequestPrincipal
from gateway.problems import REGISTRY
from gateway.routes.toolset_json import differences_json, import_json, registration_json, summary_json
from gateway.routes.toolset_routes import RevisionNumber, if_match_of, refuse_if_none_match, tagged
from gateway.routes.transport import check_query, read_registry_body, unless_gone
from gateway.services import Services, WiredServices
from gateway.sources.outbound import OWN_HEADERS
from gateway.sources.source_process import SourceOrder
from gateway.tool_imports import Offer
from toolspecs.pinned_source import selection_of

SourceURL = Annotated[str, Meta(pattern=r"^https?://(?![^/?#]*@)[!-~]+(?!\n)$", max_length=2000)]
HeaderName = Annotated[str, Meta(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}(?!\n)$")]
HeaderValue = Annotated[str, Meta(pattern=r"^[ -~]*(?!\n)$", max_length=8000)]
SourceHeaders = Annotated[dict[HeaderName, HeaderValue], Meta(max_length=50)]
Patterns = Annotated[tuple[Annotated[str, Meta(max_length=500)], ...], Meta(max_length=100)]
_WITH_PASSWORD = re.compile(r"https?://[^/?#]*@")
Location = Annotated[str, Meta(min_length=1, max_length=2000)]


class OperationSelection(msgspec.Struct, forbid_unknown_fields=True):
    """Which operations of a document are imported; one of each kind must match, an empty kind admits all."""

    tags: Patterns = ()
    paths: Patterns = ()
    operations: Patterns = ()


class McpServer(msgspec.Struct, forbid_unknown_fields=True):
    """An MCP server, over streamable HTTP; `headers` are sent with every request and are not kept."""

    url: SourceURL
    headers: SourceHeaders = {}


class OpenApiDocument(OperationSelection):
    """An OpenAPI document: by its URL, or as it is, in JSON or as a text in JSON or YAML."""

    url: SourceURL | None = None
    headers: SourceHeaders = {}
    document: str | dict[str, Any] | None = None


class ToolListing(OperationSelection, kw_only=True):
    """Tools that the client itself has read from a source, in any shape.

    `kind` and `location` tell the source from others: its URL, or what it is called. `unread` are tools that
    the source has, and that the client could not read.
    """

    kind: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,31}(?!\n)$")]
    location: Location
    tools: list[Any]
    unread: list[str] = []


class ImportBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of an import: one source.

    With `skip_refused`, tools that cannot be read or enforced are left out; else nothing is imported then.
    With `dry_run`, nothing is stored.
    """

    mcp: McpServer | None = None
    openapi: OpenApiDocument | None = None
    listing: ToolListing | None = None
    skip_refused: bool = False
    dry_run: bool = False

    def check(self) -> None:
        """Raise InvalidField unless one source is named, in a way that can be kept."""
        named = [name for name in ("mcp", "openapi", "listing") if getattr(self, name) is not None]
        if len(named) != 1:
            reason = f"{' and '.join(named)} are sources" if named else "there is no source"
            raise InvalidField("", f"{reason}; name one: mcp, openapi or listing")
        if self.openapi and (self.openapi.url is None) == (self.openapi.document is None):
            raise InvalidField("openapi", 'give it either "url" or "document"')
        for name in ("mcp", "openapi"):
            source = getattr(self, name)
            for header in source.headers if source else ():
                if header.lower() in OWN_HEADERS:
                    raise InvalidField(
                        f"{name}.headers", f"the request itself decides {header}; leave it out"
                    )
        if self.listing and _WITH_PASSWORD.match(self.listing.location):
            reason = "a URL is kept and shown; leave its user and password out, and send a header"
            raise InvalidField("listing.location", reason)
        selection = self.listing or self.openapi or OperationSelection()
        location = self.listing.location if self.listing else ""
        for text in (location, *selection.tags, *selection.paths, *selection.operations):
            if not text.isprintable():
                raise InvalidField(named[0], f"{text!r} has characters that cannot be seen")


class DecisionBody(msgspec.Struct, forbid_unknown_fields=True):
    """Tools that differ at their sources: by name, or all, of `source` or of every one."""

    tools: Annotated[list[str], Meta(min_length=1, max_length=10_000)] | None = None
    source: str | None = None


class ImportController(Controller):
    """`/v1/toolsets/{toolset}`, as far as tools of sources go."""

    path = REGISTRY
    before_request = check_query  # type: ignore[assignment] # Litestar calls it without self

    @post("/{toolset:str}/import", status_code=200)
    async def import_tools(
        self,
        toolset: FromPath[str],
        request: HttpRequest,
        services: WiredServices,
        principal: RequestPrincipal,
    ) -> Response[Any]:
        """Create a toolset of the tools of a source (201), or note what differs at the source (200)."""
        refuse_if_none_match(request)
        body = convert(await read_registry_body(request, services, principal.share), ImportBody)
        body.check()
        offer = await unless_gone(request, _read(body, services, principal))
        outcome = await services.imports.take(
            toolset,
            offer,
            skip_refused=body.skip_refused,
            is_dry_run=body.dry_run,
            if_match=if_match_of(request),
            share=principal.share,
            owner=principal.owner,
        )
        headers = {"ETag": outcome.revision.etag} if outcome.revision else {}
        return Response(import_json(outcome), status_code=201 if outcome.is_created else 200, headers=headers)

    @get("/{toolset:str}/differences")
    async def list_differences(
        self,
        toolset: FromPath[str],
        services: WiredServices,
        principal: RequestPrincipal,
        revision: RevisionNumber = None,
        source: FromQuery[str | None] = None,
    ) -> Response[Any]:
        """What differed at the sources from what is served, when they were imported last.

        With `source`, only at that one. Very large differences are told of one source at a time.
        """
        found, differences = await services.imports.differences(
            toolset, revision, source, share=principal.share
        )
        return tagged(found, differences_json(found, differences))

    @post("/{toolset:str}/accept", status_code=200)
    async def accept_tools(
        self,
        toolset: FromPath[str],
        request: HttpRequest,
        services: WiredServices,
        principal: RequestPrincipal,
    ) -> Response[Any]:
        """Serve tools as their sources offer them.

        With `If-Match`, what is accepted is what the revision of that ETag showed.
        """
        refuse_if_none_match(request)
        body = convert(await read_registry_body(request, services, principal.share), DecisionBody)
        registration = await services.imports.accept(
            toolset,
            body.tools,
            body.source,
            if_match=if_match_of(request),
            share=principal.share,
            owner=principal.owner,
        )
        return tagged(registration.revision, registration_json(registration))

    @post("/{toolset:str}/decline", status_code=200)
    async def decline_tools(
        self,
        toolset: FromPath[str],
        request: HttpRequest,
        services: WiredServices,
        principal: RequestPrincipal,
    ) -> Response[Any]:
        """Leave differences aside until the source changes these tools again.

        With `If-Match`, what is declined is what the revision of that ETag showed.
        """
        refuse_if_none_match(request)
        body = convert(await read_registry_body(request, services, principal.share), DecisionBody)
        revision = await services.imports.decline(
            toolset, body.tools, body.source, if_match=if_match_of(request), owner=principal.owner
        )
        return tagged(revision, summary_json(revision.summary))


async def _read(body: ImportBody, services: Services, principal: Principal) -> Offer:
    """What the source of a body has now. Raises as `SourceProcesses.read`."""
    if body.listing:
        selection = selection_of(body.listing.tags, body.listing.paths, body.listing.operations)
        listing = body.listing
        return Offer(
            listing.kind, listing.location, listing.tools, unread=listing.unread, selection=selection
        )
    if body.mcp:
        order = SourceOrder(kind="mcp", url=body.mcp.url, headers=body.mcp.headers)
    else:
        assert body.openapi
        order = SourceOrder(
            kind="openapi",
            url=body.openapi.url,
            document=_text(body.openapi.document),
            headers=body.openapi.headers,
            tags=body.openapi.tags,
            paths=body.openapi.paths,
            operations=body.openapi.operations,
        )
    found = await services.sources.read(order, principal.share)
    selection = selection_of(order.tags, order.paths, order.operations)
    return Offer(found.kind, found.location, found.tools, found.found_faults(), selection=selection)


def _text(document: str | dict[str, Any] | None) -> str | None:
    return msgspec.json.encode(document).decode() if isinstance(document, dict) else document
