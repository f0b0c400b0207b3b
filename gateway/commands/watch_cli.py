"""`callgate tools watch`: reports regularly which tools have changed at their sources; changes nothing."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, cast, get_args

import httpx
import msgspec
import typer
from rich.console import Console

from gateway.commands.gateway_client import (
    KeyOption,
    UrlOption,
    checked_answer,
    count_tools,
    failure,
    listed_toolsets,
    open_gateway,
    toolset_path,
)
from gateway.commands.import_cli import (
    DifferenceReply,
    HeaderOption,
    ImportReply,
    listing_of,
    read_headers,
    read_source,
    show_differences,
)
from gateway.commands.terminal import say, visible_line
from gateway.errors import GatewayError
from gateway.setting_sources import source_access, source_environment
from gateway.sources.outbound import NOT_PUBLIC, origin_of_url
from gateway.sources.source_readers import MAX_BYTES, SourceKind, is_url
from toolspecs.errors import ToolspecsError
from toolspecs.imports.openapi import OperationFilter
from toolspecs.json_scan import ContentLimits
from toolspecs.nearest import unknown

CHANGED, UNREAD = 1, 2


class _SourceReply(msgspec.Struct):
    """A source of a toolset."""

    source: str
    kind: str
    location: str
    selection: dict[str, list[str]]

    @property
    def filter(self) -> OperationFilter:
        """The filter for the operations to import from it."""
        kinds = (self.selection.get(kind, ()) for kind in ("tags", "paths", "operations"))
        return OperationFilter(*map(tuple, kinds))


class _SourcesReply(msgspec.Struct):
    """The sources of a toolset."""

    sources: list[_SourceReply]


def watch_tools(
    toolsets: Annotated[list[str], typer.Argument(metavar="TOOLSET…", help="Names of toolsets.")],
    *,
    every: Annotated[float, typer.Option(min=1, help="Seconds from one round to the next.")] = 3600,
    once: Annotated[
        bool,
        typer.Option("--once", help="One round; exit with 1 if a tool differs, 2 if a source is unread."),
    ] = False,
    openapi: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="OpenAPI document that tools were imported from; repeatable."),
    ] = None,
    header: HeaderOption = None,
    origin: Annotated[
        list[str] | None,
        typer.Option(
            help="Origin, such as https://tools.example, whose sources may be in a private network, and get"
            " the headers and the tokens of the environment; repeatable. Whoever may register names others."
        ),
    ] = None,
    url: UrlOption = None,
    api_key: KeyOption = None,
) -> None:
    """Report what differs at the sources of toolsets; nothing is changed.

    The sources are read from this machine: those at public URLs, at those of --origin and of
    CALLGATE_SOURCE_NETWORKS, and the files that --openapi names. A difference is reported once, until it
    changes again.
    """
    if header and not origin:
        raise failure(
            "--header needs --origin: without it, anybody who may register could have it sent to them"
        )
    watch = _Watch(
        tuple(toolsets), tuple(openapi or ()), tuple(header or ()), tuple(origin or ()), url, api_key
    )
    try:
        while True:
            result = watch.round()
            if once:
                raise typer.Exit(result)
            time.sleep(every)
    except _UnknownToolset as error:
        failure(str(error))
        raise typer.Exit(UNREAD) from None
    except KeyboardInterrupt:
        raise typer.Exit from None


class _UnknownToolset(Exception):
    """A toolset to watch did not exist when it was first read: most likely its name is misspelt."""


@dataclass(frozen=True, slots=True)
class _Watch:
    """The toolsets to watch, and the differences that were last reported for each of their sources."""

    toolsets: tuple[str, ...]
    files: tuple[str, ...]
    headers: tuple[str, ...]
    origins: tuple[str, ...]
    url: str | None
    api_key: str | None
    reported: dict[tuple[str, str], Sequence[DifferenceReply]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    """The toolsets that have been read."""

    def round(self) -> int:
        """Check all sources once; returns 0 if nothing differs, otherwise CHANGED or UNREAD.

        Raises:
            _UnknownToolset: one of the toolsets does not exist, and did not in earlier rounds.
        """
        results = {0}
        try:
            with open_gateway(self.url, self.api_key) as (client, console):
                for toolset in self.toolsets:
                    results |= set(self._results(client, console, toolset))
        except typer.Exit:  # it was said why; the gateway may be back for the next round
            results.add(UNREAD)
        return CHANGED if CHANGED in results else max(results)

    def _results(self, client: httpx.Client, console: Console, toolset: str) -> Iterator[int]:
        answer = client.get(toolset_path(toolset))
        if answer.status_code == httpx.codes.NOT_FOUND and toolset not in self.seen:
            names = [known.name for known in listed_toolsets(client)]
            raise _UnknownToolset(unknown("toolset", toolset, names))
        try:
            sources = checked_answer(answer, _SourcesReply).sources
            self.seen.add(toolset)
            if not sources:
                raise failure(f"toolset {toolset} was not imported from any source")
        except typer.Exit:
            yield UNREAD
            return
        for source in sources:
            try:
                yield self._look(client, console, toolset, source)
            except typer.Exit:
                yield UNREAD

    def _look(self, client: httpx.Client, console: Console, toolset: str, source: _SourceReply) -> int:
        """Read one source and compare; if that fails, prints why and raises typer.Exit."""
        listing = {**self._listing(toolset, source), **source.selection, "location": source.location}
        body = {"listing": listing, "skip_refused": True, "dry_run": True}
        reply = checked_answer(client.post(f"{toolset_path(toolset)}/import", json=body), ImportReply)
        if reply.differences != self.reported.get((toolset, source.source), []):
            num = len(reply.differences)
            now = f"{count_tools(num)} differ{'s' if num == 1 else ''}" if num else "nothing differs"
            say(console, f"toolset {toolset}: {now} at {visible_line(source.source)}")
            show_differences(console, reply.differences)
        self.reported[toolset, source.source] = reply.differences
        return CHANGED if reply.differences else 0

    def _listing(self, toolset: str, source: _SourceReply) -> dict[str, Any]:
        """The tools that a source has now; if it cannot be read, prints why and raises typer.Exit."""
        if is_url(source.location):
            return self._listing_at_url(source)
        named = f"{visible_line(source.source)} of toolset {toolset}"
        if source.kind != "openapi":
            reason = "is not at a URL, and a process imports a module once, so it would not see a change"
            raise failure(f"{named} {reason}; compare it by `callgate tools import --dry-run`")
        for path in self.files:
            imported = read_source("openapi", path, (), source.filter)
            if imported.source_id == source.source:
                return listing_of(imported, source.filter)
        raise failure(f"{named} is not at a URL; name its file by --openapi FILE")

    def _listing_at_url(self, source: _SourceReply) -> dict[str, Any]:
        """As `_listing`, for a URL. Anyone who may register chose it, so a confined process reads it."""
        # It needs a POSIX system.
        from gateway.sources.source_process import SourceOrder, SourceProcesses  # noqa: PLC0415

        if source.kind not in get_args(SourceKind):
            raise failure(f"{visible_line(source.source)} is of a kind that cannot be read from here")
        is_named = origin_of_url(source.location) in map(origin_of_url, self.origins)
        try:
            access = source_access(source.location, is_named=is_named)
            processes = SourceProcesses(
                max_bytes=MAX_BYTES,
                contents=ContentLimits(),
                access=access,
                environment=source_environment(),
            )
            order = SourceOrder(
                kind=cast("SourceKind", source.kind),
                url=source.location,
                headers=read_headers(self.headers) if is_named else {},
                tags=source.filter.tags,
                paths=source.filter.paths,
                operations=source.filter.operations,
            )
            imported = asyncio.run(processes.read(order))
        except (ToolspecsError, GatewayError) as error:
            origin = origin_of_url(source.location)
            way_out = f"; if you trust it, add --origin {origin}" if NOT_PUBLIC in str(error) else ""
            raise failure(f"{error}{way_out}") from error
        unread = [str(fault.tool) for fault in imported.found_faults()]
        return {"kind": imported.kind, "tools": imported.tools, "unread": unread}
