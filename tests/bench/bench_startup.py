"""The first request after a start of the gateway, beside one like it and beside itself again.

PYTHONPATH=.:tests:tests/bench python tests/bench/bench_startup.py [--model DIRECTORY] [--rounds 5] [--tools 20]

Each round starts a gateway with an empty data directory. It asks for a call to one of some tools of the MCP corpus
(`first`), to one of others, of which nothing is compiled or cached either (`another`), and for the first call
again (`again`). Then it starts the gateway a second time, where the store has the grammars (`restarted`). Processor
seconds count the gateway's whole process group. Without `--model` the model is that of the comparison: 103 million
weights and Qwen 3's vocabulary.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import httpx
from corpus import mcp_tools
from side_by_side.model import ensure_model
from side_by_side.servers import Server, callgate

TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tools", type=int, default=20)
    options = parser.parse_args()
    model = options.model or ensure_model(Path(tempfile.gettempdir()))
    tools = [tool | {"name": f"{server}.{tool['name']}"[:64]} for server, tool in mcp_tools()]
    first, another = tools[::2][: options.tools], tools[1::2][: options.tools]
    times: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    tokens: dict[str, int] = {}
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            for step, shown in (("first", first), ("restarted", first)):
                start = time.perf_counter()
                with callgate(model, dtype="auto", max_batch=8, options=("--data-dir", folder)) as server:
                    times[f"ready, {step}"].append((time.perf_counter() - start, processor_seconds()))
                    asked = (("another", another), ("again", first)) if step == "first" else ()
                    for name, offered in ((step, shown), *asked):
                        times[name].append(timed(server, offered, tokens, name))
        print(f"round {number + 1}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    print("| | prompt tokens | seconds | of processors |\n|---|--:|--:|--:|")
    for name, pairs in times.items():
        by_clock, by_processor = (
            ", ".join(f"{t:.2f}" for t in sorted(column)) for column in zip(*pairs, strict=True)
        )
        print(f"| {name} | {tokens.get(name, '')} | {by_clock} | {by_processor} |")
    ratios = [a[0] / b[0] for a, b in zip(times["first"], times["another"], strict=True)]
    print(
        f"\nfirst by another, each round: {', '.join(f'{r:.2f}' for r in ratios)}; median {median(ratios):.2f}"
    )


def timed(
    server: Server, tools: list[dict[str, Any]], tokens: dict[str, int], name: str
) -> tuple[float, float]:
    """Seconds and processor seconds of one request for a call."""
    body = {
        "model": server.model,
        "messages": [{"role": "user", "content": "Call the first tool."}],
        "tools": tools,
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_tokens": 400,
        "temperature": 0,
    }
    before, start = processor_seconds(), time.perf_counter()
    answer = httpx.post(f"{server.url}/chat/completions", json=body, timeout=600)
    took = time.perf_counter() - start, processor_seconds() - before
    answer.raise_for_status()
    tokens[name] = answer.json()["usage"]["prompt_tokens"]
    return took


def processor_seconds() -> float:
    """What the gateway's processes have used: those whose session began in a child of this one."""
    used, sessions = 0, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue
            sessions[int(folder.name)] = (int(fields[1]), int(fields[3]), int(fields[11]) + int(fields[12]))
    own = {pid for pid, (parent, _, _) in sessions.items() if parent == os.getpid()}
    for _, session, ticks in sessions.values():
        used += ticks if session in own else 0
    return used / TICKS


if __name__ == "__main__":
    main()
