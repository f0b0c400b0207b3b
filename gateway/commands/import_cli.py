"""`callgate tools import`: registers the tools of a source, and shows what has changed there since.

Tools are pinned: a later import changes nothing that is served. The command shows the differences, and
`callgate tools accept` and `decline` decide on them (`gateway/commands/review_cli.py`).
"""

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from gateway.commands.gateway_client import (
    FaultReply,
    KeyOption,
    SummaryReply,
    UnenforcedPart,
    UrlOption,
    checked_answer,
    count_tools,
    failure,
    fault_line,
    open_gateway,
    toolset_path,
    warn,
)
from gateway.commands.terminal import json_text, say, table
from gateway.errors import ExtraMissing, SettingsError
from gateway.setting_sources import source_credentials
from gateway.sources.source_readers import SourceKind, from_python, import_source
from toolspecs.errors import ToolspecsError
from toolspecs.imports.imported import Imported, toolset_name
from toolspecs.imports.openapi import EVERYTHING, OperationFilter
from toolspecs.shapes import Shape, write_tool

HeaderOption = Annotated[
    list[str] | None, typer.Option(help="Header to send to the source, as 'Name: value'; repeatable.")
]


MAX_COMPARED = 1_000_000
"""Pairs of lines of two tools that are compared line by line."""


class DifferenceReply(msgspec.Struct, frozen=True):
    """A tool that differs at its source."""

    tool: str
    source: str
    change: str
    served: dict[str, Any] | None
    offered: dict[str, Any] | None


class ImportReply(msgspec.Struct):
    """What an import found."""

    toolset: SummaryReply | None
    created: bool
    differences: list[DifferenceReply]
    declined: list[DifferenceReply] = []
    refused: list[FaultReply] = []
    warnings: list[UnenforcedPart] = []


def import_tools(
    functions: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODULE:NAME", help="Python functions or pydantic models."),
    ] = None,
    *,
    openapi: Annotated[
        str | None, typer.Option(metavar="FILE|URL", help="OpenAPI 3 document, JSON or YAML.")
    ] = None,
    mcp: Annotated[str | None, typer.Option(metavar="URL", help="MCP server, over streamable HTTP.")] = None,
    name: Annotated[
        str | None, typer.Option(help="The toolset's name. Default: after the source's own name.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Only operations with this tag; repeatable.")] = None,
    path: Annotated[
        list[str] | None, typer.Option(help="Only operations at such a path, as /v1/users*; repeatable.")
    ] = None,
    operation: Annotated[
        list[str] | None, typer.Option(help="Only operations with such an id, as get*; repeatable.")
    ] = None,
    header: HeaderOption = None,
    skip_refused: Annotated[
        bool, typer.Option("--skip-refused", help="Import the other tools if some are refused.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    is_printed: Annotated[
        bool, typer.Option("--print", help="Print the toolset as JSON for `apply`; needs no gateway.")
    ] = False,
    url: UrlOption = None,
    api_key: KeyOption = None,
) -> None:
    """Register the tools of a source, or show what changed there since.

    A toolset that exists is served as it was accepted: `callgate tools accept` takes changes.
    CALLGATE_SOURCE_TOKEN is sent to the source as a bearer token.
    """
    selection = OperationFilter(tuple(tag or ()), tuple(path or ()), tuple(operation or ()))
    places: dict[SourceKind, str | None] = {"mcp": mcp, "openapi": openapi}
    named = {kind: place for kind, place in places.items() if place}
    imported = _imported(functions or (), named, header or (), selection)
    _tell_faults(imported, is_fatal=not skip_refused)
    toolset = name or toolset_name(imported.title)
    if is_printed:
        tools = [write_tool(tool, Shape.MCP) for tool in imported.with_source_ids()]
        typer.echo(json_text({"name": toolset, "tools": tools}))
        return
    with open_gateway(url, api_key) as (client, console):
        body = {"listing": listing_of(imported, selection), "skip_refused": skip_refused, "dry_run": dry_run}
        with console.status("compiling …"):
            reply = checked_answer(client.post(f"{toolset_path(toolset)}/import", json=body), ImportReply)
        _tell(console, toolset, reply)


def listing_of(imported: Imported, selection: OperationFilter) -> dict[str, Any]:
    """The tools of a source as the body of an import request, which sends them as a `listing`."""
    return {
        "kind": imported.kind,
        "location": imported.location,
        "tools": [write_tool(tool, Shape.MCP) for tool in imported.tools],
        "unread": [str(fault.tool) for fault in imported.faults],
        **selection.by_kind,
    }


def _imported(
    functions: Sequence[str],
    named: Mapping[SourceKind, str],
    header: Sequence[str],
    selection: OperationFilter,
) -> Imported:
    """The tools of the one source on the command line; ends the command if it cannot be read."""
    if bool(functions) + len(named) != 1:
        raise failure("name one source: MODULE:NAME, --openapi FILE_OR_URL or --mcp URL")
    if selection != EVERYTHING and "openapi" not in named:
        raise failure("--tag, --path and --operation are for --openapi")
    if functions:
        return _read(lambda: from_python(functions))
    [(kind, place)] = named.items()
    return read_source(kind, place, header, selection)


def read_source(kind: SourceKind, place: str, header: Sequence[str], selection: OperationFilter) -> Imported:
    """The tools of a source that the user has named; ends the command if it cannot be read."""
    own_headers = read_headers(header)

    def read() -> Imported:
        credentials = source_credentials()
        headers = credentials.headers(own_headers)
        return import_source(kind, place, headers, credentials=credentials, selection=selection)

    return _read(read)


def _read(read: Callable[[], Imported]) -> Imported:
    try:
        return read()
    except (ToolspecsError, ExtraMissing, SettingsError) as error:
        raise failure(str(error)) from error


def _tell(console: Console, toolset: str, reply: ImportReply) -> None:
    """Print what an import did."""
    for fault in reply.refused:
        say(console, fault_line(fault), "yellow")
    show_differences(console, reply.differences, with_new=reply.toolset is not None)
    if reply.created and reply.toolset:
        created = reply.toolset
        tools = count_tools(created.num_tools)
        say(console, f"toolset {created.name} created at revision {created.revision}, {tools}")
        warn(console, reply.warnings)
    elif not reply.differences:
        but = f", but for {count_tools(len(reply.declined))} declined" if reply.declined else ""
        say(console, f"toolset {toolset} is as the source has it{but}")
    elif reply.toolset:
        num = len(reply.differences)
        say(
            console,
            f"{count_tools(num)} differ{'s' if num == 1 else ''} at the source and"
            f" stay{'s' if num == 1 else ''} as accepted; `callgate tools accept {toolset}` takes"
            f" {'it' if num == 1 else 'them'}, `decline` leaves {'it' if num == 1 else 'them'} aside",
        )


def show_differences(
    console: Console, differences: Sequence[DifferenceReply], *, with_new: bool = True
) -> None:
    """Print the tools that differ and their differences line by line; new tools only `with_new`."""
    if not differences:
        return
    listing = table("tool", "change")
    for difference in differences:
        listing.add_row(difference.tool, difference.change)
    console.print(listing)
    for difference in differences:
        if difference.offered and (difference.served or with_new):
            for line in _diff(difference.tool, difference.served, difference.offered):
                say(console, line, {"+": "green", "-": "red"}.get(line[:1]))


def read_headers(lines: Iterable[str]) -> dict[str, str]:
    """The headers of `--header`; ends the command if one is malformed."""
    headers = {}
    for number, header in enumerate(lines, 1):
        name, colon, value = header.partition(":")
        if not colon or not name.strip():
            # It is not shown: it may be a secret.
            raise failure(f"--header number {number} has no name and colon; write it as 'Name: value'")
        headers[name.strip()] = value.strip()
    return headers


def _tell_faults(imported: Imported, *, is_fatal: bool) -> None:
    console = Console(stderr=True)
    for fault in imported.faults:
        say(console, str(fault), "red" if is_fatal else "yellow")
    if imported.faults and is_fatal:
        raise failure("nothing was imported; --skip-refused imports the other tools")


def _diff(name: str, old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> Iterator[str]:
    """The difference of two tools, line by line, as `diff -u` writes it; None stands for no tool.

    Very long tools are shown whole: comparing them could take hours, and a hostile source may have written
    both.
    """
    before, after = (
        [line for line in json.dumps(tool, indent=2, ensure_ascii=False).split("\n") if tool]
        for tool in (old, new)
    )
    titles = f"{name}, {'as accepted' if old else 'not accepted'}", f"{name}, at the source"
    if len(before) * len(after) > MAX_COMPARED:
        yield from (f"--- {titles[0]}", f"+++ {titles[1]}")
        yield from (f"-{line}" for line in before)
        yield from (f"+{line}" for line in after)
        return
    yield from difflib.unified_diff(before, after, *titles, "", "", 2, "")
