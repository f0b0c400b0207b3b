"""`callgate tools`: manages the toolsets of a running gateway over its REST API.

The structs have those fields of the gateway's JSON that the commands show.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import httpx
import msgspec
import typer

from gateway.commands.gateway_client import (
    KeyOption,
    SummaryReply,
    ToolsetArgument,
    UnenforcedPart,
    UrlOption,
    checked_answer,
    count_tools,
    failure,
    listed_toolsets,
    open_gateway,
    toolset_path,
    warn,
)
from gateway.commands.terminal import json_text, say, table
from gateway.errors import InvalidField
from gateway.http.json_body import check_keys
from toolspecs.nearest import MAX_NAME, shorten
from toolspecs.toolset import TOOLSET_NAME, TOOLSET_RULE

tools = typer.Typer(help="Toolsets of a running gateway.", no_args_is_help=True)

FileArgument = Annotated[
    Path,
    typer.Argument(
        help="JSON: a list of tools, or an object with `tools`, the `documents` they refer to, by URI,"
        " `prompt_tools` and `tool_search`.",
        exists=True,
    ),
]


NameOption = Annotated[
    str | None,
    typer.Option(
        "--name", help="The toolset's name. Default: the field `name` of the file, or the file's own name."
    ),
]


class ApplyReply(SummaryReply):
    """The result of `apply`."""

    warnings: tuple[UnenforcedPart, ...] = ()


OTHER_FIELDS = ("documents", "prompt_tools", "tool_search")
"""What a toolset has beside its tools."""


class ToolsetReply(msgspec.Struct):
    """A toolset with its tools."""

    name: str
    revision: int
    tools: list[dict[str, Any]]
    documents: dict[str, Any] = {}
    prompt_tools: str | None = None
    tool_search: dict[str, Any] | None = None

    @property
    def others(self) -> dict[str, Any]:
        """The other fields that `PUT` accepts, if they are not empty."""
        return _without_empty({name: getattr(self, name) for name in OTHER_FIELDS})


class _Enforcement(msgspec.Struct):
    """How a keyword is enforced."""

    pointer: str
    keyword: str
    verdict: str
    note: str


class _ToolReply(msgspec.Struct):
    """How a tool is enforced, and the size and compile time of its grammar."""

    name: str
    entries: list[_Enforcement] | None
    grammar_bytes: int
    compile_ms: float | None


class CheckReply(msgspec.Struct):
    """The result of `check`: what `apply` would do."""

    changes: dict[str, str]
    tools: list[_ToolReply]
    warnings: list[UnenforcedPart] = []


@tools.command()
def apply(
    file: FileArgument, name: NameOption = None, url: UrlOption = None, api_key: KeyOption = None
) -> None:
    """Register the toolset of a file, or replace it."""
    body, toolset = _read(file, name)
    with open_gateway(url, api_key) as (client, console):
        with console.status("compiling …"):
            response = client.put(toolset_path(toolset), json=body)
        summary = checked_answer(response, ApplyReply)
        verb = "created" if response.status_code == 201 else "is"
        counted = count_tools(summary.num_tools)
        say(console, f"toolset {summary.name} {verb} at revision {summary.revision}, {counted}")
        warn(console, summary.warnings)


@tools.command()
def check(
    file: FileArgument, name: NameOption = None, url: UrlOption = None, api_key: KeyOption = None
) -> None:
    """Show what `apply` would do, and how the tools would be enforced."""
    body, toolset = _read(file, name)
    with open_gateway(url, api_key) as (client, console):
        with console.status("compiling …"):
            result = checked_answer(client.post(f"{toolset_path(toolset)}/check", json=body), CheckReply)
        reports = {report.name: report for report in result.tools}
        listing = table("tool", "change", "grammar", "compiled in", "stricter than declared")
        for tool, change in result.changes.items():
            listing.add_row(tool, change, *_report_cells(reports.get(tool)))
        console.print(listing)
        warn(console, result.warnings)


@tools.command("list")
def list_toolsets(url: UrlOption = None, api_key: KeyOption = None) -> None:
    """List the toolsets."""
    with open_gateway(url, api_key) as (client, console):
        listing = table("toolset", "revision", "tools", "since")
        for summary in listed_toolsets(client):
            listing.add_row(
                summary.name, str(summary.revision), str(summary.num_tools), summary.created_at[:19]
            )
        console.print(listing)


@tools.command()
def show(toolset: ToolsetArgument, url: UrlOption = None, api_key: KeyOption = None) -> None:
    """Print a toolset as JSON that `apply` can read."""
    with open_gateway(url, api_key) as (client, _):
        revision = registered_toolset(client, checked_answer(client.get(toolset_path(toolset)), ToolsetReply))
        document = {"name": revision.name, "tools": revision.tools, **revision.others}
        typer.echo(json_text(document))


@tools.command()
def rm(toolset: ToolsetArgument, url: UrlOption = None, api_key: KeyOption = None) -> None:
    """Delete a toolset; its revisions can be restored over REST."""
    with open_gateway(url, api_key) as (client, console):
        checked_answer(client.delete(toolset_path(toolset)), type(None))
        say(console, f"toolset {toolset} deleted")


def registered_toolset(client: httpx.Client, read: ToolsetReply) -> ToolsetReply:
    """A toolset, `read` in OpenAI's shape, with each tool rewritten in a shape that has all its fields."""
    path = f"{toolset_path(read.name)}/revisions/{read.revision}"
    tools = read.tools
    for shape in ("mcp", "anthropic"):
        others = checked_answer(client.get(path, params={"shape": shape}), ToolsetReply).tools
        known_fields = {"name", "description", "inputSchema", "input_schema", "strict", "callgate"}
        tools = [
            other if other.keys() - known_fields else tool for tool, other in zip(tools, others, strict=True)
        ]
    return msgspec.structs.replace(read, tools=tools)


def _read(file: Path, name: str | None) -> tuple[dict[str, Any], str]:
    """The body to send, and the name of its toolset: the given one, or else what the file suggests."""
    try:
        content = file.read_text("utf-8-sig")
        document = json.loads(content)
        check_keys(content.encode(), document)
    except OSError as error:
        raise failure(f"{file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise failure(f"{file} is not JSON: {error}") from error
    except InvalidField as error:
        raise failure(f"{file}: {error}") from error
    if isinstance(document, list):
        return {"tools": document}, _name(name, file.stem)
    if not isinstance(document, dict) or "tools" not in document:
        raise failure(f"{file}: expected a list of tools, or an object with the field `tools`")
    others = {field: document.get(field) for field in OTHER_FIELDS}
    suggested = str(document.get("name") or file.stem)
    return {"tools": document["tools"], **_without_empty(others)}, _name(name, suggested)


def _name(given: str | None, suggested: str) -> str:
    if given is None and not TOOLSET_NAME.fullmatch(suggested):
        shown = shorten(suggested, MAX_NAME)
        raise failure(f"the toolset's name, {shown!r}, is not {TOOLSET_RULE}; give one with --name")
    return suggested if given is None else given


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are not empty."""
    return {name: value for name, value in fields.items() if value}


def _report_cells(report: _ToolReply | None) -> tuple[str, str, str]:
    if report is None:
        return "", "", ""
    narrowed = [
        f"{entry.pointer or '/'} {entry.keyword}"
        for entry in report.entries or ()
        if entry.verdict == "narrowed"
    ]
    pointers = ", ".join(narrowed[:3]) + (f" and {len(narrowed) - 3} more" if len(narrowed) > 3 else "")
    compiled = "" if report.compile_ms is None else f"{report.compile_ms:.0f} ms"
    return f"{report.grammar_bytes / 1024:.0f} KB", compiled, pointers
