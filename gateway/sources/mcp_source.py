"""Reads the tools that an MCP server lists, over streamable HTTP, with the MCP SDK (an extra)."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
from mcp.client import Client
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from gateway.sources.outbound import ByteBudget, CheckedHosts, SourceCredentials, check_answer
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
    listed: list[dict[str, Any]] = []
    async with (
        httpx2.AsyncClient(
            headers=dict(headers),
            timeout=_TIMEOUT_S,
            transport=_CheckedAsyncTransport(hosts, max_bytes) if hosts else None,
            auth=_oauth(url, credentials),
        ) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        cursor: str | None = None
        for _ in range(Limits().num_tools + 1):
            page = await client.list_tools(cursor=cursor)
            listed += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None or len(listed) > Limits().num_tools:
                return client.server_info.name if client.server_info else url, listed
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
    """`CheckedTransport` for the SDK's async client. Looking up a host blocks the event loop."""

    def __init__(self, hosts: CheckedHosts, num_bytes: int) -> None:
        self._hosts = hosts
        self._budget = ByteBudget(num_bytes, hosts, "")
        self._transport = httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_keepalive_connections=0))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        address = self._hosts.address_of(url.scheme, url.host, url.port)
        headers = httpx2.Headers(request.headers)
        headers["Accept-Encoding"] = "identity"
        directed = httpx2.Request(
            request.method,
            url.copy_with(host=address),
            headers=headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": url.host},
        )
        response = await self._transport.handle_async_request(directed)
        self._budget.url = str(url)
        try:
            check_answer(self._hosts, str(url), response.status_code, response.headers)
        except UnreadableSource:
            await response.aclose()
            raise
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _CountedAsyncStream(response.stream, self._budget)
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()


class _CountedAsyncStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, budget: ByteBudget) -> None:
        self._stream = stream
        self._budget = budget

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            self._budget.spend(len(part))
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()
