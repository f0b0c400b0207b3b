"""The head of every answer: its status or error, the request's id, and for OPTIONS the methods of a path."""

import re
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from litestar import Request
from litestar.datastructures import MutableScopeHeaders
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http.deadline import ARRIVED

HttpRequest = Request[Any, Any, Any]
"""A request, as routes and what stands before them get it."""

REQUEST_ID = "callgate.request_id"
"""Where a request's scope holds its id."""

_ERROR = "callgate.error"
"""Where a request's scope holds its `AnsweredError`."""

_USABLE_ID = re.compile(rb"[!-~]{1,128}")


@dataclass(frozen=True, slots=True)
class AnsweredError:
    """The error that a request is answered with.

    An answer with this error has the status `status`. A stream that fails has sent another one before.
    """

    type_name: str
    status: int


def note_error(scope: Scope, error: Exception, status: int) -> None:
    """Note the error that a request is answered with, for its log line, its metrics and its span."""
    scope[_ERROR] = AnsweredError(type(error).__qualname__, status)  # type: ignore[literal-required]


def noted_error(scope: Scope) -> AnsweredError | None:
    """The error that a request is answered with, if there is one."""
    return scope.get(_ERROR)  # type: ignore[return-value] # a key of our own


class RequestIds:
    """Gives every request an id and returns it: a usable id in the header `X-Request-ID`, or else a new one.

    Anthropic's clients read it in the header `Request-ID`. `RequestIds` sees a request first, so it also
    notes the time of arrival. Litestar's own middleware would run only for paths that have a route.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        sent_id = dict(scope["headers"]).get(b"x-request-id", b"")
        request_id = sent_id if _USABLE_ID.fullmatch(sent_id) else uuid.uuid4().hex.encode()
        scope[REQUEST_ID] = request_id.decode()  # type: ignore[literal-required]
        scope[ARRIVED] = time.monotonic()  # type: ignore[literal-required]
        named = [(b"x-request-id", request_id), (b"request-id", request_id)]
        await self._app(scope, receive, with_headers(send, lambda: named))


async def name_methods(message: Message, scope: Scope) -> None:
    """Make the header `Allow` of an answer to OPTIONS name all methods of the path.

    Litestar's own answer names the methods of one handler only, since controllers register their handlers one
    by one. A request that is refused before routing learns no methods.
    """
    if (
        message["type"] == "http.response.start"
        and scope["type"] == ScopeType.HTTP
        and scope["method"] == "OPTIONS"
        and (path := scope.get("path_template"))
    ):
        route = next(route for route in scope["litestar_app"].routes if route.path_format == path)
        MutableScopeHeaders.from_message(message)["Allow"] = ", ".join(sorted(route.methods))


def with_headers(send: Send, headers: Callable[[], Iterable[tuple[bytes, bytes]]]) -> Send:
    """`send`, with some headers added to the answer, as they are when it begins."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *headers()]
        await send(message)

    return sending


def noting_status(send: Send, note: Callable[[int], None]) -> Send:
    """`send`, which also tells `note` the status of the answer; not if the client leaves before it begins."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            note(message["status"])
        await send(message)

    return sending
