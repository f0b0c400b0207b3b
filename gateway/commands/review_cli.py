"""`callgate tools accept` and `decline`: decide on the tools that differ at the sources of a toolset."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any

import httpx
import msgspec
import typer

from gateway.commands.gateway_client import (
    KeyOption,
    ToolsetArgument,
    UrlOption,
    checked_answer,
    count_tools,
    failure,
    open_gateway,
    toolset_path,
    warn,
)
from gateway.commands.import_cli import DifferenceReply, show_differences
from gateway.commands.terminal import say, visible_line
from gateway.commands.tools_cli import ApplyReply

DifferingArgument = Annotated[
    list[str] | None, typer.Argument(help="Names of tools, such as get_*. Default: all that differ.")
]
SourceOption = Annotated[
    str | None, typer.Option(help="Only from this source, such as 'mcp https://tools.example/mcp'.")
]

MAX_DECLINED = 10
"""The most declined tools that are named."""


class _DifferencesReply(msgspec.Struct):
    """The differences at the sources of a revision, and separately those that were declined."""

    etag: str
    differences: list[DifferenceReply]
    declined: list[DifferenceReply]

    def chosen(self, toolset: str, names: Sequence[str], source: str | None) -> Sequence[DifferenceReply]:
        """The differences that match names or patterns, or all of them; of one source, or of all.

        A declined difference is matched only by its full name. Ends the command if a name matches nothing.
        """
        differing = [difference for difference in self.differences if source in {None, difference.source}]
        if not names:
            return differing
        declined = [
            difference
            for difference in self.declined
            if source in {None, difference.source} and difference.tool in names
        ]
        meant = [
            difference
            for difference in differing
            if any(fnmatchcase(difference.tool, name) for name in names)
        ] + declined
        for name in names:
            if not any(fnmatchcase(difference.tool, name) for difference in meant):
                reason = f"no tool {visible_line(name)} differs, so nothing was changed"
                raise failure(f"{reason}; `callgate tools accept {toolset} --dry-run` shows those that do")
        return meant

    def told_nothing(self, toolset: str) -> str:
        """What is said where no tool differs, except perhaps some that were declined."""
        told = f"toolset {toolset} is as its sources were when they were imported last"
        if not self.declined:
            return told
        names = [visible_line(difference.tool) for difference in self.declined[:MAX_DECLINED]]
        more = ", …" if len(self.declined) > MAX_DECLINED else ""
        num = count_tools(len(self.declined))
        return f"{told}, but for {num} declined: {', '.join(names)}{more}; accept one by its whole name"


class _RevisionReply(msgspec.Struct):
    """The revision that is current now."""

    revision: int


def accept_tools(
    toolset: ToolsetArgument,
    tool: DifferingArgument = None,
    *,
    source: SourceOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be accepted.")] = False,
    url: UrlOption = None,
    api_key: KeyOption = None,
) -> None:
    """Serve tools as their source offered them when it was imported last; shows what changes.

    A tool that was declined is accepted by its whole name.
    """
    with open_gateway(url, api_key) as (client, console):
        reply = _differences(client, toolset, source)
        chosen = reply.chosen(toolset, tool or (), source)
        show_differences(console, chosen)
        if not chosen:
            say(console, reply.told_nothing(toolset))
        if dry_run or not chosen:
            return
        with console.status("compiling …"):
            answer = _decide(client, f"{toolset_path(toolset)}/accept", reply, chosen if tool else (), source)
        summary = checked_answer(answer, ApplyReply)
        tools = count_tools(summary.num_tools)
        say(console, f"toolset {toolset} is now at revision {summary.revision}, {tools}")
        warn(console, summary.warnings)


def decline_tools(
    toolset: ToolsetArgument,
    tool: DifferingArgument = None,
    *,
    source: SourceOption = None,
    url: UrlOption = None,
    api_key: KeyOption = None,
) -> None:
    """Decline differences: they are not reported again until the source changes these tools again."""
    with open_gateway(url, api_key) as (client, console):
        reply = _differences(client, toolset, source)
        chosen = reply.chosen(toolset, tool or (), source)
        if not chosen:
            say(console, reply.told_nothing(toolset))
            return
        answer = _decide(client, f"{toolset_path(toolset)}/decline", reply, chosen if tool else (), source)
        revision = checked_answer(answer, _RevisionReply).revision
        for difference in chosen:
            say(console, f"{visible_line(difference.tool)}: {difference.change}, declined")
        say(console, f"toolset {toolset} is now at revision {revision} and serves what it served")


def _differences(client: httpx.Client, toolset: str, source: str | None) -> _DifferencesReply:
    query = {"source": source} if source else {}
    return checked_answer(client.get(f"{toolset_path(toolset)}/differences", params=query), _DifferencesReply)


def _decide(
    client: httpx.Client,
    path: str,
    reply: _DifferencesReply,
    chosen: Sequence[DifferenceReply],
    source: str | None,
) -> httpx.Response:
    """Accept or decline the differences that were shown, or all of them if `chosen` is empty."""
    names = {"tools": [difference.tool for difference in chosen]} if chosen else {}
    body: dict[str, Any] = {**names, **({"source": source} if source else {})}
    return client.post(path, json=body, headers={"If-Match": reply.etag})
