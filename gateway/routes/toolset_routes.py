"""The routes of the registry: toolsets, their tools, revisions, reports and checks."""

from functools import partial
from typing import Annotated, Any

import msgspec
from litestar import Controller, Response, delete, get, post, put
from litestar.params import FromPath, FromQuery, QueryParameter

from gateway.errors import InvalidField
from gateway.http.conversion import convert
from gateway.http.error_shapes import REGISTRY
from gateway.http.headers import HttpRequest
from gateway.routes.request_context import PageSize, RequestContext, WiredContext, check_query
from gateway.routes.toolset_json import (
    LISTED_TOOL_BYTES,
    dry_run_json,
    listed_tool_json,
    registration_json,
    reports_json,
    reports_size,
    revision_changes_json,
    revision_json,
    summary_json,
    tool_json,
)
from gateway.services import WiredServices
from gateway.wire.turn_fields import SearchLimit, ToolNames
from toolspecs.json_value import JSON
from toolspecs.nearest import MAX_NAME, shorten
from toolspecs.revisions.preconditions import Precondition
from toolspecs.revisions.submission import UncheckedToolset
from toolspecs.shapes import Shape
from toolspecs.tool import ShownTools, ToolSearch
from toolspecs.toolset import Revision, Toolset, etag_matches

RevisionNumber = Annotated[int | None, QueryParameter(ge=1)]
SearchText = Annotated[str, QueryParameter(max_length=200)]


class ToolsetSearch(msgspec.Struct, forbid_unknown_fields=True):
    """How many tools of a toolset prompts show, and which of them always."""

    limit: SearchLimit = 20
    always: ToolNames = []


class ToolsetBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `PUT` and `check`; `name` may repeat the path's name, `documents` are schemas by URI.

    `prompt_tools` says which of the tools prompts show, and `tool_search` how many, unless a request does.
    """

    tools: Any
    documents: Any = None
    name: str | None = None
    prompt_tools: ShownTools | None = None
    tool_search: ToolsetSearch | None = None


class ToolsetController(Controller):
    """`/v1/toolsets`."""

    path = REGISTRY
    before_request = check_query  # type: ignore[assignment] # Litestar calls it without self

    @get()
    async def list_toolsets(
        self,
        services: WiredServices,
        after: FromQuery[str | None] = None,
        limit: PageSize = 100,
        search: SearchText = "",
    ) -> JSON:
        """One page of the toolsets, sorted by name; with `search`, those with this text in their names."""
        page = await services.registry.catalog.list(after=after, limit=limit, search=search)
        return {"toolsets": [summary_json(summary) for summary in page.items], "next": page.next_key}

    @get("/{toolset:str}")
    async def get_toolset(
        self,
        toolset: FromPath[str],
        context: WiredContext,
        shape: FromQuery[Shape] = Shape.OPENAI,
    ) -> Response[Any]:
        """The current revision; 304 if `If-None-Match` names it."""
        revision = await context.services.registry.catalog.get(toolset)
        known = context.request.headers.get("if-none-match")
        if known is not None and etag_matches(known, revision.etag, allows_weak=True):
            return Response(None, status_code=304, headers={"ETag": revision.etag})
        return await _revision_answer(context, revision, shape)

    @put("/{toolset:str}")
    async def put_toolset(self, toolset: FromPath[str], context: WiredContext) -> Response[Any]:
        """Replace the toolset (200) or create it (201), unless a tool cannot be enforced."""
        precondition = _put_precondition(context.request)
        await context.services.registry.catalog.check_precondition(toolset, precondition)
        unchecked = await _read_toolset(context, toolset)
        async with context.registry_turn():
            registration = await context.services.registry.put(
                unchecked, principal=context.principal, precondition=precondition
            )
        return tagged(
            registration.revision, registration_json(registration), 201 if registration.is_created else 200
        )

    @delete("/{toolset:str}")
    async def delete_toolset(self, toolset: FromPath[str], context: WiredContext) -> None:
        """Delete the toolset; its revisions stay and can be restored."""
        await context.services.registry.catalog.delete(toolset, change_precondition(context.request))

    @get("/{toolset:str}/tools")
    async def list_tools(
        self,
        toolset: FromPath[str],
        context: WiredContext,
        *,
        revision: RevisionNumber = None,
        after: FromQuery[str | None] = None,
        limit: PageSize = 100,
        search: SearchText = "",
    ) -> Response[Any]:
        """One page of the tools, in their order, with names and the beginnings of descriptions.

        `num_differing` tools differ at their sources and were not declined; null if no tools were imported.
        With `search`, only tools whose names or descriptions contain all its words.
        """
        resolved = await context.services.registry.catalog.get(toolset, revision)
        toolset_bytes = resolved.toolset.num_bytes

        def make() -> JSON:
            page = resolved.toolset.page(after=after, limit=limit, search=search)
            return summary_json(resolved.summary) | {
                "tools": [listed_tool_json(tool) for tool in page.items],
                "next": page.next_key,
                "num_differing": _num_differing(resolved.toolset),
            }

        # To search is to read all descriptions, and to count what differs is to read what all sources offer.
        reads_all = search or resolved.toolset.sources
        size = toolset_bytes if reads_all else min(toolset_bytes, limit * LISTED_TOOL_BYTES)
        return await context.json_answer(make, num_bytes=size)

    @get("/{toolset:str}/tools/{tool:path}")
    async def get_tool(
        self,
        toolset: FromPath[str],
        tool: FromPath[str],
        context: WiredContext,
        *,
        shape: FromQuery[Shape] = Shape.OPENAI,
        revision: RevisionNumber = None,
    ) -> Response[Any]:
        """One tool of the current revision, or of the one of that number."""
        resolved = await context.services.registry.catalog.get(toolset, revision)
        found = resolved.toolset[_name(tool)]
        make, size = partial(tool_json, found, shape), found.num_bytes
        return await context.json_answer(make, num_bytes=size, etag=resolved.etag)

    @put("/{toolset:str}/tools/{tool:path}")
    async def put_tool(
        self, toolset: FromPath[str], tool: FromPath[str], context: WiredContext
    ) -> Response[Any]:
        """Add a tool or replace the tool of that name, unless it cannot be enforced.

        With `If-None-Match: *` it only adds.
        """
        precondition = _put_precondition(context.request)
        match = Precondition(precondition.if_match)  # If-None-Match is about the tool
        await context.services.registry.catalog.check_precondition(toolset, match, must_exist=True)
        submitted = await context.read_registry_body()
        async with context.registry_turn():
            registration = await context.services.registry.put_tool(
                toolset, _name(tool), submitted, principal=context.principal, precondition=precondition
            )
        return tagged(registration.revision, registration_json(registration))

    @delete("/{toolset:str}/tools/{tool:path}", status_code=200)
    async def delete_tool(
        self, toolset: FromPath[str], tool: FromPath[str], context: WiredContext
    ) -> Response[Any]:
        """Remove a tool."""
        async with context.registry_turn():
            revision = await context.services.registry.catalog.delete_tool(
                toolset, _name(tool), change_precondition(context.request), owner=context.principal.owner
            )
        return tagged(revision, summary_json(revision.summary))

    @get("/{toolset:str}/revisions")
    async def list_revisions(
        self,
        toolset: FromPath[str],
        services: WiredServices,
        before: RevisionNumber = None,
        limit: PageSize = 100,
    ) -> JSON:
        """One page of the revisions, the newest first; also those of a deleted toolset.

        Revisions before `dropped_before` were dropped as too old, except those that requests still name.
        """
        catalog = services.registry.catalog
        page = await catalog.revisions(toolset, before=before, limit=limit)
        first = await catalog.first_kept(toolset)
        return {
            "revisions": [summary_json(summary) for summary in page.items],
            "next": page.next_key,
            "dropped_before": first if first > 1 else None,
            "deleted": await catalog.is_deleted(toolset),
        }

    @get("/{toolset:str}/revisions/{number:int}")
    async def get_revision(
        self,
        toolset: FromPath[str],
        number: FromPath[int],
        context: WiredContext,
        *,
        shape: FromQuery[Shape] = Shape.OPENAI,
    ) -> Response[Any]:
        """One revision."""
        revision = await context.services.registry.catalog.get(toolset, number)
        return await _revision_answer(context, revision, shape)

    @get("/{toolset:str}/revisions/{number:int}/changes")
    async def changes(
        self,
        toolset: FromPath[str],
        number: FromPath[int],
        context: WiredContext,
        *,
        since: RevisionNumber = None,
    ) -> JSON:
        """What changed in a revision since an earlier one, by default the one before it.

        Equal tools and documents are left out. If there is no earlier revision, all count as added.
        """
        async with context.registry_turn():
            revision_changes = await context.services.registry.compare_revisions(
                toolset, number, since, principal=context.principal
            )
        return revision_changes_json(revision_changes)

    @post("/{toolset:str}/revisions/{number:int}/restore", status_code=200)
    async def restore(
        self, toolset: FromPath[str], number: FromPath[int], context: WiredContext
    ) -> Response[Any]:
        """Make an earlier revision's content current again, as a new revision."""
        precondition = change_precondition(context.request)
        if await context.read_body(is_optional=True) != {}:
            raise InvalidField("", "the body of this route has no fields: its path names the revision")
        async with context.registry_turn():
            revision = await context.services.registry.catalog.restore(
                toolset, number, precondition, owner=context.principal.owner
            )
        return tagged(revision, summary_json(revision.summary))

    @get("/{toolset:str}/report")
    async def report(
        self,
        toolset: FromPath[str],
        context: WiredContext,
        *,
        revision: RevisionNumber = None,
        tool: FromQuery[str | None] = None,
    ) -> Response[Any]:
        """How every keyword of every tool is enforced, and the size and compile time of its grammar.

        With `tool`, only of that tool. If there are very many tools, the last ones have no entries.
        """
        resolved, reports = await context.services.registry.report(
            toolset, revision, tool, principal=context.principal
        )
        unguarded = [
            model.model_id for model in await context.services.runtime.models() if not model.applies_guards
        ]

        def make() -> JSON:
            tools = reports_json(reports)
            return summary_json(resolved.summary) | {"tools": tools, "unguarded_models": unguarded}

        size = reports_size(reports)
        return await context.json_answer(make, num_bytes=size)

    @post("/{toolset:str}/check", status_code=200)
    async def check(self, toolset: FromPath[str], context: WiredContext) -> Response[Any]:
        """What `PUT` would do, without storing anything."""
        unchecked = await _read_toolset(context, toolset)
        async with context.registry_turn():
            dry_run = await context.services.registry.check(unchecked, principal=context.principal)
        make, size = partial(dry_run_json, dry_run), reports_size(dry_run.reports)
        return await context.json_answer(make, num_bytes=size)


async def _revision_answer(context: RequestContext, revision: Revision, shape: Shape) -> Response[Any]:
    make, size = partial(revision_json, revision, shape), revision.toolset.num_bytes
    return await context.json_answer(make, num_bytes=size, etag=revision.etag)


async def _read_toolset(context: RequestContext, name: str) -> UncheckedToolset:
    submitted = await context.read_registry_body()
    if not isinstance(submitted, dict) or "tools" not in submitted:
        raise InvalidField("tools", 'it is missing; a toolset is {"tools": […], "documents": {…}}')
    body = convert(submitted, ToolsetBody)
    if body.name is not None and body.name != name:
        shown = shorten(body.name, MAX_NAME)
        raise InvalidField("name", f"it is {shown!r}, but the path says {name!r}")
    fields = body.tool_search
    search = ToolSearch(fields.limit, tuple(dict.fromkeys(fields.always))) if fields else None
    return UncheckedToolset(name, body.tools, body.documents, body.prompt_tools, search)


def _num_differing(toolset: Toolset) -> int | None:
    return sum(len(source.differing) for source in toolset.sources) if toolset.sources else None


def tagged(revision: Revision, content: JSON, status: int = 200) -> Response[Any]:
    """An answer about a revision, with its ETag."""
    return Response(content, status_code=status, headers={"ETag": revision.etag})


def _name(path: str) -> str:
    return path.removeprefix("/")


def _put_precondition(request: HttpRequest) -> Precondition:
    if_none_match = request.headers.get("if-none-match")
    if if_none_match not in {None, "*"}:
        raise InvalidField("If-None-Match", "a PUT takes only `*`, which means: create, but do not replace")
    return Precondition(request.headers.get("if-match"), if_none_match is not None)


def change_precondition(request: HttpRequest) -> Precondition:
    """The precondition of a request that changes what exists; raises InvalidField for If-None-Match."""
    if "if-none-match" in request.headers:
        raise InvalidField("If-None-Match", "only GET and PUT take it; for this request send If-Match")
    return Precondition(request.headers.get("if-match"))
