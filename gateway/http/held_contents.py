"""What a request holds in memory until it is answered: its decoded body, and the toolsets that it names.

An answer may take minutes, and a body of 4 MB may take 66 MB once it is decoded. So what the requests of a
client hold together is counted, and a request with which it would be too much is refused.
"""

from collections.abc import Mapping
from typing import Any

from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Receive, Scope, Send

from toolspecs.held_parts import HeldParts
from toolspecs.toolset import Toolset

HOLDING = "callgate.holding"
"""Where the scope of a request has its `Holding`."""

CHARACTER_BYTES = 4
"""What each character of a Python string takes if one of them is an emoji."""
VALUE_BYTES = 200
"""What a JSON value takes at most beside its text: 110 bytes decoded, and what a wire format reads it as."""


class _Contents(list[object]):
    """What a request holds. Nothing else refers to this list, so that it is gone when the request is.

    `HeldParts` refers to it weakly, which a plain list does not allow.
    """


class Holding:
    """What one request holds, until it is released."""

    def __init__(self, held: HeldParts) -> None:
        self._held = held
        self._contents: _Contents | None = _Contents()

    def hold_body(self, client_id: str, num_bytes: int, num_values: int) -> None:
        """Count a decoded JSON text of so many bytes and values; raises TooMuchHeld."""
        self._hold(client_id, object(), num_bytes, num_values)

    def hold_toolset(self, client_id: str, toolset: Toolset) -> None:
        """Count a toolset, once for all requests of the client that hold the same; raises TooMuchHeld."""
        self._hold(client_id, toolset, toolset.num_bytes, toolset.num_values)

    def release(self) -> None:
        """Count nothing any more: the request has been answered."""
        self._contents = None

    def _hold(self, client_id: str, content: object, num_bytes: int, num_values: int) -> None:
        if self._contents is None:
            return
        sizes = {id(content): CHARACTER_BYTES * num_bytes + VALUE_BYTES * num_values}
        self._held.check(client_id, sizes)
        self._contents.append(content)  # so that nothing else gets its id
        self._held.hold(client_id, sizes, self._contents)


class HoldingMiddleware(ASGIMiddleware):
    """Gives each request a `Holding`, for as long as it is answered."""

    scopes = (ScopeType.HTTP, ScopeType.ASGI)

    def __init__(self, held: HeldParts) -> None:
        self._held = held

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Pass the request on."""
        holding = scope[HOLDING] = Holding(self._held)  # type: ignore[literal-required]
        try:
            await next_app(scope, receive, send)
        finally:
            holding.release()


def holding_of(scope: Mapping[str, Any]) -> Holding:
    """The `Holding` of a request that is being answered."""
    holding: Holding = scope[HOLDING]
    return holding
