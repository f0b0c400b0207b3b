"""What tracing and metrics cost: processor time of a gateway for each request, with and without.

PYTHONPATH=.:tests:tests/gateway python tests/bench/bench_telemetry.py [--pairs 40] [--requests 20] [--played]

Two gateways serve the tiny model, which is so small that telemetry weighs most, on one thread. They share one
process, one engine and one event loop: two processes of the same program differ by up to 20% here, and one never
differs from itself. The first gateway sends traces and metrics to a collector elsewhere, labels toolsets, and is
scraped after each block. The second has all of it off. They answer blocks of the same requests in turn: a required
call, streamed, of a toolset of ten. A block's processor time is that of the gateways' process, the exporters' threads
included; spans are sent before the next block begins.

A model's own time varies by more than telemetry costs. With `--played`, a runtime plays the events of a call of 40
tokens instead: what then differs is what the gateway's spans, metrics and exporters take. What an engine counts of its
steps is left out.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from fake_runtime import FakeRuntime, call
from gateway_process import processor_s
from otlp_receiver import receiving_http
from serving import server_of

from gateway.app import create_app
from gateway.resources import Loaded
from gateway.settings import Settings
from runtime.protocol import Runtime

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"tool_{number}",
            "description": "Looks something up.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "maxLength": 20}, "days": {"type": "integer"}},
                "required": ["city", "days"],
            },
        },
    }
    for number in range(10)
]
BODY = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "What is the weather in Oslo in three days?"}],
    "toolset": "bench",
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "max_tokens": 60,
    "temperature": 0,
    "stream": True,
}
SENT_WITHIN_S = 0.2
PLAYED = "played"


class Shared:
    """A runtime that two gateways share: neither closes it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    async def close(self) -> None:
        pass


def serve(folder: str, collector: str, kind: str) -> None:
    """Serve both gateways, over the model or over played events; prints the address of each."""
    off: dict[str, Any] = {"model": "tiny", "num_threads": 1, "compile_workers": 0, "metrics": False}
    on = off | {"metrics": True, "metrics_toolsets": True, "telemetry": "otlp", "otlp_endpoint": collector}
    own = [Settings(data_dir=f"{folder}/{name}", **options) for name, options in (("on", on), ("off", off))]
    played = FakeRuntime(
        script=call("tool_1", '{"city": "', *("a" for _ in range(34)), '", "days": ', "3", "}")
    )
    runtime = Shared(played if kind == PLAYED else Loaded.load(own[1]).runtime)
    servers = [server_of(create_app(settings, runtime=runtime), settings) for settings in own]

    async def both() -> None:
        serving = [asyncio.create_task(server.serve()) for server in servers]
        while not all(server.started for server in servers):
            await asyncio.sleep(0.1)
        for server in servers:
            print(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", flush=True)
        await asyncio.gather(*serving)

    asyncio.run(both())


@contextmanager
def gateways(collector: str, kind: str) -> Iterator[tuple[int, list[httpx.Client]]]:
    """The process of both gateways and a client of each, the one with telemetry first."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, __file__, "--serve", folder, collector, kind],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OTEL_BSP_SCHEDULE_DELAY": str(int(1000 * SENT_WITHIN_S))},
        )
        try:
            assert process.stdout is not None
            yield process.pid, [httpx.Client(base_url=process.stdout.readline().strip()) for _ in range(2)]
        finally:
            process.kill()
            process.wait(30)


def ask(client: httpx.Client, number: int) -> None:
    for _ in range(number):
        answer = client.post("/v1/chat/completions", json=BODY, timeout=60).raise_for_status()
        assert "data: [DONE]" in answer.text


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--requests", type=int, default=20, help="of a block")
    parser.add_argument("--played", dest="kind", action="store_const", const=PLAYED, default="model")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(*options.serve)
        return
    with receiving_http() as (collector, received), gateways(collector, options.kind) as (pid, clients):
        with_telemetry, without = clients
        for client in clients:
            client.put("/v1/toolsets/bench", json={"tools": TOOLS}).raise_for_status()
            ask(client, options.requests)  # compiles and warms up
        costs: dict[httpx.Client, list[float]] = {client: [] for client in clients}
        for pair in range(options.pairs):
            for client in clients if pair % 2 else reversed(clients):
                before = processor_s(pid)
                ask(client, options.requests)
                if client is with_telemetry:
                    client.get("/metrics").raise_for_status()
                    time.sleep(2 * SENT_WITHIN_S)
                costs[client].append((processor_s(pid) - before) / options.requests)
        num_spans = len(received.spans)
    assert num_spans >= 3 * options.pairs * options.requests, "spans were not sent"
    print(f"load {os.getloadavg()[0]:.1f}; a request takes, of processor time:")
    for name, client in (("without telemetry", without), ("with it", with_telemetry)):
        print(f"{name}: {1e3 * statistics.median(costs[client]):.2f} ms")
    more = 1e3 * statistics.median(
        cost - off for cost, off in zip(costs[with_telemetry], costs[without], strict=True)
    )
    print(
        f"more: {more:.2f} ms, {compared(costs[with_telemetry], costs[without])}; {num_spans} spans were received"
    )


def compared(costs: list[float], plain: list[float]) -> str:
    """How much more blocks cost than those without: the median, and between what it lies 95 times of 100."""
    ratios = sorted(cost / off - 1 for cost, off in zip(costs, plain, strict=True))
    middle, reach = (len(ratios) - 1) / 2, 0.98 * len(ratios) ** 0.5  # of a binomial distribution's ranks
    low, high = (min(max(round(rank), 0), len(ratios) - 1) for rank in (middle - reach, middle + reach))
    return f"{statistics.median(ratios):+.1%} ({ratios[low]:+.1%} to {ratios[high]:+.1%})"


if __name__ == "__main__":
    main()
