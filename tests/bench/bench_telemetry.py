"""What tracing and metrics cost: processor time of a gateway for each request, with and without.

PYTHONPATH=.:tests:tests/gateway python tests/bench/bench_telemetry.py [--pairs 20] [--requests 30]

Three gateways serve the demo's model, which is so small that telemetry weighs most, on one thread each. One sends
traces and metrics to a collector in this process, labels toolsets, writes the log in JSON, and is scraped after
each block. The others have all of it off; the second of them is the control, which shows what two equal gateways
differ by. They answer blocks of the same requests in turn: a required call, streamed, of a toolset of ten. A block's
processor time is that of the gateway's process, the exporters' threads included.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
from otlp_receiver import receiving_http

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
OFF = ("--metrics", "false", "--telemetry", "none")
TICKS_S = 1 / os.sysconf("SC_CLK_TCK")


class Gateway:
    """A gateway in a process of its own."""

    def __init__(self, process, url):
        self.process = process
        self.client = httpx.Client(base_url=url, timeout=60)
        self.client.put("/v1/toolsets/bench", json={"tools": TOOLS}).raise_for_status()

    def processor_s(self):
        """User and system time of the process, of all its threads and none of its children."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * TICKS_S

    def ask(self, number):
        for _ in range(number):
            answer = self.client.post("/v1/chat/completions", json=BODY).raise_for_status()
            assert "data: [DONE]" in answer.text


@contextmanager
def gateway(*options):
    program = [sys.executable, "-c", "from gateway.cli import main; main()", "serve"]
    with tempfile.TemporaryDirectory() as folder:
        model = ("--model", "tiny", "--num-threads", "1")
        process = subprocess.Popen(
            [*program, *model, "--port", "0", "--data-dir", folder, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            said = []
            while " at http://" not in (line := process.stdout.readline()):
                said.append(line)
                assert line, "".join(said)  # it ended
            threading.Thread(target=process.stdout.read, daemon=True).start()
            url = "http://" + line.split("http://")[1].split()[0]
            yield Gateway(process, url)
        finally:
            process.terminate()
            process.wait(30)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--requests", type=int, default=30, help="of a block")
    options = parser.parse_args()
    with receiving_http() as (collector, received):
        on = (
            *("--telemetry", "otlp", "--otlp-endpoint", collector, "--metrics-toolsets", "true"),
            *("--log-format", "json"),
        )
        with gateway(*on) as measured, gateway(*OFF) as plain, gateway(*OFF) as control:
            gateways = [measured, plain, control]
            costs = {each: [] for each in gateways}
            for each in gateways:
                each.ask(options.requests)  # compiles and warms up
            began = {each: each.processor_s() for each in gateways}
            for pair in range(options.pairs):
                for each in gateways[pair % 3 :] + gateways[: pair % 3]:
                    before = each.processor_s()
                    each.ask(options.requests)
                    if each is measured:
                        each.client.get("/metrics").raise_for_status()
                    costs[each].append((each.processor_s() - before) / options.requests)
            time.sleep(6)  # the exporters send what is left every five seconds
            total = {
                each: (each.processor_s() - began[each]) / options.requests / options.pairs
                for each in gateways
            }
            num_spans = len(received.spans)
    print(
        f"load {os.getloadavg()[0]:.1f}, {num_spans} spans were received; a request takes, of processor time:"
    )
    for name, each in (("without", plain), ("with", measured), ("without, again", control)):
        print(f"{name}: {1e3 * total[each]:.2f} ms, {compared(costs[each], costs[plain])}")


def compared(costs, plain):
    """How much more blocks cost than those without: the median, and between what it lies 95 times of 100."""
    ratios = sorted(cost / off - 1 for cost, off in zip(costs, plain, strict=True))
    middle, reach = (len(ratios) - 1) / 2, 0.98 * len(ratios) ** 0.5  # of a binomial distribution's ranks
    low, high = (min(max(round(rank), 0), len(ratios) - 1) for rank in (middle - reach, middle + reach))
    return f"{statistics.median(ratios):+.1%} ({ratios[low]:+.1%} to {ratios[high]:+.1%})"


if __name__ == "__main__":
    main()
