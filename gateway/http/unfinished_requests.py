"""Requests that are not done when the server ends, because they wait for something other than a model."""

import asyncio

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send

from gateway.http.headers import noting_status
from gateway.http.problems import send_error
from toolspecs.errors import ThreadsStopped


class UnfinishedRequests:
    """Answers the requests that the server cancels at its end, such as one whose tools are being compiled.

    Otherwise uvicorn answers 500, in the shape of no API, and logs a traceback.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        statuses: list[int] = []
        try:
            await self._app(scope, receive, noting_status(send, statuses.append))
        except asyncio.CancelledError:
            if scope["type"] != ScopeType.HTTP:
                raise
            if not statuses:
                await send_error(scope, receive, send, ThreadsStopped())
