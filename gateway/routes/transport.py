"""HTTP code that the routes share: reading requests and large answers in turns, and server-sent events."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Protocol, TypeVar
from urllib.parse import quote

import msgspec
from litestar import MediaType, Response
from litestar.background_tasks import BackgroundTask
from litestar.params import QueryParameter
from litestar.response import Stream

from gateway.errors import InvalidField
from gateway.generation.turn import Generation
from gateway.http.deadline import ARRIVED, Deadline
from gateway.http.headers import HttpRequest
from gateway.http.held_contents import holding_of
from gateway.http.json_body import read_json
from gateway.http.leaving_clients import unless_gone
from gateway.http.problems import Problem, problem_of
from gateway.http.request_bodies import ReadingTurn
from gateway.services import Services
from gateway.wire.turn_fields import timeout_in
from toolspecs.json_scan import scan
from toolspecs.json_value import JSON, count_values
from toolspecs.nearest import MAX_NAME, shorten

RequestT_co = TypeVar("RequestT_co", covariant=True)
WorkT = TypeVar("WorkT")

_log = logging.getLogger(__name__)

_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}

_MAX_HEADER = 2_000
"""Characters of one header; some clients refuse answers with longer lines."""

LARGE_ANSWER = 20_000
"""Bytes of an answer from which its client must have a turn for it."""

PageSize = Annotated[int, QueryParameter(ge=1, le=1000)]

QUERY = ("after", "before", "limit", "revision", "search", "shape", "since", "source", "tool")
"""All query parameters; a route takes those that are parameters of its function and not of its path."""


class RequestReader(Protocol[RequestT_co]):
    """How a wire format reads a decoded body, and the headers that may stand for its fields."""

    def __call__(
        self, body: Any, *, toolset_header: str | None, timeout_header: str | None, is_strict: bool
    ) -> RequestT_co:
        """The request; raises InvalidField and InvalidTools."""


class BodyExpander(Protocol):
    """Inserts into a decoded body what the body refers to."""

    def is_needed(self, body: Any) -> bool:
        """Whether it refers to anything."""

    async def expand(self, body: Any, turn: ReadingTurn) -> Any:
        """The body with what it refers to."""


class AnswerWriter(Protocol):
    """How a wire format writes the answer of one generation: whole, or as the events of a stream."""

    stream_end: str
    """What is sent after the last event."""

    async def answer(self) -> JSON:
        """The whole answer, once it is complete."""

    def events(self) -> AsyncGenerator[JSON]:
        """The events of the answer, as it is generated."""

    def failed(self, problem: Problem) -> JSON:
        """The last event of a stream that ends early with an error."""


def check_query(request: HttpRequest) -> None:
    """Refuse unknown query parameters: `?revison=3` must not answer with the current revision."""
    parameters = request.route_handler.parsed_fn_signature.parameters.keys() - request.path_params.keys()
    taken = [name for name in QUERY if name in parameters]
    for name in request.query_params:
        if name not in taken:
            hint = f"this route takes {', '.join(taken)}" if taken else "this route takes none"
            raise InvalidField(name, f"there is no such query parameter; {hint}")


async def read_body(
    request: HttpRequest, services: Services, client_id: str, *, is_optional: bool = False
) -> Any:
    """The value of a body; if it `is_optional`, an empty one is {}. Raises as `read_held` does."""
    reader = partial(read_json, is_optional=is_optional, limits=services.bodies.contents)
    return await read_held(request, services, client_id, reader)


async def read_registry_body(
    request: HttpRequest, services: Services, client_id: str, *, is_optional: bool = False
) -> Any:
    """As `read_body`, of a body that may hold a toolset."""
    bodies = services.bodies
    reader = partial(read_json, keeps_surrogates=True, is_optional=is_optional, limits=bodies.contents)
    return await read_held(request, services, client_id, reader, max_bytes=bodies.max_toolset_bytes)


async def read_held(
    request: HttpRequest,
    services: Services,
    client_id: str,
    reader: Callable[[bytes], WorkT],
    *,
    max_bytes: int | None = None,
) -> WorkT:
    """The result of `reader` on the body, a JSON text, which counts as held until the request is answered.

    Raises MalformedBody, TooMuchHeld, and what `RequestBodies.read` raises.
    """
    bodies = services.bodies

    def read(raw: bytes) -> tuple[WorkT, int, int]:
        return reader(raw), len(raw), scan(raw, bodies.contents)

    holding = holding_of(request.scope)
    value, num_bytes, num_values = await bodies.read(
        request,
        read,
        client_id=client_id,
        max_bytes=max_bytes,
        has_others=lambda: holding.has_others(client_id),
    )
    holding.hold_body(client_id, num_bytes, num_values)
    return value


async def read_wire_request(
    request: HttpRequest,
    services: Services,
    client_id: str,
    reader: RequestReader[RequestT_co],
    *,
    expander: BodyExpander | None = None,
) -> RequestT_co:
    """The request in a wire format; `expander` inserts into the decoded body what the body refers to.

    What it inserts counts as held too. Raises as `read_held` does, and DeadlineExceeded.
    """
    header = request.headers.get("x-request-timeout")
    arrived = request.scope[ARRIVED]  # type: ignore[literal-required]
    deadline = Deadline(timeout_in(header), services.request_seconds, since=arrived)
    async with deadline.enforced():
        return await _read_wire_request(request, services, client_id, reader, expander)


async def _read_wire_request(
    request: HttpRequest,
    services: Services,
    client_id: str,
    reader: RequestReader[RequestT_co],
    expander: BodyExpander | None,
) -> RequestT_co:
    decode = partial(read_json, limits=services.bodies.contents)

    def read(body: Any) -> RequestT_co:
        return reader(
            body,
            toolset_header=request.headers.get("x-toolset"),
            timeout_header=request.headers.get("x-request-timeout"),
            is_strict=services.is_strict,
        )

    if expander is None:
        return await read_held(request, services, client_id, lambda raw: read(decode(raw)))

    def read_or_decode(raw: bytes) -> RequestT_co | _Unread:
        body = decode(raw)
        return _Unread(body) if expander.is_needed(body) else read(body)

    found = await read_held(request, services, client_id, read_or_decode)
    if not isinstance(found, _Unread):
        return found

    async def read_expanded(turn: ReadingTurn) -> RequestT_co:
        body = await expander.expand(found.body, turn)
        holding_of(request.scope).hold_body(client_id, *await turn.run(partial(_sizes, body)))
        return await turn.run(partial(read, body))

    return await in_turn(request, services, client_id, read_expanded)


async def in_turn(
    request: HttpRequest,
    services: Services,
    client_id: str,
    work: Callable[[ReadingTurn], Coroutine[Any, Any, WorkT]],
) -> WorkT:
    """The result of `work` in a turn of its client, unless the client leaves; raises ClientGone."""
    holding = holding_of(request.scope)

    async def taking_turn() -> WorkT:
        async with services.bodies.turn(client_id, lambda: holding.has_others(client_id), "stored") as turn:
            return await work(turn)

    return await unless_gone(request, taking_turn())


@asynccontextmanager
async def registry_turn(request: HttpRequest, services: Services, client_id: str) -> AsyncIterator[None]:
    """A turn of a client to change toolsets or to compare them; it is given back while tools compile.

    Raises ClientGone.
    """
    holding = holding_of(request.scope)
    async with services.bodies.registry_turn(request, client_id, lambda: holding.has_others(client_id)):
        yield


async def json_answer(
    request: HttpRequest,
    services: Services,
    client_id: str,
    make: Callable[[], JSON],
    *,
    num_bytes: int,
    etag: str | None = None,
    status: int = 200,
) -> Response[bytes]:
    """The JSON that `make` returns, of about `num_bytes`, as an answer.

    A large one is made and encoded in a turn of its client; the event loop only sends it. Raises ClientGone.
    """

    def encoded() -> bytes:
        return msgspec.json.encode(make())

    if num_bytes < LARGE_ANSWER:
        content = encoded()
    else:
        content = await in_turn(request, services, client_id, lambda turn: turn.run(encoded))
    headers = {"ETag": etag} if etag else None
    return Response(content, media_type=MediaType.JSON, status_code=status, headers=headers)


@dataclass(frozen=True, slots=True)
class _Unread:
    """A decoded body, before what it refers to is inserted."""

    body: Any


def _sizes(value: Any) -> tuple[int, int]:
    """The bytes and the values of a JSON value."""
    return len(msgspec.json.encode(value)), count_values(value)


def ignored_header(ignored: Iterable[str]) -> dict[str, str]:
    """The header that names the ignored fields, if there are any.

    >>> ignored_header(["prediction", "messages[].cache control"])
    {'X-Callgate-Ignored': 'prediction, messages[].cache%20control'}
    """
    names = ", ".join(quote(shorten(path, MAX_NAME), safe="[].-_") for path in ignored)
    return {"X-Callgate-Ignored": names[:_MAX_HEADER]} if names else {}


def stream(generation: Generation, writer: AnswerWriter, headers: Mapping[str, str]) -> Stream:
    """Send a generation as server-sent events, in the writer's wire format."""
    return Stream(
        _event_texts(generation, writer),
        media_type="text/event-stream",
        headers={**_HEADERS, **headers},
        # This also runs when the client has gone; it stops the runtime.
        background=BackgroundTask(generation.aclose),
    )


async def _event_texts(generation: Generation, writer: AnswerWriter) -> AsyncIterator[str]:
    try:
        async with aclosing(writer.events()) as events:
            async for event in events:
                yield _event_text(event)
    except Exception as error:  # noqa: BLE001 - the status is sent, so any error goes into the stream
        problem = problem_of(error)
        _log.warning("stream %s ended early: %s", generation.request_id, error, exc_info=problem.is_bug)
        yield _event_text(writer.failed(problem))
        return
    if writer.stream_end:
        yield writer.stream_end


def _event_text(event: JSON) -> str:
    """An event as text; its name is its `type`, if it has one."""
    name = f"event: {event['type']}\n" if "type" in event else ""
    # A response repeats the tools of its request, up to 4 MB, for which `json` takes ten times as long.
    return f"{name}data: {msgspec.json.encode(event).decode()}\n\n"
