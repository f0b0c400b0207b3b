"""How the routes of models read requests in wire formats, and send answers as server-sent events."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import msgspec
from litestar.background_tasks import BackgroundTask
from litestar.response import Stream
from litestar.types import HTTPScope

from gateway.errors import InvalidField
from gateway.generation.continuation import Continuation
from gateway.generation.generation import Generation
from gateway.http.deadline import Deadline
from gateway.http.error_shapes import Problem
from gateway.http.headers import note_error
from gateway.http.json_body import JsonBody
from gateway.http.problems import problem_for
from gateway.http.request_bodies import ReadingTurn
from gateway.routes.request_context import RequestContext
from gateway.wire.turn_fields import TurnHeaders, timeout_in
from toolspecs.json_value import JSON, count_values
from toolspecs.nearest import MAX_NAME, shorten, within

RequestT_co = TypeVar("RequestT_co", covariant=True)

_log = logging.getLogger(__name__)

_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}

_LINE_BREAKS = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""Characters at which some clients, httpx among them, end a line, and how JSON escapes them."""

_MAX_HEADER = 2_000
"""Characters of one header; some clients refuse answers with longer lines."""


class RequestReader(Protocol[RequestT_co]):
    """How a wire format reads a decoded body, and the headers beside it."""

    def __call__(self, body: Any, headers: TurnHeaders, *, is_strict: bool) -> RequestT_co:
        """The request; raises InvalidField and InvalidTools."""


class AnswerWriter(Protocol):
    """How a wire format writes the answer of one generation: whole, or as the events of a stream."""

    stream_end: str
    """What is sent after the last event."""

    async def answer(self) -> JSON:
        """The whole answer, once it is complete."""

    def events(self) -> AsyncGenerator[JSON]:
        """The events of the answer, as it is generated."""

    def failed(self, problem: Problem) -> tuple[JSON, ...]:
        """The last events of a stream that ends early with an error."""


async def read_wire_request(
    context: RequestContext, reader: RequestReader[RequestT_co], *, continuation: Continuation | None = None
) -> RequestT_co:
    """The request in a wire format; `continuation` inserts into its body what that continues or refers to.

    What it inserts counts as held too. Raises as `RequestContext.read_held` does, and DeadlineExceeded.
    """
    timeout = timeout_in(context.request.headers.get("x-request-timeout"))
    async with Deadline(timeout, context.services.request_seconds, since=context.arrived).enforced():
        return await _read_wire_request(context, reader, continuation)


async def _read_wire_request(
    context: RequestContext, reader: RequestReader[RequestT_co], continuation: Continuation | None
) -> RequestT_co:
    sent = context.request.headers
    headers = TurnHeaders(sent.get("x-toolset"), sent.get("x-request-timeout"))

    def read(body: Any) -> RequestT_co:
        return reader(body, headers, is_strict=context.services.is_strict)

    if continuation is None:
        return await context.read_held(lambda body: read(body.value))

    def read_complete(body: JsonBody) -> RequestT_co | _Unread:
        return _Unread(body.value) if continuation.is_needed(body.value) else read(body.value)

    found = await context.read_held(read_complete)
    if not isinstance(found, _Unread):
        return found

    async def read_expanded(turn: ReadingTurn) -> RequestT_co:
        body = await continuation.expand(found.body, turn)
        context.holding.hold_body(context.principal.client_id, *await turn.run(partial(_sizes, body)))
        try:
            return await turn.run(partial(read, body))
        except InvalidField as error:
            raise continuation.as_sent(error, found.body, body) from error

    return await context.in_turn(read_expanded)


@dataclass(frozen=True, slots=True)
class _Unread:
    """A decoded body, before what it refers to is inserted."""

    body: Any


def _sizes(value: Any) -> tuple[int, int]:
    """The bytes and the values of a JSON value."""
    return len(msgspec.json.encode(value)), count_values(value)


def ignored_header(ignored: Iterable[str]) -> dict[str, str]:
    """The header that names the ignored fields, if there are any: the first ones, as many as it may hold.

    >>> ignored_header(["prediction", "messages[].cache control"])
    {'X-Callgate-Ignored': 'prediction, messages[].cache%20control'}
    """
    names = (quote(shorten(path, MAX_NAME), safe="[].-_") for path in ignored)
    written = ", ".join(within(_MAX_HEADER, names, lambda name: len(name) + len(", ")))
    return {"X-Callgate-Ignored": written} if written else {}


def stream(
    generation: Generation, writer: AnswerWriter, headers: Mapping[str, str], scope: HTTPScope
) -> Stream:
    """Send a generation as server-sent events, in the writer's wire format."""
    return Stream(
        _event_texts(generation, writer, scope),
        media_type="text/event-stream",
        headers={**_HEADERS, **headers},
        # This also runs when the client has gone; it stops the runtime.
        background=BackgroundTask(generation.aclose),
    )


async def _event_texts(generation: Generation, writer: AnswerWriter, scope: HTTPScope) -> AsyncIterator[str]:
    try:
        async with aclosing(writer.events()) as events:
            async for event in events:
                yield _event_text(event)
    except Exception as error:  # noqa: BLE001 - the status is sent, so any error goes into the stream
        problem = problem_for(scope, error)
        note_error(scope, error, problem.status)
        _log.warning("stream %s ended early: %s", generation.request_id, error, exc_info=problem.is_bug)
        for event in writer.failed(problem):
            yield _event_text(event)
        return
    if writer.stream_end:
        yield writer.stream_end


def _event_text(event: JSON) -> str:
    """An event as text; its name is its `type`, if it has one."""
    name = f"event: {event['type']}\n" if "type" in event else ""
    # A response repeats the tools of its request, up to 4 MB, for which `json` takes ten times as long.
    data = msgspec.json.encode(event).decode()
    for character, escape in _LINE_BREAKS.items():
        data = data.replace(character, escape)
    return f"{name}data: {data}\n\n"
