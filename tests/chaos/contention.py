"""Clients of several gateways that read one toolset and replace what they have read, and the history of it."""

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

from chaos.histories import Read, Write
from chaos.load import fresh_schema, tool

NUM_CLIENTS = 6
TOOLSET = "/v1/toolsets/contended"


@dataclass
class History:
    """What was read and written; `unclear` are answers that are neither."""

    operations: list[Write | Read] = field(default_factory=list)
    num_refused: int = 0
    unclear: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        num_writes = sum(isinstance(one, Write) for one in self.operations)
        num_reads = len(self.operations) - num_writes
        return f"{num_writes} writes and {num_reads} reads, {self.num_refused} of them refused writes, are linearizable"


async def contended(gateways: Sequence[httpx.AsyncClient], seconds: float) -> History:
    """What several clients do to one toolset, in turns at one gateway each."""
    history, numbers = History(), itertools.count()
    end = time.monotonic() + seconds

    async def go_on(gateway: httpx.AsyncClient) -> None:
        while time.monotonic() < end:
            version = await read(gateway, history)
            await replace(gateway, history, version, next(numbers))

    await asyncio.gather(*(go_on(gateways[place % len(gateways)]) for place in range(NUM_CLIENTS)))
    return history


async def read(gateway: httpx.AsyncClient, history: History) -> str | None:
    """The version of the toolset, None where there is none."""
    sent = time.monotonic()
    answer = await gateway.get(TOOLSET)
    version = answer.headers["etag"] if answer.is_success else None
    history.operations.append(Read(version, sent, time.monotonic()))
    return version


async def replace(gateway: httpx.AsyncClient, history: History, version: str | None, number: int) -> None:
    """Replace a version, unless somebody else has."""
    body = {"tools": [tool(f"t_{number}", fresh_schema(number % 4))]}
    condition = {"If-Match": version} if version else {"If-None-Match": "*"}
    sent = time.monotonic()
    answer = await gateway.put(TOOLSET, json=body, headers=condition)
    answered = time.monotonic()
    if answer.is_success:
        history.operations.append(Write(answer.headers["etag"], version, sent, answered))
    elif answer.status_code == 412:
        history.num_refused += 1
        history.operations.append(Read(answer.json()["etag"], sent, answered))
    else:
        history.unclear.append(f"a write was answered {answer.status_code}: {answer.text[:200]}")
