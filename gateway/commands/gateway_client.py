"""A command's client of a running gateway: its options, requests and answers, and printed errors."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, TypeVar
from urllib.parse import quote

import httpx
import msgspec
import typer
from rich.console import Console

from gateway.commands.terminal import output, say
from gateway.setting_sources import DEFAULT_URL, client_settings

TIMEOUT_S = 600.0
"""Compiling a thousand tools takes minutes; a request that takes longer than this is stuck."""

UrlOption = Annotated[
    str | None, typer.Option(help=f"URL of the gateway. Default: CALLGATE_URL, or {DEFAULT_URL}.")
]

KeyOption = Annotated[
    str | None, typer.Option("--api-key", help="API key of the gateway. Default: CALLGATE_API_KEY.")
]

ToolsetArgument = Annotated[str, typer.Argument(help="The toolset's name.")]

T = TypeVar("T")


class UnenforcedPart(msgspec.Struct):
    """A part of a schema that is not enforced, most likely by mistake."""

    tool: str
    pointer: str
    keyword: str
    note: str


class SummaryReply(msgspec.Struct):
    """A revision, without its tools."""

    name: str
    revision: int
    num_tools: int
    created_at: str


class _PageReply(msgspec.Struct):
    """One page of toolsets; `next` is where the next page begins."""

    toolsets: list[SummaryReply]
    next: str | None


class FaultReply(msgspec.Struct):
    """A fault of a tool or a document."""

    tool: str | int | None
    pointer: str
    keyword: str
    reason: str
    suggestion: str


class ErrorReply(msgspec.Struct):
    """OpenAI's error object, which some routes answer with."""

    message: str


class ProblemReply(msgspec.Struct):
    """Why a request failed: problem details, or OpenAI's error object."""

    detail: str = ""
    errors: list[FaultReply] = []
    error: ErrorReply | None = None

    def __str__(self) -> str:
        """Every fault in a line, or else the one reason; empty if the answer holds none."""
        return "\n".join(map(fault_line, self.errors)) or (self.error.message if self.error else self.detail)


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
        reason = str(msgspec.json.decode(response.content, type=ProblemReply))
    except msgspec.MsgspecError:
        reason = ""
    if response.status_code == httpx.codes.UNAUTHORIZED and reason:
        reason = "this gateway needs a valid API key: give it with --api-key, or in CALLGATE_API_KEY"
    no_gateway = f"HTTP {response.status_code} from {response.url}: the answer is not that of a gateway"
    raise failure(reason or no_gateway)


def fault_line(fault: FaultReply) -> str:
    """A fault in one line."""
    subject = "" if fault.tool is None else f"tool {fault.tool!r} "
    suggestion = f" ({fault.suggestion})" if fault.suggestion else ""
    return f"{subject}at {fault.pointer or '/'}{_keyword(fault)}: {fault.reason}{suggestion}"


def _keyword(fault: FaultReply) -> str:
    """The keyword, if the pointer does not end in it."""
    is_in_pointer = not fault.keyword or fault.pointer.endswith(f"/{fault.keyword}")
    return "" if is_in_pointer else f" ({fault.keyword})"


def toolset_path(toolset: str) -> str:
    """The path of a toolset's URL."""
    if not toolset:
        raise failure("a toolset needs a name")
    return f"/v1/toolsets/{quote(toolset, safe='')}"


def listed_toolsets(client: httpx.Client) -> Iterator[SummaryReply]:
    """All toolsets, page after page."""
    query: dict[str, str | int] = {"limit": 1000}
    while True:
        page = checked_answer(client.get("/v1/toolsets", params=query), _PageReply)
        yield from page.toolsets
        if page.next is None:
            return
        query["after"] = page.next


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
