"""Faults of a gateway that has no other clients, or of a store by itself: they would take the load with them."""

import asyncio
import json
import os
import time
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import httpx

from chaos.cluster import ROOT, GatewayProcess
from chaos.contention import contended
from chaos.histories import violation
from chaos.load import NUM_FRESH, Load, fresh_schema, tool
from chaos.shared_faults import Fault, Scene
from chaos.sqlite_kills import killed_writers

NUM_KILLS = 200
CONTENDED_S = 60.0
MADE_UP_S = 900.0
MADE_UP_EXAMPLES = 130
"""Of each of some 40 operations: 5,000 requests, if there is time for them."""
NUM_SOAKING = 8
MAX_GROWTH = 0.1
"""How much a gateway may grow in the second half of a soak, as a share of its memory."""
DISK_BYTES = 1 << 20
KEY = "a-key-of-the-tests"
SCHEMATHESIS = ROOT / "build/schemathesis/bin/st"
NO_SCHEMATHESIS = "" if SCHEMATHESIS.exists() else "schemathesis is not installed; `make chaos` does so"
NO_MOUNT = "" if os.geteuid() == 0 else "only root can mount a small disk"


async def one_toolset_from_two_gateways(scene: Scene) -> None:
    """Clients of both gateways read a toolset, and replace what they have read; the history must be linearizable."""
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(httpx.AsyncClient(base_url=gateway.url, timeout=30))
            for gateway in scene.cluster.gateways
        ]
        history = await contended(clients, min(CONTENDED_S, scene.seconds_left))
    found = violation(history.operations)
    scene.load.wrong += [f"not linearizable: {found}"] if found else []
    scene.load.wrong += history.unclear
    scene.notes.append(str(history))


async def sqlite_disk_full(scene: Scene) -> None:
    """Its disk is a tmpfs of a megabyte, which is filled and emptied again: writes are refused, and reads served."""
    disk = scene.cluster.folder / "disk"
    disk.mkdir()
    await command("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk))
    gateway = scene.cluster.gateway("on-a-full-disk", store=f"sqlite://{disk}/callgate.db")
    gateway.start()
    try:
        await gateway.ready()
        async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as client:
            await filled_and_emptied(scene, client, disk / "ballast")
    finally:
        gateway.kill()
        await command("umount", str(disk))


async def filled_and_emptied(scene: Scene, client: httpx.AsyncClient, ballast: Path) -> None:
    """Register toolsets before the disk is full, while it is, and after that."""
    wrong = scene.load.wrong
    kept = [number for number in range(5) if (await registered(client, number)).is_success]
    fill(ballast)
    answers = {number: await registered(client, number) for number in range(5, 25)}
    kept += [number for number, answer in answers.items() if answer.is_success]
    statuses = Counter(answer.status_code for answer in answers.values())
    wrong += [f"a full disk is answered with {one}" for one in statuses.keys() - {200, 201, 503, 507}]
    shown = await client.get("/v1/toolsets/disk-0")
    wrong += [] if shown.is_success else [f"with a full disk, a read is answered with {shown.text}"]
    empty(ballast)
    start = time.monotonic()
    while not (answer := await registered(client, 100)).is_success and time.monotonic() - start < 30:
        await asyncio.sleep(0.1)
    wrong += [] if answer.is_success else [f"with room on the disk, a write is answered with {answer.text}"]
    scene.notes.append(
        f"full: {dict(sorted(statuses.items()))}; written again {time.monotonic() - start:.1f} s after there was room"
    )
    for number in kept:
        if not (await client.get(f"/v1/toolsets/disk-{number}")).is_success:
            wrong.append(f"lost: disk-{number}")


async def registered(client: httpx.AsyncClient, number: int) -> httpx.Response:
    body = {"tools": [tool(f"t_{number}", fresh_schema(number))]}
    return await client.put(f"/v1/toolsets/disk-{number}", json=body)


def fill(ballast: Path) -> None:
    """Write until the disk is full."""
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def empty(ballast: Path) -> None:
    ballast.unlink()


async def command(*words: str) -> None:
    """Run a command of the system."""
    process = await asyncio.create_subprocess_exec(*words)
    assert await process.wait() == 0, words


async def sqlite_killed(scene: Scene) -> None:
    """A process that writes is killed again and again; another one reads what it has acknowledged."""
    wrong, num_acknowledged = await asyncio.to_thread(
        killed_writers, scene.cluster.folder / "killed.db", NUM_KILLS
    )
    scene.load.wrong += wrong
    scene.notes.append(f"{NUM_KILLS} kills, {num_acknowledged} acknowledged writes")


async def embedded_streams_aborted(scene: Scene) -> None:
    """A thousand streams of the engine inside a gateway are left; no page and no sequence stays taken."""
    gateway = scene.cluster.gateway("embedded", default_max_tokens=200, kv_bytes=64 << 20)
    gateway.start()
    try:
        await gateway.ready()
        places = asyncio.Semaphore(24)
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:

            async def leave(number: int) -> None:
                body = {
                    "model": "tiny",
                    "messages": [{"role": "user", "content": f"Go on, {number}."}],
                    "tools": [tool("go", fresh_schema(number % 7)), tool("stay", fresh_schema(8))],
                    "stream": True,
                }
                async with places, client.stream("POST", "/v1/chat/completions", json=body) as answer:
                    assert answer.status_code == 200, await answer.aread()
                    async for line in answer.aiter_lines():
                        if number % 3 == 0 or '"delta"' in line:
                            return

            await asyncio.gather(*map(leave, range(100)))
            before = gateway.memory
            await asyncio.gather(*map(leave, range(100, 1000)))
            grown = (gateway.memory - before) / 2**20
            scene.notes.append(f"memory {grown:+.0f} MB after the first 100")
            for _ in range(200):
                found = await gateway.measures()
                kept = {name: value for name, value in found.items() if value and _is_of_a_request(name)}
                if not kept:
                    return
                await asyncio.sleep(0.05)
            scene.load.wrong.append(f"what streams have left is still there: {kept}")
    finally:
        gateway.kill()


def _is_of_a_request(name: str) -> bool:
    return name in {
        "callgate_engine_sequences running",
        "callgate_engine_sequences waiting",
        "callgate_engine_kv_pages used",
    }


async def soak(scene: Scene) -> None:
    """Fresh schemas for as long as there is time: memory must not grow once the caches are full.

    Clients of the soak's own send nothing else; the gateways' caches are full within minutes.
    """
    gateways, mb = scene.cluster.gateways, 2**20
    samples: list[list[dict[str, float]]] = []
    start = time.monotonic()
    end = max(start + 60, scene.end)
    clients = Load(list(gateways), kinds=("many fresh",))
    async with clients.running(NUM_SOAKING):
        while time.monotonic() < end:
            samples.append([await taken(gateway) for gateway in gateways])
            await asyncio.sleep(5)
    scene.load.wrong += clients.wrong
    minutes = (time.monotonic() - start) / 60
    scene.notes.append(
        f"{minutes:.1f} minutes, {len(clients.outcomes)} requests with {NUM_FRESH} fresh schemas each beside the load"
    )
    for number, gateway in enumerate(gateways):
        first, middle, last = (samples[place][number] for place in (0, len(samples) // 2, -1))
        sizes = " -> ".join(f"{one['memory'] / mb:.0f}" for one in (first, middle, last))
        scene.notes.append(
            f"{gateway.name} {sizes} MB, {last['cache'] / mb:.0f} MB of it grammars by its own count;"
            f" its workers {last['workers'] / mb:.0f} MB"
        )
        growth = last["memory"] / middle["memory"] - 1
        if growth > MAX_GROWTH:
            scene.load.wrong.append(f"{gateway.name} has grown by {growth:.0%} in the second half")
    (scene.cluster.folder.parent / "soak.json").write_text(json.dumps(samples))


async def taken(gateway: GatewayProcess) -> dict[str, float]:
    """Bytes that a gateway takes: its own, those of its compile workers, and its grammars by its own count."""
    cache = (await gateway.measures()).get("callgate_grammar_cache_size_bytes", 0.0)
    return {"memory": gateway.memory, "workers": gateway.workers_memory, "cache": cache}


async def made_up_requests(scene: Scene) -> None:
    """Schemathesis makes requests of the gateway's own API document, good and bad ones, and judges the answers."""
    gateway = scene.cluster.gateway("made-up", context_length=512, default_max_tokens=32, api_key=KEY)
    report = scene.cluster.folder / "schemathesis.json"
    gateway.start()
    try:
        await gateway.ready()
        done = await asyncio.create_subprocess_exec(
            *(str(SCHEMATHESIS), "--config-file", str(Path(__file__).with_name("schemathesis.toml"))),
            *("run", f"{gateway.url}/openapi.json", "--header", f"Authorization: Bearer {KEY}"),
            *("--checks", "all", "--max-examples", str(MADE_UP_EXAMPLES)),
            *("--max-time", f"{min(MADE_UP_S, scene.seconds_left):.0f}"),
            *("--request-timeout", "40", "--continue-on-failure", "--no-shrink"),
            *("--report", "json", "--report-json-path", str(report)),
            stdout=asyncio.subprocess.PIPE,
            cwd=scene.cluster.folder,
        )
        said, _ = await done.communicate()
    finally:
        gateway.kill()
    found = json.loads(report.read_text())
    scene.notes.append(
        f"{found['test_cases']['generated']} requests to {found['operations']['tested']} operations"
    )
    (scene.cluster.folder.parent / "schemathesis.txt").write_bytes(said)
    wrong = [f"{one['title']}: {where}" for one in found["failures"] for where in one["operations"]]
    scene.load.wrong += [*wrong, *map(str, found["errors"])]


OWN_FAULTS = (
    Fault("one-toolset", "six clients of two gateways change one toolset at once", one_toolset_from_two_gateways),
    Fault("sqlite-disk-full", "the disk under SQLite is full", sqlite_disk_full, missing=NO_MOUNT),
    Fault("sqlite-killed", "a process is killed 200 times while it writes to SQLite", sqlite_killed),
    Fault("embedded-aborted", "1,000 streams of the engine in a gateway are left", embedded_streams_aborted),
    Fault("made-up-requests", "thousands of requests are made up from the API document", made_up_requests, missing=NO_SCHEMATHESIS),
    Fault("soak", "fresh schemas for as long as there is time", soak),
)  # fmt: skip
