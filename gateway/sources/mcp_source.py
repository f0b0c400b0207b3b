"""Reads the tools that an MCP server lists, over streamable HTTP, with the MCP SDK (an extra)."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import httpx2
from mcp.client import Client, Transport
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse, ListToolsRequest, ListToolsResult, PaginatedRequestParams, Tool
from mcp_types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from gateway.sources.outbound import CheckedHosts, GuardedRequests, SourceCredentials
from toolspecs.errors import Fault, UnreadableSource
from toolspecs.json_pointer import shown_pointer
from toolspecs.json_value import Limits
from toolspecs.nearest import MAX_NAME, shorten

_TIMEOUT_S = 60.0

# Without a handler, Python prints what the SDK logs: tracebacks, and a server's text with control characters.
logging.getLogger("mcp").addHandler(logging.NullHandler())


async def read_listing(
    url: str,
    headers: Mapping[str, str],
    credentials: SourceCredentials | None,
    hosts: CheckedHosts | None,
    max_bytes: int,
) -> tuple[str, list[dict[str, Any]], list[Fault]]:
    """The name of a server, its tools as JSON, and the faults of those that cannot be used.

    A tool that breaks the protocol is only a name among the tools, so that the others keep their places. With
    the `credentials` of an OAuth client, the SDK gets a token from the issuer and sends it.

    Raises:
        UnreadableSource: there is no server, or it does not list its tools.
    """
    status, results = _LastStatus(), _LastResult()
    deadline = asyncio.timeout(_TIMEOUT_S)
    try:
        async with (
            deadline,
            httpx2.AsyncClient(
                headers=dict(headers),
                timeout=_TIMEOUT_S,
                transport=_CheckedAsyncTransport(GuardedRequests(hosts, max_bytes)) if hosts else None,
                auth=_oauth(url, credentials),
                event_hooks={"response": [status.note]},
            ) as http,
            Client(results.noting(streamable_http_client(url, http_client=http))) as client,
        ):
            found = [tool async for tool in _tools(client, url, results)]
            faults = [fault for fault in found if isinstance(fault, Fault)]
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                faults += _header_faults(found)
            title = client.server_info.name if client.server_info else url
            return title, [_as_json(tool) for tool in found], faults
    except Exception as error:
        if hosts and hosts.refusal:  # the SDK reports another error in its place
            raise hosts.refusal from error
        cause = error
        while isinstance(cause, ExceptionGroup):
            cause = cause.exceptions[0]
        if deadline.expired():  # the SDK may raise an error of its own when it is cancelled
            cause = TimeoutError()
        if isinstance(cause, UnreadableSource):
            raise cause from error
        raise UnreadableSource(url, _reason(cause, status)) from error


async def _tools(client: Client, url: str, results: "_LastResult") -> AsyncIterator[Tool | Fault]:
    """The tools on all pages, or at least one more than a toolset may have; faults of those that are broken.

    `Client.list_tools` would leave out some of them without a word.
    """
    num_tools = 0
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(Limits().num_tools + 1):
        request = ListToolsRequest(params=PaginatedRequestParams(cursor=cursor))
        tools: Sequence[Tool | Fault]
        try:
            page = await client.session.send_request(request, ListToolsResult)
            tools, cursor = page.tools, page.next_cursor
        except ValidationError as error:
            tools = list(_each_tool(results.content, client.protocol_version, num_tools, error))
            cursor = results.content.get("nextCursor")
        for tool in tools:
            yield tool
        num_tools += len(tools)
        if cursor is None or num_tools > Limits().num_tools:
            return
        if cursor in seen:
            shown = shorten(cursor, MAX_NAME)
            raise UnreadableSource(url, f"its list of tools has no end: the cursor {shown!r} comes again")
        seen.add(cursor)
    raise UnreadableSource(url, "its list of tools has no end: it has more pages than a toolset has tools")


def _each_tool(
    page: Mapping[str, Any], version: str, num_before: int, refusal: ValidationError
) -> Iterator[Tool | Fault]:
    """The tools of a page that the SDK refuses, each checked apart; `num_before` are on earlier pages.

    Raises:
        ValidationError: it is not the tools that break the protocol.
    """
    tools = page.get("tools")
    if not isinstance(tools, list):
        raise refusal
    validate_server_result("tools/list", version, {**page, "tools": []})
    for index, tool in enumerate(tools, num_before):
        try:
            validate_server_result("tools/list", version, {**page, "tools": [tool]})
            yield Tool.model_validate(tool, by_name=False)
        except ValidationError as error:
            name = tool.get("name") if isinstance(tool, dict) else None
            label = name if isinstance(name, str) else index
            place, reason = _flaw(error)
            below = place.removeprefix("/tools/0")
            yield Fault(label, f"/tools/{index}{below}", "", f"it is not as the protocol says: {reason}")


def _as_json(found: Tool | Fault) -> dict[str, Any]:
    """A tool as JSON; of a broken one only its name, if it has one."""
    if isinstance(found, Tool):
        return found.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"name": found.tool, "inputSchema": {"type": "object"}} if isinstance(found.tool, str) else {}


def _header_faults(tools: Sequence[Tool | Fault]) -> Iterator[Fault]:
    """A fault of each tool that wants arguments in headers in which they cannot be sent.

    Since the protocol's version of 2026, clients must refuse such tools.
    """
    for index, tool in enumerate(tools):
        if isinstance(tool, Tool) and (reason := find_invalid_x_mcp_header(tool.input_schema)):
            yield Fault(tool.name, f"/tools/{index}/inputSchema", "x-mcp-header", shorten(reason, 300))


class _LastStatus:
    """The HTTP status of the last answer to a message; the SDK's errors leave it out."""

    def __init__(self) -> None:
        self.failure = ""

    async def note(self, response: httpx2.Response) -> None:
        """Keep the status of an answer to a POST, if it is an error."""
        if response.request.method == "POST":
            status = f"HTTP {response.status_code} {response.reason_phrase}".strip()
            self.failure = status if response.status_code >= 400 else ""


class _LastResult:
    """The last result that a server sent: the SDK shows nothing of one that breaks the protocol."""

    def __init__(self) -> None:
        self.content: Mapping[str, Any] = {}

    @asynccontextmanager
    async def noting(self, transport: Transport) -> AsyncIterator[Any]:
        """The transport; the results that it receives are noted."""
        async with transport as (received, sending):
            yield _NotedMessages(received, self), sending


@dataclass(frozen=True, slots=True)
class _NotedMessages:
    """The messages that a transport receives, as the SDK reads them; their results are noted."""

    received: Any
    results: _LastResult

    async def receive(self) -> SessionMessage | Exception:
        return self._noted(await self.received.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._noted(await anext(self.received))

    def _noted(self, message: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(message, SessionMessage) and isinstance(message.message, JSONRPCResponse):
            self.results.content = message.message.result
        return message

    async def __aenter__(self) -> Self:
        await self.received.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> bool | None:
        is_handled: bool | None = await self.received.__aexit__(*error)
        return is_handled

    async def aclose(self) -> None:
        await self.received.aclose()


def _flaw(error: ValidationError) -> tuple[str, str]:
    """Where the first flaw of a message is, and what is wrong."""
    flaw = error.errors(include_url=False)[0]
    return shorten(shown_pointer("", flaw["loc"]), 300), flaw["msg"]


def _reason(error: Exception, status: _LastStatus) -> str:
    """Why no tools were listed."""
    if isinstance(error, TimeoutError | httpx2.TimeoutException):
        return f"it did not list its tools within {_TIMEOUT_S:g} s"
    if isinstance(error, ValidationError):
        place, reason = _flaw(error)
        return f"its answer is not as the protocol says: at {place or '/'}: {reason}"
    reasons = ", ".join(filter(None, (str(error) or type(error).__name__, status.failure)))
    return f"no MCP server lists its tools there over streamable HTTP ({reasons})"


def _oauth(url: str, credentials: SourceCredentials | None) -> httpx2.Auth | None:
    """The grant `client_credentials`; the SDK sends the secret to the issuer alone."""
    if credentials is None or not credentials.client_id:
        return None
    return ClientCredentialsOAuthProvider(
        server_url=url,
        storage=_NoStorage(),
        client_id=credentials.client_id,
        client_secret=credentials.client_secret or "",
        issuer=credentials.issuer,
    )


class _NoStorage:
    """Stores no token: an import takes seconds and gets a token of its own."""

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        pass

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        pass


class _CheckedAsyncTransport(httpx2.AsyncBaseTransport):
    """`CheckedTransport` for the SDK's client, which is asynchronous and of another library."""

    def __init__(self, guarded: GuardedRequests) -> None:
        self._guarded = guarded
        self._transport = httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_keepalive_connections=0))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._transport.handle_async_request(self._guarded.directed(request))
        try:
            self._guarded.check(request.url, response)
        except UnreadableSource:
            await response.aclose()
            raise
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _CountedAsyncStream(response.stream, request.url, self._guarded)
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()


@dataclass(frozen=True, slots=True)
class _CountedAsyncStream(httpx2.AsyncByteStream):
    stream: httpx2.AsyncByteStream
    url: httpx2.URL
    guarded: GuardedRequests

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self.stream:
            yield self.guarded.count(self.url, part)

    async def aclose(self) -> None:
        await self.stream.aclose()
