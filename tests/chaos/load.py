"""A steady load: clients of OpenAI's library whose every answer is judged, and a writer of toolsets."""

import asyncio
import itertools
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import jsonschema_rs
import openai

from chaos.cluster import MODEL, REQUEST_S, GatewayProcess

DEADLINE_S = REQUEST_S + 5.0
NUM_CLIENTS = 6
NUM_FRESH = 10
"""Tools of a request of the kind `many fresh`."""
WRITE_S = 0.25
TOOLSET = "desk"
CONNECTION = "connection"
"""The error of a client whose gateway is gone."""

SCHEMAS: dict[str, dict[str, Any]] = {
    "open_ticket": {
        "type": "object",
        "properties": {
            "title": {"type": "string", "maxLength": 60, "pattern": "^[A-Z]"},
            "tags": {
                "type": "array",
                "items": {"enum": ["ui", "api", "db"]},
                "uniqueItems": True,
                "minItems": 1,
            },
            "priority": {"type": "integer", "minimum": 1, "maximum": 5},
        },
        "required": ["title", "tags", "priority"],
        "additionalProperties": False,
    },
    "close_ticket": {
        "type": "object",
        "properties": {"number": {"type": "integer", "multipleOf": 5}, "reason": {"enum": ["done", "never"]}},
        "required": ["number"],
        "dependentRequired": {"reason": ["number"]},
    },
}


def tool(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": schema}}


DESK = [tool(name, schema) for name, schema in SCHEMAS.items()]


def fresh_schema(number: int) -> dict[str, Any]:
    """A schema that nobody has compiled before."""
    choices = {"enum": [f"choice {number}", f"{number} is another"]}
    return {"type": "object", "properties": {"value": choices}, "required": ["value"]}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a request ended: `answered`, `refused` with an error's code, or a fault of the gateway: `wrong`."""

    kind: str
    start: float
    end: float
    code: str = ""

    @property
    def is_answered(self) -> bool:
        return not self.code


@dataclass
class Load:
    """Clients that call the gateways in turns, as behind a balancer that knows which of them are `serving`.

    `wrong` says what must never happen: invalid calls, streams that end without a word, errors without a code, requests
    without an end.
    """

    serving: list[GatewayProcess]
    outcomes: list[Outcome] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    num_calls: int = 0
    kinds: Sequence[str] = ("registered", "registered stream", "inline stream", "fresh", "fresh stream")
    _turn: Any = field(default_factory=itertools.count)
    _fresh: Any = field(default_factory=lambda: itertools.count(random.randrange(10**9)))
    _clients: dict[str, openai.AsyncOpenAI] = field(default_factory=dict)

    @asynccontextmanager
    async def running(self, num_clients: int = NUM_CLIENTS) -> AsyncIterator[None]:
        """Clients call until the block ends."""
        tasks = [asyncio.create_task(self._go_on(number)) for number in range(num_clients)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            for client in self._clients.values():
                await client.close()
            self._clients.clear()
            self.wrong += [
                f"a client ended: {end!r}" for end in ended if not isinstance(end, asyncio.CancelledError)
            ]

    async def steady(self, within: float = 90.0) -> float:
        """Wait until each client was answered twice in a row; when the last request ended that was not."""
        start = good_since = time.monotonic()
        last_refused, num_seen = 0.0, len(self.outcomes)
        while True:
            for one in self.outcomes[num_seen:]:
                if not one.is_answered:
                    last_refused = good_since = one.end
            num_seen = len(self.outcomes)
            if sum(one.start >= good_since for one in self.outcomes[-1000:]) >= 2 * NUM_CLIENTS:
                return last_refused
            if time.monotonic() - start > within:
                codes = Counter(one.code for one in self.outcomes if one.start > start)
                self.wrong.append(f"after {within:.0f} s not all is served: {dict(codes)}")
                return time.monotonic()
            await asyncio.sleep(0.05)

    async def _go_on(self, number: int) -> None:
        for turn in itertools.count(number):
            if not self.serving:
                await asyncio.sleep(0.05)
                continue
            gateway = self.serving[next(self._turn) % len(self.serving)]
            kind = self.kinds[turn % len(self.kinds)]
            start = time.monotonic()
            code = await self._ask(gateway, kind)
            self.outcomes.append(Outcome(kind, start, time.monotonic(), code))
            if code:
                await asyncio.sleep(0.2)

    async def _ask(self, gateway: GatewayProcess, kind: str) -> str:
        """Ask, and judge the answer; the code of the error if there is one."""
        schemas = SCHEMAS
        if "fresh" in kind:
            num_tools = NUM_FRESH if kind.startswith("many") else 1
            schemas = {f"choose_{place}": fresh_schema(next(self._fresh)) for place in range(num_tools)}
        body: dict[str, Any] = {
            "model": MODEL,
            "messages": [{"role": "user", "content": "Go on."}],
            "tool_choice": "required",
            "max_tokens": 200,
            "temperature": 1.0,
        }
        if kind.startswith("registered"):
            body["extra_body"] = {"toolset": TOOLSET}
        else:
            body["tools"] = [tool(name, schema) for name, schema in schemas.items()]
        completions = self._client(gateway).chat.completions
        try:
            async with asyncio.timeout(DEADLINE_S):
                if kind.endswith("stream"):
                    calls, reason = await self._streamed(completions, body)
                else:
                    choice = (await completions.create(**body)).choices[0]
                    found = choice.message.tool_calls or ()
                    calls = [(call.function.name, call.function.arguments) for call in found]
                    reason = choice.finish_reason
        except openai.APIStatusError as error:
            return self._coded(kind, error.status_code, error.body)
        except (openai.APITimeoutError, TimeoutError):
            return self._noted(kind, f"no end after {DEADLINE_S} s")
        except (openai.APIConnectionError, httpx.TransportError):
            return CONNECTION
        except openai.APIError as error:  # an error event of a stream
            return self._coded(kind, 200, error.body)
        except (ValueError, AttributeError, IndexError) as error:
            return self._noted(kind, f"what the client cannot read: {error!r}")
        return self.judged(kind, calls, reason, schemas)

    async def _streamed(self, completions, body) -> tuple[list[tuple[str, str]], str | None]:
        names: dict[int, str] = {}
        arguments: dict[int, list[str]] = {}
        reason = None
        stream = await completions.create(**body, stream=True)
        async with stream:
            async for chunk in stream:
                for choice in chunk.choices:
                    reason = choice.finish_reason or reason
                    for call in choice.delta.tool_calls or ():
                        names.setdefault(call.index, call.function.name or "")
                        arguments.setdefault(call.index, []).append(call.function.arguments or "")
        return [(names[index], "".join(arguments[index])) for index in names], reason

    def judged(self, kind: str, calls, reason: str | None, schemas=SCHEMAS) -> str:
        """Empty if an answer is as it must be, else `wrong`."""
        if reason not in {"tool_calls", "length"}:
            return self._noted(kind, f"the answer ends with {reason}")
        if not calls:
            return self._noted(kind, "no call, where one was required")
        for name, arguments in calls:
            try:
                jsonschema_rs.validate(schemas[name], json.loads(arguments))
            except (KeyError, ValueError, jsonschema_rs.ValidationError) as error:
                return self._noted(kind, f"an invalid call: {name}({arguments}): {error}")
        self.num_calls += len(calls)
        return ""

    def _coded(self, kind: str, status: int, body: Any) -> str:
        """The code of an error; one without a code or a message is not clear."""
        if not isinstance(body, dict) or not body.get("code") or not body.get("message"):
            return self._noted(kind, f"an unclear error, {status}: {body}")
        return str(body["code"])

    def _noted(self, kind: str, what: str) -> str:
        self.wrong.append(f"{kind}: {what}")
        return "wrong"

    def _client(self, gateway: GatewayProcess) -> openai.AsyncOpenAI:
        if gateway.url not in self._clients:
            limits = httpx.Limits(max_connections=None, keepalive_expiry=2)
            http = httpx.AsyncClient(limits=limits, timeout=httpx.Timeout(DEADLINE_S, connect=3))
            self._clients[gateway.url] = openai.AsyncOpenAI(
                base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, http_client=http
            )
        return self._clients[gateway.url]


@dataclass
class Registrations:
    """Registers one toolset after the other, and remembers those that were acknowledged, by their digests."""

    gateways: list[GatewayProcess]
    acknowledged: dict[str, str] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    _numbers: Any = field(default_factory=itertools.count)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """It writes until the block ends."""
        task = asyncio.create_task(self._go_on())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _go_on(self) -> None:
        async with httpx.AsyncClient(timeout=DEADLINE_S) as client:
            while True:
                number = next(self._numbers)
                name = f"kept-{number}"
                body = {"tools": [tool(f"keep_{number}", fresh_schema(number))]}
                gateway = self.gateways[number % len(self.gateways)]
                with suppress(httpx.TransportError):  # nobody knows whether that one is there
                    answer = await client.put(f"{gateway.url}/v1/toolsets/{name}", json=body)
                    if answer.is_success:
                        self.acknowledged[name] = answer.json()["digest"]
                    else:
                        self.refused[answer.json().get("type", str(answer.status_code))] += 1
                await asyncio.sleep(WRITE_S)

    async def lost(self) -> list[str]:
        """What was acknowledged and is not there, or is another, at one of the gateways."""
        missing = []
        expected = dict(self.acknowledged)
        async with httpx.AsyncClient(timeout=DEADLINE_S) as client:
            for gateway in self.gateways:
                listed = {one["name"]: one["digest"] async for one in _toolsets(client, gateway)}
                missing += [
                    f"{name} at {gateway.name}: {listed.get(name)}"
                    for name, digest in expected.items()
                    if listed.get(name) != digest
                ]
        return missing


async def _toolsets(client: httpx.AsyncClient, gateway: GatewayProcess) -> AsyncIterator[dict[str, Any]]:
    after: str | None = ""
    while after is not None:
        answer = await client.get(
            f"{gateway.url}/v1/toolsets", params={"after": after, "limit": 100} if after else {"limit": 100}
        )
        answer.raise_for_status()
        page = answer.json()
        for one in page["toolsets"]:
            yield one
        after = page["next"]


async def register(gateway: GatewayProcess, name: str, tools: list[dict[str, Any]]) -> None:
    """Register a toolset."""
    async with httpx.AsyncClient(timeout=DEADLINE_S) as client:
        (await client.put(f"{gateway.url}/v1/toolsets/{name}", json={"tools": tools})).raise_for_status()
