"""The request context, with which a route reads its request and answers it, in turns of the client."""

from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec
from litestar import MediaType, Response
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from gateway.access.principal import Principal
from gateway.errors import InvalidField
from gateway.http.deadline import ARRIVED
from gateway.http.headers import HttpRequest
from gateway.http.held_contents import Holding, holding_of
from gateway.http.json_body import JsonBody, read_json
from gateway.http.leaving_clients import unless_gone
from gateway.http.request_bodies import BodyLimit, ReadingTurn
from gateway.services import Services
from toolspecs.json_scan import ContentLimits
from toolspecs.json_value import JSON

WorkT = TypeVar("WorkT")

LARGE_ANSWER = 20_000
"""Bytes of an answer from which its client must have a turn for it."""

PageSize = Annotated[int, QueryParameter(ge=1, le=1000)]

QUERY = ("after", "before", "failed", "limit", "revision", "search", "shape", "since", "source", "tool")
"""All query parameters; a route takes those that are parameters of its function and not of its path."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """A request, who sent it, and the services that answer it.

    Its methods read the request and make large answers in turns of the client, so that other clients are
    answered meanwhile (see `ClientPace`).
    """

    request: HttpRequest
    services: Services
    principal: Principal

    @property
    def arrived(self) -> float:
        """When the request arrived, in seconds of the monotonic clock."""
        arrived: float = self.request.scope[ARRIVED]  # type: ignore[literal-required]
        return arrived

    @property
    def holding(self) -> Holding:
        """What the request holds in memory until it is answered."""
        return holding_of(self.request.scope)

    async def read_body(self, *, is_optional: bool = False) -> Any:
        """The value of the body; if it `is_optional`, an empty one is {}. Raises as `read_held` does."""
        return await self.read_held(_value_of, is_optional=is_optional)

    async def read_registry_body(self, *, is_optional: bool = False) -> Any:
        """As `read_body`, of a body that may hold a toolset, and halves of surrogate pairs."""
        limit = self.services.bodies.toolset_limit
        return await self.read_held(_value_of, limit=limit, is_optional=is_optional, keeps_surrogates=True)

    async def read_held(
        self,
        reader: Callable[[JsonBody], WorkT],
        *,
        limit: BodyLimit | None = None,
        limits: ContentLimits | None = None,
        is_optional: bool = False,
        keeps_surrogates: bool = False,
    ) -> WorkT:
        """The result of `reader` on the body, which counts as held until the request is answered.

        Raises TooMuchHeld, and what `read_json` and `RequestBodies.read` raise.
        """
        bodies, client_id = self.services.bodies, self.principal.client_id

        def read(raw: bytes) -> tuple[WorkT, int, int]:
            body = read_json(
                raw,
                keeps_surrogates=keeps_surrogates,
                is_optional=is_optional,
                limits=limits or bodies.contents,
            )
            return reader(body), len(raw), body.num_values

        value, num_bytes, num_values = await bodies.read(self.request, read, client_id=client_id, limit=limit)
        self.holding.hold_body(client_id, num_bytes, num_values)
        return value

    async def in_turn(self, work: Callable[[ReadingTurn], Coroutine[Any, Any, WorkT]]) -> WorkT:
        """The result of `work` in a turn of the client, unless the client leaves; raises ClientGone."""

        async def taking_turn() -> WorkT:
            async with self.services.bodies.turn(self.principal.client_id, "stored") as turn:
                return await work(turn)

        return await unless_gone(self.request, taking_turn())

    def registry_turn(self) -> AbstractAsyncContextManager[None]:
        """A turn of the client to change toolsets or to compare them; it is given back while tools compile.

        Raises ClientGone.
        """
        return self.services.bodies.registry_turn(self.request, self.principal.client_id)

    async def json_answer(
        self, make: Callable[[], JSON], *, num_bytes: int, etag: str | None = None, status: int = 200
    ) -> Response[bytes]:
        """The JSON that `make` returns, of about `num_bytes`, as an answer.

        A large one is made and encoded in a turn of the client; the event loop only sends it. Raises
        ClientGone.
        """

        def encoded() -> bytes:
            return msgspec.json.encode(make())

        if num_bytes < LARGE_ANSWER:
            content = encoded()
        else:
            content = await self.in_turn(lambda turn: turn.run(encoded))
        headers = {"ETag": etag} if etag else None
        return Response(content, media_type=MediaType.JSON, status_code=status, headers=headers)


def _value_of(body: JsonBody) -> Any:
    return body.value


WiredContext = NamedDependency[RequestContext]
"""The type by which a route asks for its request context."""


def check_query(request: HttpRequest) -> None:
    """Refuse query parameters that are unknown or given twice.

    `?revison=3` must not answer with the current revision, nor `?revision=3&revision=4` with one of the two.
    """
    parameters = request.route_handler.parsed_fn_signature.parameters.keys() - request.path_params.keys()
    taken = [name for name in QUERY if name in parameters]
    for name in request.query_params:
        if name not in taken:
            hint = f"this route takes {', '.join(taken)}" if taken else "this route takes none"
            raise InvalidField(name, f"there is no such query parameter; {hint}")
        if len(request.query_params.getall(name)) > 1:
            raise InvalidField(name, "the query has it twice; send one")
