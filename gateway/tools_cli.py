"""`callgate tools`: toolsets of a running gateway."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec
import typer
from rich.console import Console
from rich.table import Column, Table

from gateway.settings import DEFAULT_URL, client_settings

tools = typer.Typer(help="Toolsets of a running gateway.", no_args_is_help=True)

Url = Annotated[str | None, typer.Option(help=f"The gateway. Default: CALLGATE_URL, or {DEFAULT_URL}.")]
Key = Annotated[str | None, typer.Option("--api-key", help="Its API key. Default: CALLGATE_API_KEY.")]
Toolset = Annotated[str, typer.Argument(help="The toolset's name.")]
File = Annotated[
    Path,
    typer.Argument(
        help="JSON: a list of tools, or an object with `tools` and the `documents` they refer to, by URI.",
        exists=True,
    ),
]
Name = Annotated[
    str | None,
    typer.Option("--name", help="The toolset's name. Default: the file's `name`, or its own name."),
]

T = TypeVar("T")


class Summary(msgspec.Struct):
    """A revision, without its tools."""

    name: str
    revision: int
    num_tools: int
    created_at: str


class Ignored(msgspec.Struct):
    """What of a schema nobody upholds, most likely by a slip."""

    tool: str
    pointer: str
    keyword: str
    note: str


class Written(Summary):
    """What `apply` did."""

    warnings: list[Ignored] = []


class Page(msgspec.Struct):
    """Some of the toolsets; `next` is where the others begin."""

    toolsets: list[Summary]
    next: str | None


class Revision(msgspec.Struct):
    """A toolset as it is shown."""

    name: str
    tools: list[Any]
    documents: dict[str, Any] = {}


class Enforced(msgspec.Struct):
    """How a keyword is enforced."""

    pointer: str
    keyword: str
    verdict: str
    note: str


class Report(msgspec.Struct):
    """How a tool is."""

    name: str
    entries: list[Enforced]
    grammar_bytes: int
    compile_ms: float


class Check(msgspec.Struct):
    """What `apply` would do."""

    changes: dict[str, str]
    tools: list[Report]
    warnings: list[Ignored] = []


class Fault(msgspec.Struct):
    """What is wrong with a tool or a document."""

    tool: str | int | None
    pointer: str
    keyword: str
    reason: str
    suggestion: str


class Problem(msgspec.Struct):
    """Why a request failed."""

    detail: str
    errors: list[Fault] = []


# Compiling a thousand tools takes a while; a request that takes longer than this hangs.
TIMEOUT_S = 600.0


@tools.command()
def apply(file: File, name: Name = None, url: Url = None, api_key: Key = None) -> None:
    """Register the toolset of a file, or replace it."""
    body, found = _read(file)
    with _gateway(url, api_key) as (client, console):
        with console.status("compiling …"):
            response = client.put(_path(name or found), json=body)
        summary = _checked(response, Written)
        verb = "created" if response.status_code == 201 else "is now"
        console.print(
            f"toolset [bold]{summary.name}[/] {verb} at revision {summary.revision},"
            f" {summary.num_tools} tool{'' if summary.num_tools == 1 else 's'}",
            highlight=False,
        )
        _warn(console, summary.warnings)


@tools.command()
def check(file: File, name: Name = None, url: Url = None, api_key: Key = None) -> None:
    """Say what `apply` would do, and how the tools would be enforced."""
    body, found = _read(file)
    with _gateway(url, api_key) as (client, console):
        with console.status("compiling …"):
            result = _checked(client.post(f"{_path(name or found)}/check", json=body), Check)
        reports = {report.name: report for report in result.tools}
        shown = table("tool", "change", "grammar", "compiled in", "narrowed")
        for tool, change in result.changes.items():
            shown.add_row(tool, change, *_report_cells(reports.get(tool)))
        console.print(shown)
        _warn(console, result.warnings)


@tools.command("list")
def list_toolsets(url: Url = None, api_key: Key = None) -> None:
    """List the toolsets."""
    with _gateway(url, api_key) as (client, console):
        shown = table("toolset", "revision", "tools", "since")
        for summary in _toolsets(client):
            shown.add_row(
                summary.name, str(summary.revision), str(summary.num_tools), summary.created_at[:19]
            )
        console.print(shown)


@tools.command()
def show(toolset: Toolset, url: Url = None, api_key: Key = None) -> None:
    """Print a toolset as JSON, as `apply` takes it back."""
    with _gateway(url, api_key) as (client, _):
        revision = _checked(client.get(_path(toolset)), Revision)
        documents = {"documents": revision.documents} if revision.documents else {}
        shown = {"name": revision.name, "tools": revision.tools, **documents}
        typer.echo(json.dumps(shown, indent=2, ensure_ascii=False))


@tools.command()
def rm(toolset: Toolset, url: Url = None, api_key: Key = None) -> None:
    """Delete a toolset; its revisions can be restored over REST."""
    with _gateway(url, api_key) as (client, console):
        _checked(client.delete(_path(toolset)), type(None))
        console.print(f"toolset [bold]{toolset}[/] deleted", highlight=False)


def _path(toolset: str) -> str:
    if not toolset:
        raise _failure("a toolset needs a name")
    return f"/v1/toolsets/{quote(toolset, safe='')}"


def _toolsets(client: httpx.Client) -> Iterator[Summary]:
    after: str | None = None
    while True:
        page = _checked(client.get("/v1/toolsets", params={"after": after} if after else {}), Page)
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
        raise _failure(f"{file}: {reason}") from error
    if isinstance(document, list):
        return {"tools": document}, file.stem
    if not isinstance(document, dict) or "tools" not in document:
        raise _failure(f"{file}: expected a list of tools, or an object with `tools`")
    documents = {"documents": document["documents"]} if document.get("documents") else {}
    return {"tools": document["tools"], **documents}, str(document.get("name") or file.stem)


@contextmanager
def _gateway(url: str | None, api_key: str | None) -> Iterator[tuple[httpx.Client, Console]]:
    base, key = client_settings(url, api_key)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with httpx.Client(base_url=base, headers=headers, timeout=TIMEOUT_S) as client:
            yield client, output()
    except (httpx.UnsupportedProtocol, httpx.InvalidURL, UnicodeError) as error:
        raise _failure(
            f"{base!r} is no address of a gateway ({error});"
            f" write one as --url {DEFAULT_URL}, or in CALLGATE_URL"
        ) from error
    except httpx.TransportError as error:
        raise _failure(f"no gateway at {base}: {error}; is `callgate serve` running?") from error


def _checked(response: httpx.Response, shape: type[T]) -> T:
    """What the gateway answers, of this shape."""
    try:
        if response.is_success:
            return msgspec.json.decode(response.content or b"null", type=shape)
        problem = msgspec.json.decode(response.content, type=Problem)
    except msgspec.MsgspecError:
        raise _failure(
            f"HTTP {response.status_code} from {response.url}: this is no gateway's answer"
        ) from None
    raise _failure("\n".join(map(_fault_line, problem.errors)) or problem.detail)


def _fault_line(fault: Fault) -> str:
    subject = "" if fault.tool is None else f"tool {fault.tool!r} "
    suggestion = f" ({fault.suggestion})" if fault.suggestion else ""
    return f"{subject}at {fault.pointer or '/'}{_keyword(fault)}: {fault.reason}{suggestion}"


def _keyword(fault: Fault) -> str:
    """The keyword, where the pointer does not tell it."""
    is_told = not fault.keyword or fault.pointer.endswith(f"/{fault.keyword}")
    return "" if is_told else f" ({fault.keyword})"


def _report_cells(report: Report | None) -> tuple[str, str, str]:
    if report is None:
        return "", "", ""
    narrowed = [
        f"{entry.pointer or '/'} {entry.keyword}" for entry in report.entries if entry.verdict == "narrowed"
    ]
    shown = ", ".join(narrowed[:3]) + (f" and {len(narrowed) - 3} more" if len(narrowed) > 3 else "")
    return f"{report.grammar_bytes / 1024:.0f} KB", f"{report.compile_ms:.0f} ms", shown


def _warn(console: Console, warnings: list[Ignored]) -> None:
    for slip in warnings:
        line = f"tool {slip.tool!r} at {slip.pointer or '/'}: {slip.keyword!r}: {slip.note}"
        console.print(line, style="yellow", markup=False, highlight=False, soft_wrap=True)


def _failure(message: str) -> typer.Exit:
    Console(stderr=True).print(message, style="red", markup=False, highlight=False, soft_wrap=True)
    return typer.Exit(1)


UNBOUNDED = 10_000
"""Wider than any table."""


def output() -> Console:
    """Standard output; a table is fitted to the screen only where there is one."""
    console = Console()
    return console if console.is_terminal else Console(width=UNBOUNDED)


def table(*columns: str) -> Table:
    """A table that cuts no word short: what does not fit goes on in the next line."""
    return Table(*(Column(name, overflow="fold") for name in columns), box=None, pad_edge=False)
