"""`callgate tools`: manages the toolsets of a running gateway over its REST API.

The structs have those fields of the gateway's JSON that the commands show.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec
import typer
from rich.console import Console

from gateway.command_options import json_text, output, say, table
from gateway.setting_sources import DEFAULT_URL, client_settings

tools = typer.Typer(help="Toolsets of a running gateway.", no_args_is_help=True)

UrlOption = Annotated[
    str | None, typer.Option(help=f"URL of the gateway. Default: CALLGATE_URL, or {DEFAULT_URL}.")
]


KeyOption = Annotated[
    str | None, typer.Option("--api-key", help="API key of the gateway. Default: CALLGATE_API_KEY.")
]


ToolsetArgument = Annotated[str, typer.Argument(help="The toolset's name.")]


FileArgument = Annotated[
    Path,
    typer.Argument(
        help="JSON: a list of tools, or an object with `tools`, the `documents` they refer to, by URI, and"
        " `prompt_tools`.",
        exists=True,
    ),
]


NameOption = Annotated[
    str | None,
    typer.Option(
        "--name", help="The toolset's name. Default: the field `name` of the file, or the file's own name."
    ),
]

T = TypeVar("T")


class _SummaryReply(msgspec.Struct):
    """A revision, without its tools."""

    name: str
    revision: int
    num_tools: int
    created_at: str


class UnenforcedPart(msgspec.Struct):
    """A part of a schema that is not enforced, most likely by mistake."""

    tool: str
    pointer: str
    keyword: str
    note: str


class ApplyReply(_SummaryReply):
    """The result of `apply`."""

    warnings: list[UnenforcedPart] = []


class _PageReply(msgspec.Struct):
    """One page of toolsets; `next` is where the next page begins."""

    toolsets: list[_SummaryReply]
    next: str | None


OTHER_FIELDS = ("documents", "prompt_tools", "tool_search")
"""What a toolset has beside its tools."""


class ToolsetReply(msgspec.Struct):
    """A toolset with its tools."""

    name: str
    revision: int
    etag: str
    tools: list[dict[str, Any]]
    documents: dict[str, Any] = {}
    prompt_tools: str | None = None
    tool_search: dict[str, Any] | None = None

    @property
    def others(self) -> dict[str, Any]:
        """The other fields that `PUT` accepts, if they are not empty."""
        return _given({name: getattr(self, name) for name in OTHER_FIELDS})


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
    compile_ms: float


class CheckReply(msgspec.Struct):
    """The result of `check`: what `apply` would do."""

    changes: dict[str, str]
    tools: list[_ToolReply]
    warnings: list[UnenforcedPart] = []


class FaultReply(msgspec.Struct):
    """A fault of a tool or a document."""

    tool: str | int | None
    pointer: str
    keyword: str
    reason: str
    suggestion: str


class ProblemReply(msgspec.Struct):
    """Why a request failed."""

    detail: str
    errors: list[FaultReply] = []


# Compiling a thousand tools takes minutes; a request that takes longer than this is stuck.
TIMEOUT_S = 600.0


@tools.command()
def apply(
    file: FileArgument, name: NameOption = None, url: UrlOption = None, api_key: KeyOption = None
) -> None:
    """Register the toolset of a file, or replace it."""
    body, found = _read(file)
    with open_gateway(url, api_key) as (client, console):
        with console.status("compiling …"):
            response = client.put(toolset_path(name or found), json=body)
        summary = checked_answer(response, ApplyReply)
        verb = "created" if response.status_code == 201 else "is now"
        counted = count_tools(summary.num_tools)
        say(console, f"toolset {summary.name} {verb} at revision {summary.revision}, {counted}")
        warn(console, summary.warnings)


@tools.command()
def check(
    file: FileArgument, name: NameOption = None, url: UrlOption = None, api_key: KeyOption = None
) -> None:
    """Show what `apply` would do, and how the tools would be enforced."""
    body, found = _read(file)
    with open_gateway(url, api_key) as (client, console):
        with console.status("compiling …"):
            result = checked_answer(
                client.post(f"{toolset_path(name or found)}/check", json=body), CheckReply
            )
        reports = {report.name: report for report in result.tools}
        shown = table("tool", "change", "grammar", "compiled in", "stricter than declared")
        for tool, change in result.changes.items():
            shown.add_row(tool, change, *_report_cells(reports.get(tool)))
        console.print(shown)
        warn(console, result.warnings)


@tools.command("list")
def list_toolsets(url: UrlOption = None, api_key: KeyOption = None) -> None:
    """List the toolsets."""
    with open_gateway(url, api_key) as (client, console):
        shown = table("toolset", "revision", "tools", "since")
        for summary in _toolsets(client):
            shown.add_row(
                summary.name, str(summary.revision), str(summary.num_tools), summary.created_at[:19]
            )
        console.print(shown)


@tools.command()
def show(toolset: ToolsetArgument, url: UrlOption = None, api_key: KeyOption = None) -> None:
    """Print a toolset as JSON that `apply` can read."""
    with open_gateway(url, api_key) as (client, _):
        revision = registered_toolset(client, checked_answer(client.get(toolset_path(toolset)), ToolsetReply))
        shown = {"name": revision.name, "tools": revision.tools, **revision.others}
        typer.echo(json_text(shown))


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
        kept = {"name", "description", "inputSchema", "input_schema", "strict", "callgate"}
        tools = [other if other.keys() - kept else tool for tool, other in zip(tools, others, strict=True)]
    return msgspec.structs.replace(read, tools=tools)


def toolset_path(toolset: str) -> str:
    """The path of a toolset's URL."""
    if not toolset:
        raise failure("a toolset needs a name")
    return f"/v1/toolsets/{quote(toolset, safe='')}"


def _toolsets(client: httpx.Client) -> Iterator[_SummaryReply]:
    after: str | None = None
    while True:
        page = checked_answer(
            client.get("/v1/toolsets", params={"after": after} if after else {}), _PageReply
        )
        yield from page.toolsets
        after = page.next
        if after is None:
            return


def _read(file: Path) -> tuple[dict[str, Any], str]:
    """The body to send, and the name the file suggests."""
    try:
        document = json.loads(file.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise failure(f"{file}: {reason}") from error
    if isinstance(document, list):
        return {"tools": document}, file.stem
    if not isinstance(document, dict) or "tools" not in document:
        raise failure(f"{file}: expected a list of tools, or an object with the field `tools`")
    others = {field: document.get(field) for field in OTHER_FIELDS}
    return {"tools": document["tools"], **_given(others)}, str(document.get("name") or file.stem)


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are not empty."""
    return {name: value for name, value in fields.items() if value}


@contextmanager
def open_gateway(url: str | None, api_key: str | None) -> Iterator[tuple[httpx.Client, Console]]:
    """A client of a running gateway, and the console to print to; ends the command if no gateway answers."""
    base, key = client_settings(url, api_key)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with httpx.Client(base_url=base, headers=headers, timeout=TIMEOUT_S) as client:
            yield client, output()
    except (httpx.UnsupportedProtocol, httpx.InvalidURL, UnicodeError) as error:
        raise failure(
            f"{base!r} is not the address of a gateway ({error});"
            f" write one as --url {DEFAULT_URL}, or in CALLGATE_URL"
        ) from error
    except httpx.TransportError as error:
        raise failure(f"no gateway at {base}: {error}; is `callgate serve` running?") from error


def checked_answer(response: httpx.Response, shape: type[T]) -> T:
    """The gateway's answer as a struct; if the request failed, prints the faults and exits with 1."""
    try:
        if response.is_success:
            return msgspec.json.decode(response.content or b"null", type=shape)
        problem = msgspec.json.decode(response.content, type=ProblemReply)
    except msgspec.MsgspecError:
        raise failure(
            f"HTTP {response.status_code} from {response.url}: the answer is not that of a gateway"
        ) from None
    raise failure("\n".join(map(fault_line, problem.errors)) or problem.detail)


def fault_line(fault: FaultReply) -> str:
    """A fault in one line."""
    subject = "" if fault.tool is None else f"tool {fault.tool!r} "
    suggestion = f" ({fault.suggestion})" if fault.suggestion else ""
    return f"{subject}at {fault.pointer or '/'}{_keyword(fault)}: {fault.reason}{suggestion}"


def _keyword(fault: FaultReply) -> str:
    """The keyword, if the pointer does not end in it."""
    is_in_pointer = not fault.keyword or fault.pointer.endswith(f"/{fault.keyword}")
    return "" if is_in_pointer else f" ({fault.keyword})"


def _report_cells(report: _ToolReply | None) -> tuple[str, str, str]:
    if report is None:
        return "", "", ""
    narrowed = [
        f"{entry.pointer or '/'} {entry.keyword}"
        for entry in report.entries or ()
        if entry.verdict == "narrowed"
    ]
    shown = ", ".join(narrowed[:3]) + (f" and {len(narrowed) - 3} more" if len(narrowed) > 3 else "")
    return f"{report.grammar_bytes / 1024:.0f} KB", f"{report.compile_ms:.0f} ms", shown


def warn(console: Console, warnings: Iterable[UnenforcedPart]) -> None:
    """Print the parts of schemas that are not enforced."""
    for line in _in_groups(warnings):
        say(console, line, "yellow")


def _in_groups(warnings: Iterable[UnenforcedPart]) -> Iterator[str]:
    """One line for all warnings with the same cause: documents may repeat a format hundreds of times."""
    groups: dict[tuple[str, str], list[UnenforcedPart]] = {}
    for warning in warnings:
        groups.setdefault((warning.keyword, warning.note), []).append(warning)
    for (keyword, note), places in groups.items():
        first = f"tool {places[0].tool!r} at {places[0].pointer or '/'}"
        num_others = len(places) - 1
        others = f", and in {num_others} more place{'' if num_others == 1 else 's'}" if num_others else ""
        yield f"{first}{others}: {keyword!r}: {note}"


def count_tools(num_tools: int) -> str:
    """How many tools, in words."""
    return f"{num_tools} tool{'' if num_tools == 1 else 's'}"


def failure(message: str) -> typer.Exit:
    """Print what went wrong; the caller raises the result to end the command."""
    say(Console(stderr=True), message, "red")
    return typer.Exit(1)
