"""Faults of what the load uses: the Redis, the engines, the gateways, their clock, and clients that misbehave."""

import asyncio
import itertools
import json
import shutil
import signal
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx
import redis.asyncio
from hostile import BOUNDED, REFUSED

from chaos.cluster import HAS_FAKETIME, LATER_LOWERING, LATER_MARK, MODEL, Cluster
from chaos.load import CONNECTION, DESK, TOOLSET, Load, Registrations, register, tool

STORE_GONE = frozenset({"store_unavailable", "engine_failed"})
"""The second, if the store is lost between a gateway that writes a grammar and the engine that reads it."""
ENGINE_GONE = frozenset({"engine_failed", "no_engine", "not_ready"})
NUM_ATTACKS = 6
ATTACK_S = 40.0
CALM_S = 30.0
"""How long the load alone is measured before an attack."""
MAX_SLOWER = 2.0
"""So many times its p99 alone may the load's p99 be beside an attack."""
ASKING = {"model": MODEL, "messages": [{"role": "user", "content": "Go on."}], "max_tokens": 300}
NO_FAKETIME = "" if HAS_FAKETIME else "libfaketime is not installed (Debian: apt-get install faketime)"


@dataclass(frozen=True)
class Scene:
    """What a fault acts on, and where it notes what it measured."""

    cluster: Cluster
    load: Load
    registrations: Registrations
    notes: list[str]
    end: float
    """When the run should be over."""

    @property
    def seconds_left(self) -> float:
        return max(1.0, self.end - time.monotonic())


@dataclass(frozen=True)
class Fault:
    """What breaks; `inflict` returns once it is mended. Until all is served again, clients may meet `errors`."""

    name: str
    what: str
    inflict: Callable[[Scene], Awaitable[None]]
    errors: frozenset[str] = frozenset()
    missing: str = ""
    """What it needs and this machine lacks."""


@contextmanager
def broken_engine(scene: Scene) -> Iterator[None]:
    """Note how long clients waited, at most, while an engine was broken."""
    start = time.monotonic()
    yield
    longest = max((one.end - one.start for one in scene.load.outcomes if one.end > start), default=0.0)
    scene.notes.append(f"longest answer meanwhile {longest:.1f} s")


async def redis_killed(scene: Scene) -> None:
    scene.cluster.redis.kill()
    await asyncio.sleep(5)
    scene.cluster.redis.start()


async def redis_emptied(scene: Scene) -> None:
    """What was registered is gone with the disk, so it is registered again, as the chart's hook does."""
    scene.cluster.redis.kill()
    shutil.rmtree(scene.cluster.folder / "redis")
    (scene.cluster.folder / "redis").mkdir()
    scene.registrations.acknowledged.clear()
    scene.cluster.redis.start()
    await asyncio.sleep(2)
    scene.registrations.acknowledged.clear()  # a write may have been answered just before
    await register(scene.cluster.gateways[0], TOOLSET, DESK)


async def redis_paused(scene: Scene) -> None:
    scene.cluster.redis.pause()
    await asyncio.sleep(10)
    scene.cluster.redis.resume()


async def redis_slow(scene: Scene) -> None:
    async with redis.asyncio.from_url(scene.cluster.redis.url) as client:
        end = time.monotonic() + 8
        while time.monotonic() < end:
            await client.execute_command("DEBUG", "SLEEP", "0.2")


async def redis_full(scene: Scene) -> None:
    async with redis.asyncio.from_url(scene.cluster.redis.url) as client:
        await client.config_set("maxmemory", 1)
        await asyncio.sleep(5)
        await client.config_set("maxmemory", 0)


async def engine_killed(scene: Scene) -> None:
    """Killed while it writes for several clients: the other one goes on with their streams."""
    engine = scene.cluster.engines[0]
    with broken_engine(scene):
        engine.kill()
        await asyncio.sleep(5)
    engine.start()
    await engine.ready()
    scene.notes.append(f"started anew: used {await scene.cluster.engines_ready():.1f} s after it answered")


async def engine_paused(scene: Scene) -> None:
    engine = scene.cluster.engines[0]
    with broken_engine(scene):
        engine.signal(signal.SIGSTOP)
        await asyncio.sleep(20)
        engine.signal(signal.SIGCONT)
    scene.notes.append(f"used again {await scene.cluster.engines_ready():.1f} s after it ran")


async def engine_restarted(scene: Scene) -> None:
    engine = scene.cluster.engines[1]
    with broken_engine(scene):
        engine.signal(signal.SIGTERM)
        await engine.ended()
        engine.start()
        await engine.ready()
    scene.notes.append(f"used {await scene.cluster.engines_ready():.1f} s after it answered")


async def engines_killed(scene: Scene) -> None:
    """Both at once: there is nobody to go on."""
    for engine in scene.cluster.engines:
        engine.kill()
    await asyncio.sleep(3)
    for engine in scene.cluster.engines:
        engine.start()
    for engine in scene.cluster.engines:
        await engine.ready()
    scene.notes.append(f"used {await scene.cluster.engines_ready():.1f} s after they answered")


async def engine_garbage(scene: Scene) -> None:
    await misbehaving(scene, writes={0: "garbage", 7: "garbage"})


async def engine_forbidden(scene: Scene) -> None:
    await misbehaving(scene, masks_tokens=False)


async def misbehaving(scene: Scene, **fields: Any) -> None:
    engine = scene.cluster.engines[0]
    with broken_engine(scene):
        await engine.behave(**fields)
        await asyncio.sleep(6)
    await engine.behave(writes={}, masks_tokens=True)
    scene.notes.append(f"used again {await scene.cluster.engines_ready():.1f} s after it behaved")


async def gateway_killed(scene: Scene) -> None:
    """Clients of the killed one see their connections end; the balancer finds out after a second."""
    gateway = scene.cluster.gateways[1]
    gateway.kill()
    await asyncio.sleep(1)
    scene.load.serving.remove(gateway)
    await asyncio.sleep(2)
    gateway.start()
    scene.notes.append(f"ready {await gateway.ready():.1f} s after it was started")
    await gateway.engines_ready()
    scene.load.serving.append(gateway)


async def gateway_drained(scene: Scene) -> None:
    """As in a rolling upgrade: no new requests come, then SIGTERM, while streams run; none of them is cut."""
    gateway = scene.cluster.gateways[1]
    streams = [asyncio.create_task(long_stream(gateway.url)) for _ in range(4)]
    while (await gateway.measures()).get("callgate_engine_sequences running", 0) < len(streams):
        await asyncio.sleep(0.05)
    scene.load.serving.remove(gateway)
    gateway.signal(signal.SIGTERM)
    took = await gateway.ended()
    cut = [line for stream in streams for line in await stream]
    scene.load.wrong += cut
    scene.notes.append(
        f"{len(streams) - len(cut)} of {len(streams)} streams ended whole, it ended after {took:.1f} s"
    )
    gateway.start()
    await gateway.ready()
    await gateway.engines_ready()
    scene.load.serving.append(gateway)


async def gateways_upgraded(scene: Scene) -> None:
    """One after the other is drained, and comes back of a later version; then the way back.

    The later one stores grammars in another format. In between, both versions serve from one store.
    """
    for is_later in (True, False):
        for gateway in scene.cluster.gateways:
            scene.load.serving.remove(gateway)
            gateway.signal(signal.SIGTERM)
            await gateway.ended(60)
            gateway.version = LATER_LOWERING * is_later
            gateway.start()
            await gateway.ready()
            await gateway.engines_ready()
            scene.load.serving.append(gateway)
            await asyncio.sleep(5)
            compiled = (await gateway.measures()).get("callgate_grammar_compile_duration_seconds_count", 0)
            version = "later" if is_later else "this"
            scene.notes.append(f"{gateway.name} of {version} version compiled {compiled:.0f} grammars in 5 s")


async def all_upgraded(scene: Scene) -> None:
    """An engine and a gateway at a time come back of a later version; then the way back.

    The versions do not read each other's marks. So in between each gateway uses the engine of its version alone.
    """
    engines, gateways = scene.cluster.engines, scene.cluster.gateways
    for is_later in (True, False):
        for engine, gateway in zip(engines, gateways, strict=True):
            scene.load.serving.remove(gateway)
            for process in (gateway, engine):
                process.signal(signal.SIGTERM)
                await process.ended(60)
                process.version = LATER_MARK * is_later
                process.start()
            await engine.ready()
            await gateway.ready()
            scene.load.serving.append(gateway)
            await asyncio.sleep(8)
            for one in gateways:
                used = [other.name for other in engines if (await one.used_engines())[other.port]]
                fitting = [other.name for other in engines if other.version == one.version]
                if used != fitting:
                    scene.load.wrong.append(f"{one.name} uses {used}, of its version are {fitting}")


async def long_stream(url: str) -> list[str]:
    """Read a stream of some seconds; what is wrong with it."""
    schema = {
        "type": "object",
        "properties": {"x": {"type": "string", "pattern": "^[a-z]{500,600}$"}},
        "required": ["x"],
    }
    body = {
        **ASKING,
        "tools": [tool("long", schema)],
        "tool_choice": "required",
        "max_tokens": 1600,
    }
    last = ""
    async with (
        httpx.AsyncClient(timeout=60) as client,
        client.stream("POST", f"{url}/v1/chat/completions", json={**body, "stream": True}) as answer,
    ):
        async for line in answer.aiter_lines():
            last = line or last
    return [] if last == "data: [DONE]" else [f"a stream ended with {last[:300]}"]


async def clock_moved(scene: Scene) -> None:
    """An hour ahead, then two back: what expires by the clock may, and nothing waits for it."""
    for offset in ("+3600", "-3600", "+0"):
        scene.cluster.clock.write_text(offset)
        await asyncio.sleep(4)


async def clients_vanish(scene: Scene) -> None:
    """A hundred clients begin streams, and are gone without a word."""
    for _ in range(5):
        connections = [await opened(scene, {**ASKING, "stream": True}) for _ in range(20)]
        await asyncio.sleep(0.2)
        for _, writer in connections:
            writer.transport.abort()
    await idle(scene)


async def clients_read_slowly(scene: Scene) -> None:
    """Thirty clients begin streams, and do not read for eight seconds."""
    connections = [await opened(scene, {**ASKING, "stream": True}) for _ in range(30)]
    await asyncio.sleep(8)
    for _, writer in connections:
        writer.close()
    await idle(scene)


async def clients_send_slowly(scene: Scene) -> None:
    """Fifty clients send a head, and then a byte of the body now and then."""
    connections = [await opened(scene, None) for _ in range(50)]
    for _ in range(8):
        for _, writer in connections:
            with suppress(ConnectionError):
                writer.write(b" ")
        await asyncio.sleep(1)
    for _, writer in connections:
        writer.close()


async def streams_aborted(scene: Scene) -> None:
    """A thousand clients leave their streams after the first token."""
    gateways = scene.cluster.gateways
    before = [gateway.memory for gateway in gateways]
    places = asyncio.Semaphore(16)

    async def leave(number: int) -> None:
        async with places:
            body = {**ASKING, "toolset": TOOLSET, "tool_choice": "required", "stream": True}
            reader, writer = await opened(scene, body, number)
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await reader.readuntil(b"data: ")
            writer.transport.abort()

    await asyncio.gather(*(leave(number) for number in range(1000)))
    await idle(scene)
    grown = [(gateway.memory - was) / 2**20 for gateway, was in zip(gateways, before, strict=True)]
    scene.notes.append(f"memory {', '.join(f'{one:+.0f} MB' for one in grown)}")


async def idle(scene: Scene) -> None:
    """Wait until no more requests run than the load has: what clients have left is over."""
    start = time.monotonic()
    while (running := await num_running(scene.cluster)) > 2 * len(scene.load.kinds) + 4:
        if time.monotonic() - start > 20:
            scene.load.wrong.append(f"{running} requests still run")
            return
        await asyncio.sleep(0.1)
    scene.notes.append(f"their requests were over {time.monotonic() - start:.1f} s later")


async def num_running(cluster: Cluster) -> float:
    found = [await gateway.measures() for gateway in cluster.gateways]
    return sum(one.get("callgate_engine_sequences running", 0.0) for one in found)


async def hostile_schemas(scene: Scene) -> None:
    """Schemas made to harm, one after the other at both gateways, from another address than the load's."""
    start = time.monotonic()
    await asyncio.sleep(CALM_S)
    alone, num_alone = p99(scene, start, time.monotonic())
    start = time.monotonic()
    statuses: Counter[int] = Counter()
    schemas, numbers = [*REFUSED.items(), *BOUNDED.items()], itertools.count()
    transport = httpx.AsyncHTTPTransport(local_address="127.0.0.2")

    async def attack(number: int) -> None:
        gateway = scene.cluster.gateways[number % 2]
        first = number * len(schemas) // NUM_ATTACKS
        for name, schema in itertools.islice(itertools.cycle(schemas), first, None):
            if time.monotonic() > start + ATTACK_S:
                return
            if name == "more enum values than any list":
                continue  # it is larger than a body may be
            body = {"tools": [{"name": f"bad_{number}", "inputSchema": salted(schema, next(numbers))}]}
            with suppress(httpx.TransportError, ValueError):
                answer = await client.put(f"{gateway.url}/v1/toolsets/bad-{number}", json=body)
                statuses[answer.status_code] += 1

    async with httpx.AsyncClient(transport=transport, timeout=60) as client:
        await asyncio.gather(*(attack(number) for number in range(NUM_ATTACKS)))
    beside, num_beside = p99(scene, start, time.monotonic())
    scene.notes.append(
        f"p99 of {num_alone} answers alone {alone:.2f} s, of {num_beside} beside {beside:.2f} s;"
        f" statuses {dict(sorted(statuses.items()))}"
    )
    scene.load.wrong += [
        f"{number} answers of {status}" for status, number in statuses.items() if status >= 500
    ]
    if beside > MAX_SLOWER * alone:
        scene.load.wrong.append(f"the load's p99 is {beside / alone:.1f} times that of the load alone")


def salted(schema: dict[str, Any], number: int) -> dict[str, Any]:
    """A schema that nobody has sent before, so that no cache knows it."""
    return {**schema, "properties": {**schema.get("properties", {}), f"salt_{number}": {"type": "null"}}}


def p99(scene: Scene, start: float, end: float) -> tuple[float, int]:
    """The 99th percentile of how long answers took that ended in this time, in seconds, and their number."""
    took = sorted(
        one.end - one.start for one in scene.load.outcomes if start < one.end < end and one.is_answered
    )
    return (took[int(0.99 * len(took))] if took else 0.0), len(took)


async def opened(scene: Scene, body: dict[str, Any] | None, number: int = 0):
    """A connection on which a request was sent: its head alone without a body."""
    port = scene.cluster.gateways[number % 2].port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    content = b"" if body is None else json.dumps(body).encode()
    length = len(content) or 1000
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    writer.write(head.encode() + content)
    await writer.drain()
    return reader, writer


SHARED_FAULTS = (
    Fault("redis-killed", "Redis is killed, and started again after 5 s", redis_killed, STORE_GONE),
    Fault("redis-emptied", "Redis is killed and comes back empty; the toolsets are applied again", redis_emptied, STORE_GONE | {"unknown_toolset"}),
    Fault("redis-paused", "Redis does not answer for 10 s", redis_paused, STORE_GONE),
    Fault("redis-slow", "Redis takes 0.2 s for a command, for 8 s", redis_slow, STORE_GONE),
    Fault("redis-full", "Redis refuses writes for 5 s: its memory is full", redis_full, STORE_GONE),
    Fault("engine-killed", "an engine is killed in mid-stream, and started again after 5 s", engine_killed),
    Fault("engine-paused", "an engine stops for 20 s in mid-stream", engine_paused),
    Fault("engine-restarted", "an engine is told to end, and started again", engine_restarted),
    Fault("engines-killed", "both engines are killed, and started again after 3 s", engines_killed, ENGINE_GONE),
    Fault("engine-garbage", "an engine answers what is not JSON, for 6 s", engine_garbage),
    Fault("engine-forbidden", "an engine writes tokens that its masks forbid, for 6 s", engine_forbidden),
    Fault("gateway-killed", "a gateway is killed, and started again", gateway_killed, frozenset({CONNECTION})),
    Fault("gateway-drained", "a gateway is told to end while streams run", gateway_drained),
    Fault("gateways-upgraded", "each gateway is replaced by one of a later version, and then back", gateways_upgraded),
    Fault("all-upgraded", "engines and gateways are replaced by ones of a later version, a pair at a time, and then back", all_upgraded),
    Fault("clock-moved", "the clock of a gateway jumps an hour ahead, two back, and one ahead", clock_moved, missing=NO_FAKETIME),
    Fault("clients-vanish", "100 clients leave their streams without a word", clients_vanish),
    Fault("clients-read-slowly", "30 clients do not read their streams for 8 s", clients_read_slowly),
    Fault("clients-send-slowly", "50 clients send a byte of their request each second", clients_send_slowly),
    Fault("streams-aborted", "1,000 clients leave their streams after the first token", streams_aborted),
    Fault("hostile-schemas", f"schemas made to harm are sent to both gateways for {ATTACK_S:.0f} s", hostile_schemas),
)  # fmt: skip
