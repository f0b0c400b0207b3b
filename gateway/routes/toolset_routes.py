"""The routes of the registry: toolsets, their tools, revisions, reports and checks, and their JSON."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec
from litestar import Controller, Request, Response, delete, get, post, put
from litestar.params import FromPath, FromQuery, QueryParameter

from compiler.report import ToolReport
from gateway.body import convert
from gateway.errors import InvalidField
from gateway.principal import RequestPrincipal
from gateway.registry import Change, DryRun, Registration, RevisionChanges
from gateway.routes.transport import read_registry_body
from gateway.services import WiredServices
from gateway.wire.fields import SearchLimit, ToolNames
from toolspecs.nearest import shorten
from toolspecs.shapes import Shape, write_tool
from toolspecs.tool import ShownTools, Tool, ToolSearch
from toolspecs.toolset import Revision, RevisionSummary, etag_matches

HttpRequest = Request[Any, Any, Any]
JSON = dict[str, Any]
PageSize = Annotated[int, QueryParameter(ge=1, le=1000)]
RevisionNumber = Annotated[int | None, QueryParameter(ge=1)]
SearchText = Annotated[str, QueryParameter(max_length=200)]

MAX_LISTED_DESCRIPTION = 300
"""Characters of a tool's description in a list; the tool itself has all of it."""


QUERY = ("after", "before", "limit", "revision", "search", "shape", "since", "tool")
"""All query parameters; a route takes those that its function has as parameters, and its path has not."""


class ToolsetSearch(msgspec.Struct, forbid_unknown_fields=True):
    """How many tools of a toolset prompts show, and which of them always."""

    limit: SearchLimit = 20
    always: ToolNames = []

    def value(self) -> ToolSearch:
        """The same, as a toolset keeps it."""
        return ToolSearch(self.limit, tuple(dict.fromkeys(self.always)))


class ToolsetBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `PUT` and `check`; `name` may repeat the path's name, `documents` are schemas by URI.

    `prompt_tools` says which of the tools prompts show, and `tool_search` how many, unless a request does.
    """

    tools: Any
    documents: Any = None
    name: str | None = None
    prompt_tools: ShownTools | None = None
    tool_search: ToolsetSearch | None = None


def check_query(request: HttpRequest) -> None:
    """Refuse unknown query parameters: `?revison=3` must not answer with the current revision."""
    parameters = request.route_handler.parsed_fn_signature.parameters.keys() - request.path_params.keys()
    taken = [name for name in QUERY if name in parameters]
    for name in request.query_params:
        if name not in taken:
            known = f"this route takes {', '.join(taken)}" if taken else "this route takes none"
            raise InvalidField(name, f"there is no such query parameter; {known}")


class ToolsetController(Controller):
    """`/v1/toolsets`."""

    path = "/v1/toolsets"
    before_request = check_query  # type: ignore[assignment] # Litestar calls it without self

    @get()
    async def list_toolsets(
        self,
        services: WiredServices,
        after: FromQuery[str | None] = None,
        limit: PageSize = 100,
        search: SearchText = "",
    ) -> JSON:
        """One page of the toolsets, sorted by name; with `search`, of those with this text in their names."""
        page = await services.registry.catalog.list(after=after, limit=limit, search=search)
        return {"toolsets": [summary_json(summary) for summary in page.items], "next": page.next_key}

    @get("/{toolset:str}")
    async def get_toolset(
        self,
        toolset: FromPath[str],
        request: HttpRequest,
        services: WiredServices,
        shape: FromQuery[Shape] = Shape.OPENAI,
    ) -> Response[Any]:
        """The current revision; 304 if `If-None-Match` names it."""
        revision = await services.registry.catalog.get(toolset)
        known = request.headers.get("if-none-match")
        if known is not None and etag_matches(known, revision.etag, allows_weak=True):
            return Response(None, status_code=304, headers={"ETag": revision.etag})
        return _tagged(revision, revision_json(revision, shape))

    @put("/{toolset:str}")
    async def put_toolset(
        self,
        toolset: FromPath[str],
        request: HttpRequest,
        services: WiredServices,
        principal: RequestPrincipal,
    ) -> Response[Any]:
        """Replace the toolset (200) or create it (201), unless a tool cannot be enforced."""
        body = await _read_body(request, services, principal.share, toolset)
        registration = await services.registry.put(
            toolset,
            body.tools,
            body.documents,
            prompt_tools=body.prompt_tools,
            tool_search=body.tool_search.value() if body.tool_search else None,
            if_match=_if_match(request),
            if_none_match=_if_none_match(request),
            share=principal.share,
            owner=principal.owner,
        )
        return _tagged(
            registration.revision, registration_json(registration), 201 if registration.is_created else 200
        )

    @delete("/{toolset:str}")
    async def delete_toolset(
        self, toolset: FromPath[str], request: HttpRequest, services: WiredServices
    ) -> None:
        """Delete the toolset; its revisions stay and can be restored."""
        _refuse_if_none_match(request)
        await services.registry.catalog.delete(toolset, if_match=_if_match(request))

    @get("/{toolset:str}/tools")
    async def list_tools(
        self,
        toolset: FromPath[str],
        services: WiredServices,
        *,
        revision: RevisionNumber = None,
        after: FromQuery[str | None] = None,
        limit: PageSize = 100,
        search: SearchText = "",
    ) -> JSON:
        """One page of the tools, in their order, with names and the beginnings of descriptions.

        With `search`, only tools whose names or descriptions have all of its words in them.
        """
        found = await services.registry.catalog.get(toolset, revision)
        page = found.toolset.page(after=after, limit=limit, search=search)
        return summary_json(found.summary) | {
            "tools": [listed_tool_json(tool) for tool in page.items],
            "next": page.next_key,
        }

    @get("/{toolset:str}/tools/{tool:path}")
    async def get_tool(
        self,
        toolset: FromPath[str],
        tool: FromPath[str],
        services: WiredServices,
        shape: FromQuery[Shape] = Shape.OPENAI,
        revision: RevisionNumber = None,
    ) -> Response[Any]:
        """One tool of the current revision, or of the one of that number."""
        found = await services.registry.catalog.get(toolset, revision)
        return _tagged(found, tool_json(found.toolset[_name(tool)], shape))

    @put("/{toolset:str}/tools/{tool:path}")
    async def put_tool(
        self,
        toolset: FromPath[str],
        tool: FromPath[str],
        request: HttpRequest,
        services: WiredServices,
        principal: RequestPrincipal,
    ) -> Response[Any]:
        """Add a tool or replace the tool of that name, unless it cannot be enforced.

        With `If-None-Match: *` it only adds.
        """
        registration = await services.registry.put_tool(
            toolset,
            _name(tool),
            await read_registry_body(request, services, principal.share),
            if_match=_if_match(request),
            if_none_match=_if_none_match(request),
            share=principal.share,
            owner=principal.owner,
        )
        return _tagged(registration.revision, registration_json(registration))

    @delete("/{toolset:str}/tools/{tool:path}", status_code=200)
    async def delete_tool(
        self,
        toolset: FromPath[str],
        tool: FromPath[str],
        request: HttpRequest,
        services: WiredServices,
        principal: RequestPrincipal,
    ) -> Response[Any]:
        """Remove a tool."""
        _refuse_if_none_match(request)
        revision = await services.registry.catalog.delete_tool(
            toolset, _name(tool), if_match=_if_match(request), owner=principal.owner
        )
        return _tagged(revision, summary_json(revision.summary))

    @get("/{toolset:str}/revisions")
    async def list_revisions(
        self,
        toolset: FromPath[str],
        services: WiredServices,
        before: RevisionNumber = None,
        limit: PageSize = 100,
    ) -> JSON:
        """One page of the revisions, the newest first; also those of a deleted toolset.

        Revisions before `dropped_before` were dropped as too old, but for those that requests still name.
        """
        catalog = services.registry.catalog
        page = await catalog.revisions(toolset, before=before, limit=limit)
        first = await catalog.first_kept(toolset)
        return {
            "revisions": [summary_json(summary) for summary in page.items],
            "next": page.next_key,
            "dropped_before": first if first > 1 else None,
        }

    @get("/{toolset:str}/revisions/{number:int}")
    async def get_revision(
        self,
        toolset: FromPath[str],
        number: FromPath[int],
        services: WiredServices,
        shape: FromQuery[Shape] = Shape.OPENAI,
    ) -> Response[Any]:
        """One revision."""
        revision = await services.registry.catalog.get(toolset, number)
        return _tagged(revision, revision_json(revision, shape))

    @get("/{toolset:str}/revisions/{number:int}/changes")
    async def changes(
        self,
        toolset: FromPath[str],
        number: FromPath[int],
        services: WiredServices,
        principal: RequestPrincipal,
        since: RevisionNumber = None,
    ) -> JSON:
        """What a revision changed since an earlier one; by default, since the one before it.

        Tools and documents that are equal are left out. Where there is no revision before it, all are added.
        """
        found = await services.registry.compare_revisions(toolset, number, since, share=principal.share)
        return revision_changes_json(found)

    @post("/{toolset:str}/revisions/{number:int}/restore", status_code=200)
    async def restore(
        self,
        toolset: FromPath[str],
        number: FromPath[int],
        request: HttpRequest,
        services: WiredServices,
        principal: RequestPrincipal,
    ) -> Response[Any]:
        """Make an earlier revision's content current again, as a new revision."""
        _refuse_if_none_match(request)
        revision = await services.registry.catalog.restore(
            toolset, number, if_match=_if_match(request), owner=principal.owner
        )
        return _tagged(revision, summary_json(revision.summary))

    @get("/{toolset:str}/report")
    async def report(
        self,
        toolset: FromPath[str],
        services: WiredServices,
        principal: RequestPrincipal,
        revision: RevisionNumber = None,
        tool: FromQuery[str | None] = None,
    ) -> JSON:
        """How every keyword of every tool is enforced, and the size and compile time of its grammar.

        With `tool`, only of the tool of that name.
        """
        found, reports = await services.registry.report(toolset, revision, tool, share=principal.share)
        unguarded = [model.model_id for model in await services.runtime.models() if not model.holds_guards]
        tools = [report_json(report) for report in reports]
        return summary_json(found.summary) | {"tools": tools, "unguarded_models": unguarded}

    @post("/{toolset:str}/check", status_code=200)
    async def check(
        self,
        toolset: FromPath[str],
        request: HttpRequest,
        services: WiredServices,
        principal: RequestPrincipal,
    ) -> JSON:
        """What `PUT` would do, without storing anything."""
        body = await _read_body(request, services, principal.share, toolset)
        dry_run = await services.registry.check(toolset, body.tools, body.documents, share=principal.share)
        return dry_run_json(dry_run)


async def _read_body(request: HttpRequest, services: WiredServices, share: str, toolset: str) -> ToolsetBody:
    submitted = await read_registry_body(request, services, share)
    if not isinstance(submitted, dict) or "tools" not in submitted:
        raise InvalidField("tools", 'it is missing; a toolset is {"tools": […], "documents": {…}}')
    body = convert(submitted, ToolsetBody)
    if body.name not in {None, toolset}:
        raise InvalidField("name", f"it is {body.name!r}, but the path says {toolset!r}")
    return body


def _tagged(revision: Revision, content: JSON, status: int = 200) -> Response[Any]:
    return Response(content, status_code=status, headers={"ETag": revision.etag})


def _name(path: str) -> str:
    return path.removeprefix("/")


def _if_match(request: HttpRequest) -> str | None:
    value: str | None = request.headers.get("if-match")
    return value


def _if_none_match(request: HttpRequest) -> bool:
    value = request.headers.get("if-none-match")
    if value not in {None, "*"}:
        raise InvalidField("If-None-Match", "a PUT takes only `*`, which means: create, but do not replace")
    return value == "*"


def _refuse_if_none_match(request: HttpRequest) -> None:
    """Raise InvalidField if the request has the header, because it creates nothing new."""
    if "if-none-match" in request.headers:
        raise InvalidField("If-None-Match", "only GET and PUT take it; for this request send If-Match")


def summary_json(summary: RevisionSummary) -> JSON:
    """A revision without its tools."""
    return {
        "name": summary.name,
        "revision": summary.number,
        "digest": summary.digest,
        "etag": summary.etag,
        "created_at": summary.created_at.isoformat(),
        "num_tools": summary.num_tools,
    }


def registration_json(registration: Registration) -> JSON:
    """A revision that was written, without its tools but with warnings."""
    return summary_json(registration.revision.summary) | {"warnings": _warnings(registration.reports)}


def revision_json(revision: Revision, shape: Shape) -> JSON:
    """A revision with its tools and all else, in the form that `PUT` takes."""
    return summary_json(revision.summary) | {
        "tools": [tool_json(tool, shape) for tool in revision.toolset],
        "documents": revision.toolset.documents,
        "prompt_tools": revision.toolset.prompt_tools,
        "tool_search": search_json(revision.toolset.tool_search),
    }


def search_json(search: ToolSearch | None) -> JSON | None:
    """How the tools of a toolset are searched, in the form that `PUT` takes."""
    return {"limit": search.limit, "always": list(search.always)} if search else None


def tool_json(tool: Tool, shape: Shape) -> JSON:
    """One tool."""
    return write_tool(tool, shape)


def listed_tool_json(tool: Tool) -> JSON:
    """One tool in a list."""
    return {"name": tool.name, "description": shorten(tool.description, MAX_LISTED_DESCRIPTION)}


def report_json(report: ToolReport) -> JSON:
    """How one tool is enforced."""
    return {
        "name": report.name,
        "digest": report.digest,
        "grammar_bytes": report.grammar_bytes,
        "compile_ms": round(report.compile_ms, 3),
        "entries": [
            {"pointer": e.pointer, "keyword": e.keyword, "verdict": e.verdict.value, "note": e.note}
            for e in report.report
        ],
    }


def dry_run_json(dry_run: DryRun) -> JSON:
    """A dry run: the changes of tools (removed ones last) and documents, and the reports of all tools."""
    current = dry_run.current
    return {
        "current": summary_json(current.summary) if current else None,
        "changes": {name: change.value for name, change in dry_run.changes.items()},
        "documents": {uri: change.value for uri, change in dry_run.document_changes.items()},
        "tools": [report_json(report) for report in dry_run.reports],
        "warnings": _warnings(dry_run.reports),
    }


def revision_changes_json(found: RevisionChanges) -> JSON:
    """What differs between two revisions."""
    return {
        "revision": found.revision.number,
        "since": found.since,
        "changes": _different(found.changes),
        "documents": _different(found.document_changes),
    }


def _different(changes: Mapping[str, Change]) -> JSON:
    return {name: change.value for name, change in changes.items() if change is not Change.UNCHANGED}


def _warnings(reports: Iterable[ToolReport]) -> list[JSON]:
    """The parts of schemas that are not enforced, most likely because of slips, and undeclared dialects."""
    return [
        {"tool": report.name, "pointer": entry.pointer, "keyword": entry.keyword, "note": entry.note}
        for report in reports
        for entry in report.report.ignored
    ]
