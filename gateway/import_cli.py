"""`callgate tools import`: the tools of a source as a toolset, and what changed there since.

Tools are pinned. What the source says on a later import changes nothing by itself: the command shows the
difference, and takes only the changes that `--accept` names.
"""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any

import httpx
import msgspec
import typer
from rich.console import Console

from gateway.command_options import table
from gateway.errors import ExtraMissing
from gateway.import_sources import from_mcp, from_openapi, from_python
from gateway.setting_sources import source_token
from gateway.tools_cli import (
    ApplyReply,
    CheckReply,
    KeyOption,
    ProblemReply,
    ToolsetReply,
    UnenforcedPart,
    UrlOption,
    checked_answer,
    failure,
    fault_line,
    open_gateway,
    registered_toolset,
    toolset_path,
)
from toolspecs.errors import ToolspecsError
from toolspecs.imports.imported import Imported, origin_of, toolset_name
from toolspecs.imports.openapi import EVERYTHING, OperationFilter
from toolspecs.shapes import Shape, write_tool

Tools = dict[str, dict[str, Any]]
"""Tools by name, each in the shape that has all of its fields."""


@dataclass(frozen=True, slots=True)
class _Difference:
    """What became of the registered tools at their source; `current` and `offered` are both in order."""

    current: Tools
    offered: Tools
    changes: Mapping[str, str]

    @property
    def changed(self) -> tuple[str, ...]:
        """The names of the tools that differ."""
        return tuple(name for name, change in self.changes.items() if change != "unchanged")

    def accepted(self, names: Iterable[str]) -> Tools:
        """The registered tools, with the changes of the tools `names`."""
        tools = dict(self.current)
        for name in names:
            if name in self.offered:
                tools[name] = self.offered[name]
            else:
                del tools[name]
        return tools


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
    header: Annotated[
        list[str] | None, typer.Option(help="Header to send to the source, as 'Name: value'; repeatable.")
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(help="Take the changes of tools with such a name, as get_*; repeatable."),
    ] = None,
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

    A toolset that exists stays as it is: --accept takes changes. CALLGATE_SOURCE_TOKEN is sent to the source
    as a bearer token.
    """
    selection = OperationFilter(tuple(tag or ()), tuple(path or ()), tuple(operation or ()))
    imported = _imported(functions or (), openapi, mcp, _headers(header or ()), selection)
    _tell_faults(imported, is_fatal=not skip_refused)
    offered = {tool.name: write_tool(tool, Shape.MCP) for tool in imported.marked()}
    toolset = name or toolset_name(imported.title)
    if is_printed:
        typer.echo(json.dumps({"name": toolset, "tools": [*offered.values()]}, indent=2, ensure_ascii=False))
        return
    with open_gateway(url, api_key) as (client, console):
        registered = _registered(client, toolset)
        target = _Toolset(client, console, toolset, registered, skip_refused=skip_refused)
        if registered is None:
            target.create(offered, is_dry_run=dry_run)
        else:
            target.update(offered, imported.origin, tuple(accept or ()), is_dry_run=dry_run)


def _imported(
    functions: Sequence[str],
    openapi: str | None,
    mcp: str | None,
    headers: Mapping[str, str],
    selection: OperationFilter,
) -> Imported:
    """The tools of the one source that is named; ends the command if it cannot be read."""
    if sum(bool(source) for source in (functions, openapi, mcp)) != 1:
        raise failure("name one source: MODULE:NAME, --openapi FILE_OR_URL or --mcp URL")
    if selection != EVERYTHING and not openapi:
        raise failure("--tag, --path and --operation are for --openapi")
    try:
        if openapi:
            return from_openapi(openapi, headers, selection)
        return from_mcp(mcp, headers) if mcp else from_python(functions)
    except (ToolspecsError, ExtraMissing) as error:
        raise failure(visible(str(error))) from error


@dataclass(frozen=True, slots=True)
class _Toolset:
    """The toolset that tools are imported into."""

    client: httpx.Client
    console: Console
    name: str
    registered: ToolsetReply | None
    skip_refused: bool

    def create(self, offered: Tools, *, is_dry_run: bool) -> None:
        """Register a new toolset."""
        tools, changes = self._enforceable(offered)
        if is_dry_run:
            self._show(_Difference({}, tools, changes))
        else:
            self._put(tools, {"If-None-Match": "*"})

    def update(self, offered: Tools, origin: str, globs: Sequence[str], *, is_dry_run: bool) -> None:
        """Show the difference to the registered tools, and take what matches `globs`."""
        assert self.registered
        current = {_name(tool): tool for tool in self.registered.tools}
        gone = {name for name, tool in current.items() if origin_of(tool.get("_meta")) == origin} - {*offered}
        candidate = {name: offered.get(name, tool) for name, tool in current.items() if name not in gone}
        tools, changes = self._enforceable({**candidate, **offered}, fallback=current)
        difference = _Difference(current, tools, changes)
        self._show(difference)
        taken = [name for name in difference.changed if any(fnmatchcase(name, glob) for glob in globs)]
        unmatched = [
            glob for glob in globs if not any(fnmatchcase(name, glob) for name in difference.changed)
        ]
        if unmatched and difference.changed:
            raise failure(f"no change is of a tool {', '.join(unmatched)}; nothing was stored")
        num_kept = len(difference.changed) - len(taken)
        if taken and not is_dry_run:
            self._put(difference.accepted(taken), {"If-Match": self.registered.etag})
        if num_kept:
            self._say(
                f"{num_kept} tool{' differs' if num_kept == 1 else 's differ'} at the source and"
                f" stay{'s' if num_kept == 1 else ''} as registered; take a change by --accept NAME,"
                " all by --accept '*'"
            )
        elif not difference.changed:
            self._say(f"toolset {self.name} is as the source has it")

    def _enforceable(self, tools: Tools, fallback: Tools | None = None) -> tuple[Tools, Mapping[str, str]]:
        """The tools that can be enforced, and what storing them would change.

        A tool that cannot be enforced ends the command. With `skip_refused` it is left out instead, or stays
        as it is in `fallback`.
        """
        while True:
            body = self._body(tools)
            with self.console.status("compiling …"):
                response = self.client.post(f"{toolset_path(self.name)}/check", json=body)
            refused = _refused(response) if self.skip_refused else {}
            if not refused:
                return tools, checked_answer(response, CheckReply).changes
            for name, lines in refused.items():
                for line in lines:
                    self._say(visible(line), "yellow")
                if fallback and name in fallback and tools[name] != fallback[name]:
                    tools = {**tools, name: fallback[name]}
                else:
                    tools = {other: tool for other, tool in tools.items() if other != name}

    def _show(self, difference: _Difference) -> None:
        shown = table("tool", "change")
        for name in difference.changed:
            shown.add_row(visible(name), difference.changes[name])
        if difference.changed:
            self.console.print(shown)
        for name in difference.changed:
            if name in difference.current and name in difference.offered:
                for line in _diff(name, difference.current[name], difference.offered[name]):
                    self._say(line, {"+": "green", "-": "red"}.get(line[:1]))

    def _put(self, tools: Tools, precondition: Mapping[str, str]) -> None:
        body = self._body(tools)
        with self.console.status("compiling …"):
            response = self.client.put(toolset_path(self.name), json=body, headers=precondition)
        summary = checked_answer(response, ApplyReply)
        verb = "created" if self.registered is None else "is now"
        plural = "" if summary.num_tools == 1 else "s"
        self._say(
            f"toolset {summary.name} {verb} at revision {summary.revision}, {summary.num_tools} tool{plural}"
        )
        for line in _in_groups(summary.warnings):
            self._say(visible(line), "yellow")

    def _body(self, tools: Tools) -> dict[str, Any]:
        return {"tools": [*tools.values()], **(self.registered.others if self.registered else {})}

    def _say(self, line: str, style: str | None = None) -> None:
        self.console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)


def visible(text: str) -> str:
    r"""A stranger's text, in which every character can be seen: none moves the cursor or hides others.

    >>> print(visible("Adds.\u202e\x1b[8m"))
    Adds.\u202e\x1b[8m
    """
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )


def _headers(given: Iterable[str]) -> dict[str, str]:
    token = source_token()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    for header in given:
        name, colon, value = header.partition(":")
        if not colon or not name.strip():
            raise failure("a header is written as 'Name: value'")
        headers[name.strip()] = value.strip()
    return headers


def _tell_faults(imported: Imported, *, is_fatal: bool) -> None:
    console = Console(stderr=True)
    for fault in imported.faults:
        style = "red" if is_fatal else "yellow"
        console.print(visible(str(fault)), style=style, markup=False, highlight=False, soft_wrap=True)
    if imported.faults and is_fatal:
        raise failure("nothing was imported; --skip-refused imports the other tools")


def _registered(client: httpx.Client, name: str) -> ToolsetReply | None:
    response = client.get(toolset_path(name))
    if response.status_code == httpx.codes.NOT_FOUND:
        return None
    return registered_toolset(client, checked_answer(response, ToolsetReply))


def _name(tool: Mapping[str, Any]) -> str:
    return str((tool.get("function") or tool.get("custom") or tool)["name"])


def _refused(response: httpx.Response) -> dict[str, list[str]]:
    """The tools that the gateway refused, by name, with the reasons."""
    if response.status_code != httpx.codes.UNPROCESSABLE_ENTITY:
        return {}
    refused: dict[str, list[str]] = {}
    for fault in msgspec.json.decode(response.content, type=ProblemReply).errors:
        if not isinstance(fault.tool, str):
            return {}
        refused.setdefault(fault.tool, []).append(fault_line(fault))
    return refused


def _in_groups(warnings: Iterable[UnenforcedPart]) -> Iterator[str]:
    """Warnings of the same cause in one line: documents repeat the same formats in hundreds of places."""
    groups: dict[tuple[str, str], list[UnenforcedPart]] = {}
    for warning in warnings:
        groups.setdefault((warning.keyword, warning.note), []).append(warning)
    for (keyword, note), places in groups.items():
        first = f"tool {places[0].tool!r} at {places[0].pointer or '/'}"
        others = f", and in {len(places) - 1} more places" if len(places) > 1 else ""
        yield f"{first}{others}: {keyword!r}: {note}"


def _diff(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """The difference of two tools, line by line, as `diff -u` writes it."""
    before, after = (
        [visible(line) for line in json.dumps(tool, indent=2, ensure_ascii=False).split("\n")]
        for tool in (old, new)
    )
    yield from difflib.unified_diff(
        before, after, f"{name}, registered", f"{name}, at the source", "", "", 2, ""
    )
