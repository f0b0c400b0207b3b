"""Reads the tools that an MCP server lists, over streamable HTTP, with the MCP SDK (an extra)."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2
from mcp.client import Client
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from gateway.sources.outbound import CheckedHosts, GuardedRequests, SourceCredentials
from toolspecs.errors import UnreadableSource
from toolspecs.json_value import Limits

_TIMEOUT_S = 60.0


async def read_listing(
    url: str,
    headers: Mapping[str, str],
    credentials: SourceCredentials | None,
    hosts: CheckedHosts | None,
    max_bytes: int,
) -> tuple[str, list[dict[str, Any]]]:
    """The name of a server, and its tools as JSON, page by page.

    With the `credentials` of an OAuth client, the SDK gets a token from the issuer and sends it.
    """
    tools: list[dict[str, Any]] = []
    async with (
        httpx2.AsyncClient(
            headers=dict(headers),
            timeout=_TIMEOUT_S,
            transport=_CheckedAsyncTransport(GuardedRequests(hosts, max_bytes)) if hosts else None,
            auth=_oauth(url, credentials),
        ) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        cursor: str | None = None
        for _ in range(Limits().num_tools + 1):
            page = await client.list_tools(cursor=cursor)
            tools += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None or len(tools) > Limits().num_tools:
                return client.server_info.name if client.server_info else url, tools
    raise UnreadableSource(url, "its list of tools has no end")


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
