"""Records what a client sends and what it gets, around a gateway's app."""

import json
from dataclasses import dataclass, field
from typing import Any

KEPT_HEADERS = ("anthropic-beta", "anthropic-version", "content-type")
"""Headers of a request that may change what a gateway answers; keys are not kept."""


@dataclass(slots=True)
class Exchange:
    """One request and its answer."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any = None
    status: int = 0
    ignored: str = ""
    answer: bytes = b""


@dataclass
class Recorder:
    """An ASGI app around another; `exchanges` are those since the last `start`."""

    app: Any
    exchanges: list[Exchange] = field(default_factory=list)

    def start(self) -> None:
        """Forget what was recorded."""
        self.exchanges = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, and note it with its answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        query = scope["query_string"].decode()
        exchange = Exchange(
            scope["method"],
            scope["path"] + (f"?{query}" if query else ""),
            {name: headers[name] for name in KEPT_HEADERS if name in headers},
        )
        self.exchanges.append(exchange)
        received = b""

        async def receive_and_note() -> Any:
            nonlocal received
            message = await receive()
            if message["type"] == "http.request":
                received += message.get("body", b"")
                if not message.get("more_body") and received:
                    exchange.body = json.loads(received)
            return message

        async def note_and_send(message: Any) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                exchange.ignored = dict(message["headers"]).get(b"x-callgate-ignored", b"").decode()
            else:
                exchange.answer += message.get("body", b"")
            await send(message)

        await self.app(scope, receive_and_note, note_and_send)
