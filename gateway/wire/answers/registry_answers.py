"""The answers of the registry's routes, and errors."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from compiler.report import Verdict
from gateway.routes.toolset_routes import ToolsetSearch
from gateway.toolsets.tool_changes import Change
from toolspecs.tool import ShownTools


class RevisionSummary(Struct):
    """A revision without its tools."""

    name: str
    revision: int
    digest: str
    etag: str
    created_at: str
    num_tools: int


class Warned(Struct):
    """A part of a schema that is not enforced, most likely by mistake."""

    tool: str
    pointer: str
    keyword: str
    note: str


class Registration(RevisionSummary):
    """A revision that was written."""

    warnings: list[Warned]


class ImportedFrom(Struct):
    """A source of tools.

    `differing` names the tools that are not as they were accepted, without those that were `declined`.
    """

    source: str
    kind: str
    location: str
    selection: dict[str, list[str]]
    accepted: list[str]
    differing: list[str]
    declined: list[str]


class StoredToolset(RevisionSummary):
    """A revision with its tools, in the requested shape, and the other fields that `PUT` accepts."""

    tools: list[dict[str, Any]]
    documents: dict[str, Any]
    prompt_tools: ShownTools | None
    tool_search: ToolsetSearch | None
    sources: list[ImportedFrom]


class ToolsetPage(Struct):
    """Toolsets by name; `next` is the `after` of the next page."""

    toolsets: list[RevisionSummary]
    next: str | None


class ListedTool(Struct):
    """A tool in a list, with the beginning of its description."""

    name: str
    description: str


class ToolPage(RevisionSummary):
    """Tools of a revision in their order; `next` is the `after` of the next page."""

    tools: list[ListedTool]
    next: str | None
    num_differing: int | None


class RevisionPage(Struct):
    """Revisions, the newest first; `next` is the `before` of the next page."""

    revisions: list[RevisionSummary]
    next: int | None
    dropped_before: int | None
    deleted: bool


class ReportedKeyword(Struct):
    """How a keyword is enforced."""

    pointer: str
    keyword: str
    verdict: Verdict
    note: str


class ReportedTool(Struct):
    """How a tool is enforced, and what its grammar costs.

    `entries` is null if earlier reports fill the answer; request the report of this tool alone. `compile_ms`
    is null for a key of a tenant: it would tell what others have compiled.
    """

    name: str
    digest: str
    grammar_bytes: int
    compile_ms: float | None
    entries: list[ReportedKeyword] | None


class Report(RevisionSummary):
    """How the tools of a revision are enforced.

    `unguarded_models` are models whose engines do not apply guards: the gateway refuses tokens that a guard
    forbids, and asks for others.
    """

    tools: list[ReportedTool]
    unguarded_models: list[str]


class Changes(Struct):
    """What changed in a revision since an earlier one, null if there was none; equal tools are left out."""

    revision: int
    since: int | None
    changes: dict[str, Change]
    documents: dict[str, Change]


class Check(Struct):
    """What `PUT` would do."""

    current: RevisionSummary | None
    changes: dict[str, Change]
    documents: dict[str, Change]
    tools: list[ReportedTool]
    warnings: list[Warned]


class DifferingTool(Struct):
    """A tool that differs at its source, in MCP shape; null if the source or the toolset does not have it.

    `description` has both descriptions if they differ.
    """

    tool: str
    source: str
    change: Change
    description: list[str] | None
    served: dict[str, Any] | None
    offered: dict[str, Any] | None


class Differences(RevisionSummary):
    """The differences at the sources of a revision, and separately those that were declined."""

    differences: list[DifferingTool]
    declined: list[DifferingTool]


class Import(Struct):
    """What an import found; `toolset` is the current revision, or null after a dry run for a new toolset."""

    toolset: RevisionSummary | None
    source: str
    created: bool
    differences: list[DifferingTool]
    declined: list[DifferingTool]
    refused: list["Fault"]
    warnings: list[Warned]


class OpenAIError(Struct):
    """What went wrong, and in which field."""

    message: str
    type: str
    param: str | None
    code: str


class OpenAIErrorBody(Struct):
    """An error in OpenAI's shape."""

    error: OpenAIError


class AnthropicError(Struct):
    """What went wrong, and in which field."""

    type: str
    message: str
    param: str | None
    code: str
    details: dict[str, Any] | UnsetType = UNSET


class AnthropicErrorBody(Struct):
    """An error in Anthropic's shape; one that ends a stream has no id of the request."""

    type: Literal["error"]
    error: AnthropicError
    request_id: str | UnsetType = UNSET


class Fault(Struct):
    """One fault of a tool."""

    tool: str | int | None
    pointer: str
    keyword: str
    reason: str
    suggestion: str


class ProblemDetails(Struct):
    """An error of the registry (RFC 9457); the fields after `detail` depend on its type."""

    type: str
    title: str
    status: int
    detail: str
    field: str | UnsetType = UNSET
    errors: list[Fault] | UnsetType = UNSET
    near: list[str] | UnsetType = UNSET
    latest: int | UnsetType = UNSET
    deleted_at: str | UnsetType = UNSET
    dropped_before: int | UnsetType = UNSET
    limit: str | UnsetType = UNSET
    maximum: int | UnsetType = UNSET
    etag: str | UnsetType | None = UNSET
    line: int | UnsetType = UNSET
    column: int | UnsetType = UNSET
    not_reached: list[str] | UnsetType = UNSET
    key: str | UnsetType = UNSET
