"""`callgate tools`: toolsets of a running gateway."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import httpx
import typer
from rich.console import Console

from gateway.console import output, table
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

# Compiling a thousand tools takes a while; a request that takes longer than this hangs.
TIMEOUT_S = 600.0


@tools.command()
def apply(file: File, name: Name = None, url: Url = None, api_key: Key = None) -> None:
    """Register the toolset of a file, or replace it."""
    body, found = _read(file)
    with _gateway(url, api_key) as (client, console):
        with console.status("compiling …"):
            response = client.put(_path(name or found), json=body)
        summary = _checked(response)
        verb = "created" if response.status_code == 201 else "is now"
        console.print(
            f"toolset [bold]{summary['name']}[/] {verb} at revision {summary['revision']},"
            f" {summary['num_tools']} tool{'' if summary['num_tools'] == 1 else 's'}",
            highlight=False,
        )


@tools.command()
def check(file: File, name: Name = None, url: Url = None, api_key: Key = None) -> None:
    """Say what `apply` would do, and how the tools would be enforced."""
    body, found = _read(file)
    with _gateway(url, api_key) as (client, console):
        with console.status("compiling …"):
            result = _checked(client.post(f"{_path(name or found)}/check", json=body))
        reports = {report["name"]: report for report in result["tools"]}
        shown = table("tool", "change", "grammar", "compiled in", "narrowed")
        for tool, change in result["changes"].items():
            shown.add_row(tool, change, *_report_cells(reports.get(tool)))
        console.print(shown)
        for line in _ignored_lines(result["tools"]):
            console.print(line, style="yellow", markup=False, highlight=False, soft_wrap=True)


@tools.command("list")
def list_toolsets(url: Url = None, api_key: Key = None) -> None:
    """List the toolsets."""
    with _gateway(url, api_key) as (client, console):
        shown = table("toolset", "revision", "tools", "since")
        for summary in _toolsets(client):
            shown.add_row(
                summary["name"],
                str(summary["revision"]),
                str(summary["num_tools"]),
                summary["created_at"][:19],
            )
        console.print(shown)


@tools.command()
def show(toolset: Toolset, url: Url = None, api_key: Key = None) -> None:
    """Print a toolset as JSON, as `apply` takes it back."""
    with _gateway(url, api_key) as (client, _):
        document = _checked(client.get(_path(toolset)))
        shown = {"name": document["name"], "tools": document["tools"], **_documents(document)}
        typer.echo(json.dumps(shown, indent=2, ensure_ascii=False))


@tools.command()
def rm(toolset: Toolset, url: Url = None, api_key: Key = None) -> None:
    """Delete a toolset; its revisions can be restored over REST."""
    with _gateway(url, api_key) as (client, console):
        _checked(client.delete(_path(toolset)))
        console.print(f"toolset [bold]{toolset}[/] deleted", highlight=False)


def _path(toolset: str) -> str:
    if not toolset:
        raise _failure("a toolset needs a name")
    return f"/v1/toolsets/{quote(toolset, safe='')}"


def _toolsets(client: httpx.Client) -> Iterator[dict[str, Any]]:
    after: str | None = None
    while True:
        page = _checked(client.get("/v1/toolsets", params={"after": after} if after else {}))
        yield from page["toolsets"]
        after = page["next"]
        if after is None:
            return


def _read(file: Path) -> tuple[dict[str, Any], str]:
    """The body to send, and the name the file suggests."""
    try:
        document = json.loads(file.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _failure(f"{file}: {reason}") from error
    if isinstance(document, list):
        return {"tools": document}, file.stem
    if not isinstance(document, dict) or "tools" not in document:
        raise _failure(f"{file}: expected a list of tools, or an object with `tools`")
    return {"tools": document["tools"], **_documents(document)}, str(document.get("name") or file.stem)


def _documents(toolset: dict[str, Any]) -> dict[str, Any]:
    """The field `documents`, if there are any."""
    return {"documents": toolset["documents"]} if toolset.get("documents") else {}


@contextmanager
def _gateway(url: str | None, api_key: str | None) -> Iterator[tuple[httpx.Client, Console]]:
    base, key = client_settings(url, api_key)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with httpx.Client(base_url=base, headers=headers, timeout=TIMEOUT_S) as client:
            yield client, output()
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise _failure(f"no gateway at {base}: {error}; is `callgate serve` running?") from error


def _checked(response: httpx.Response) -> Any:
    if response.is_success:
        return response.json() if response.content else None
    try:
        problem = response.json()
        lines = [problem["detail"]] if not problem.get("errors") else _error_lines(problem["errors"])
    except (ValueError, TypeError, KeyError):
        lines = [f"HTTP {response.status_code} from {response.url}"]
    raise _failure("\n".join(lines))


def _error_lines(errors: list[dict[str, Any]]) -> list[str]:
    return [
        ("" if error["tool"] is None else f"tool {error['tool']!r} ")
        + f"at {error['pointer'] or '/'}{_keyword(error)}: {error['reason']}"
        + (f" ({error['suggestion']})" if error["suggestion"] else "")
        for error in errors
    ]


def _keyword(error: dict[str, Any]) -> str:
    """The keyword, where the pointer does not tell it."""
    is_told = not error["keyword"] or error["pointer"].endswith(f"/{error['keyword']}")
    return "" if is_told else f" ({error['keyword']})"


def _report_cells(report: dict[str, Any] | None) -> tuple[str, str, str]:
    if report is None:
        return "", "", ""
    narrowed = [
        f"{entry['pointer'] or '/'} {entry['keyword']}"
        for entry in report["entries"]
        if entry["verdict"] == "narrowed"
    ]
    shown = ", ".join(narrowed[:3]) + (f" and {len(narrowed) - 3} more" if len(narrowed) > 3 else "")
    return f"{report['grammar_bytes'] / 1024:.0f} KB", f"{report['compile_ms']:.0f} ms", shown


def _ignored_lines(reports: list[dict[str, Any]]) -> Iterator[str]:
    """What of the schemas nobody upholds, most likely by a slip."""
    for report in reports:
        for entry in report["entries"]:
            if entry["verdict"] == "annotation" and entry["note"]:
                place = entry["pointer"] or "/"
                yield f"tool {report['name']!r} at {place}: {entry['keyword']!r}: {entry['note']}"


def _failure(message: str) -> typer.Exit:
    Console(stderr=True).print(message, style="red", markup=False, highlight=False, soft_wrap=True)
    return typer.Exit(1)
