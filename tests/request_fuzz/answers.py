"""Requests to an application in this process, and what their answers say, whole or streamed."""

import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import Any

CHAT = "/v1/chat/completions"
GONE = 499
"""The status of a request whose client left."""
MINIMUM = re.compile(r"needs at least (\d+)")
"""What an error says of a budget that is too small."""


@dataclass
class Exchange:
    """What the gateway sent."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events of a stream but `[DONE]`."""
        lines = self.content.decode().split("\n")
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        return [json.loads(each) for each in data if each != "[DONE]"]

    @property
    def error(self) -> dict[str, Any] | None:
        """The error, of a refused request or at the end of a stream."""
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            return next((event["error"] for event in self.events if event.get("error")), None)
        return json.loads(self.content).get("error") if self.status != 200 else None


async def call(
    app: Any,
    path: str,
    body: dict[str, Any],
    *,
    address: str = "10.0.0.1",
    leaves_after: float | None = None,
    method: str = "POST",
) -> Exchange:
    """Send a request as the client at an address; it leaves after so many seconds, if it is to."""
    content = json.dumps(body).encode()
    headers = [
        (b"host", b"127.0.0.1"),
        (b"content-type", b"application/json"),
        (b"x-forwarded-for", address.encode()),
    ]
    headers.append((b"content-length", str(len(content)).encode()))
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http", "path": path,
        "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        "state": {}, "extensions": {},
    }  # fmt: skip
    exchange = Exchange(GONE, {}, b"")
    ended, is_read, is_whole = asyncio.Event(), False, False

    async def receive() -> dict[str, Any]:
        nonlocal is_read
        if not is_read:
            is_read = True
            return {"type": "http.request", "body": content, "more_body": False}
        await ended.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal is_whole
        if ended.is_set():
            return
        if message["type"] == "http.response.start":
            exchange.status = message["status"]
            exchange.headers = {key.decode().lower(): value.decode() for key, value in message["headers"]}
        else:
            exchange.content += message.get("body", b"")
            if not message.get("more_body", False):
                is_whole = True
                ended.set()  # a server says then, too, that nothing more will come

    timer = (
        asyncio.get_running_loop().call_later(leaves_after, ended.set) if leaves_after is not None else None
    )
    try:
        await asyncio.wait_for(app(scope, receive, send), 60)
    finally:
        if timer:
            timer.cancel()
    return exchange if is_whole else Exchange(GONE, {}, b"")


@dataclass
class Choice:
    """One choice of an answer."""

    content: str = ""
    thought: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    """Kind, name, and arguments or input."""
    finish: str | None = None
    logprobs: list[dict[str, Any]] | None = None


@dataclass
class Answer:
    """All choices, the usage, and what Callgate adds."""

    choices: list[Choice]
    usage: dict[str, Any] | None
    extension: dict[str, Any]
    tokens: list[dict[str, Any]]
    """The inspected tokens."""
    faults: list[str] = field(default_factory=list)
    """What is wrong with the form of the stream."""

    @property
    def what(self) -> list[Any]:
        """What was written and why it ended, to compare."""
        return [[c.content, c.thought, c.calls, c.finish] for c in self.choices]


def read_chat(exchange: Exchange, num_choices: int) -> Answer:
    """A whole answer of Chat Completions, or its chunks added up."""
    if exchange.headers["content-type"].startswith("text/event-stream"):
        return _added_up(exchange, num_choices)
    whole = json.loads(exchange.content)
    choices = []
    for each in whole["choices"]:
        message = each["message"]
        calls = [_call(call) for call in message.get("tool_calls", ())]
        logprobs = each["logprobs"]["content"] if each["logprobs"] else None
        choices.append(
            Choice(
                message["content"] or "",
                message.get("reasoning_content", ""),
                calls,
                each["finish_reason"],
                logprobs,
            )
        )
    answer = Answer(choices, whole["usage"], whole["callgate"], whole["callgate"].get("tokens", []))
    if [each["index"] for each in whole["choices"]] != list(range(num_choices)):
        answer.faults.append("choices are missing or not in order")
    return answer


def _call(call: dict[str, Any]) -> tuple[str, str, str]:
    kind = call["type"]
    return kind, call[kind]["name"], call[kind]["input" if kind == "custom" else "arguments"]


def _added_up(exchange: Exchange, num_choices: int) -> Answer:
    stream = _Stream(num_choices)
    for event in exchange.events:
        stream.read(event)
    answer = stream.answer()
    if not exchange.content.endswith(b"data: [DONE]\n\n"):
        answer.faults.append("the stream has no end")
    return answer


class _Stream:
    """Adds chunks up, and notes what no client expects of them."""

    def __init__(self, num_choices: int) -> None:
        self._answer = Answer([Choice() for _ in range(num_choices)], None, {}, [])
        self._calls: list[dict[int, list[str]]] = [{} for _ in range(num_choices)]
        self._begun: list[int] = []

    def read(self, event: dict[str, Any]) -> None:
        """Add a chunk."""
        answer, own = self._answer, event.get("callgate", {})
        if answer.usage:
            answer.faults.append("a chunk comes after the usage")
        answer.tokens += own.get("tokens", [])
        answer.usage = event.get("usage") or answer.usage
        if "closed_by" in own:
            answer.extension = own | {"closed_by": own["closed_by"] or answer.extension.get("closed_by")}
        for part in event["choices"]:
            self._read_part(part["index"], part["delta"], part)

    def _read_part(self, index: int, delta: dict[str, Any], part: dict[str, Any]) -> None:
        choice, faults = self._answer.choices[index], self._answer.faults
        if delta.get("role"):
            self._begun.append(index)
        if index not in self._begun:
            faults.append("a delta comes before its role")
        if choice.finish is not None and delta:
            faults.append("a delta comes after the finish reason")
        choice.content += delta.get("content") or ""
        choice.thought += delta.get("reasoning_content") or ""
        if part["logprobs"]:
            choice.logprobs = (choice.logprobs or []) + part["logprobs"]["content"]
        for piece in delta.get("tool_calls", ()):
            self._read_call(index, piece)
        choice.finish = part["finish_reason"] or choice.finish

    def _read_call(self, index: int, piece: dict[str, Any]) -> None:
        kind, calls = piece["type"], self._calls[index]
        call = calls.setdefault(piece["index"], [kind, "", ""])
        call[1] += piece[kind].get("name", "")
        call[2] += piece[kind]["input" if kind == "custom" else "arguments"]
        if piece["index"] != len(calls) - 1:
            self._answer.faults.append("calls are interleaved")

    def answer(self) -> Answer:
        """The chunks added up."""
        if self._begun != list(range(len(self._calls))):
            self._answer.faults.append(f"choices begin as {self._begun}")
        for choice, calls in zip(self._answer.choices, self._calls, strict=True):
            choice.calls = [(kind, name, text) for kind, name, text in calls.values()]
        return self._answer
