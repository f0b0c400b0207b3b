"""Grammars of this project inside a real vLLM, beside vLLM's own structural tags, in one server.

PYTHONPATH=.:tests:tests/gateway:tests/engines python tests/bench/bench_vllm.py answers [--at-once 1,8] [--rounds 5]
    [--model smollm2]
PYTHONPATH=.:tests:tests/gateway:tests/engines python tests/bench/bench_vllm.py first-mask [--starts 3]

vLLM runs in the environment that `make test-engines` makes. `answers`: twenty tools of BFCL, a call is required,
at most 128 tokens; the same questions go through a gateway and to vLLM itself (`strict`, its Hermes parser), one
after the other, in rounds that take turns in who begins. An answer counts if it is complete and its call valid.
The model is one of random weights, or `--model`, whose adapter, if it has one, is merged for vLLM.

`first-mask`: from the request to the first token, of all tools of the MCP corpus by a mark, nothing cached but
the store, in an engine that has just started; then once more. In the last engine also of vLLM's own structural
tag of some of them, with a chat template that does not show them.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from bench_engine_masks import unique_mcp_tools
from engine_models import REQUIRED, look_up, marked
from engine_server import MODEL, EngineServer
from side_by_side import servers
from side_by_side.answer import Run
from side_by_side.model import ensure_model
from side_by_side.servers import Server
from side_by_side.workload import Workload, bfcl_workload
from vllm_server import complete, running_vllm

from runtime.loading import load_model
from runtime.models import find_source
from runtime.text.tokenizer import load_tokenizer
from toolspecs.tool import Tool

SECRET = "a secret of benchmarks"
OPTIONS = (
    *("--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--trust-request-chat-template"),
    *("--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}'),
)
NO_TOOLS_SHOWN = "{% for m in messages %}{{ m.content }}{% endfor %}"
OWN_LIMIT_S = 240.0
MAX_CONTEXT = 32_768


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["answers", "first-mask"])
    parser.add_argument("--at-once", default="1,8")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--model", help="a directory, a GGUF file, or a name such as smollm2")
    parser.add_argument("--dtype", default="bfloat16", help="float32 where the CPU cannot multiply bfloat16")
    parser.add_argument("--own-tools", default="100", help="numbers of tools for vLLM's own structural tag")
    options = parser.parse_args()
    folder = Path(tempfile.gettempdir()) / "callgate-bench"
    folder.mkdir(exist_ok=True)
    model = saved_model(options.model, folder) if options.model else ensure_model(folder)
    with tempfile.TemporaryDirectory() as place:
        if options.what == "answers":
            at_once = [int(n) for n in options.at_once.split(",")]
            answers(model, Path(place), at_once, options.rounds, options.dtype)
        else:
            own_tools = [int(n) for n in options.own_tools.split(",")]
            first_masks(model, Path(place), options.starts, own_tools, options.dtype)


def saved_model(name: str, folder: Path) -> Path:
    """The directory of a model in transformers' format, written below `folder` with its adapter merged."""
    source = find_source(name, folder)
    loaded = load_model(source.model, device="cpu", adapter=source.adapter)
    target = folder / f"{Path(name).name}-merged"
    for part in (loaded.model, loaded.tokenizer):
        part.save_pretrained(target)
    return target


def engine_options(model: Path, dtype: str) -> tuple[str, ...]:
    """The options of vLLM for a model, whose context may be shorter than what is asked for."""
    context = json.loads((model / "config.json").read_text())["max_position_embeddings"]
    return (*OPTIONS, "--dtype", dtype, "--max-model-len", str(min(context, MAX_CONTEXT)))


def answers(model: Path, folder: Path, at_once: list[int], rounds: int, dtype: str) -> None:
    """The table of complete, valid answers a second."""
    workload = bfcl_workload(num_tools=20, num_questions=64, max_tokens=128)
    store_url = f"sqlite://{folder}/callgate.db"
    os.environ["CALLGATE_SECRET"] = SECRET  # of the gateway that is started here
    with running_vllm(
        folder, store_url=store_url, secret=SECRET, model=model, options=engine_options(model, dtype)
    ) as vllm:
        remote = ("--engine", "vllm", "--engine-url", vllm.url, "--store", store_url)
        with (
            servers.callgate(model, dtype=dtype, max_batch=32, options=remote) as ours,
            servers.callgate(
                model, dtype=dtype, max_batch=32, options=(*remote, "--jump-forward", "false")
            ) as plain,
        ):
            named = {
                "gateway": ours,
                "gateway, no jump-forward": plain,
                "vLLM alone": Server(f"{vllm.url}/v1", MODEL),
            }
            print(
                "| at once | who | answers/s, median | against vLLM alone: median (rounds) | tokens/s | valid |"
            )
            print("|--:|---|--:|--:|--:|--:|")
            for number in at_once:
                compare(named, workload, number, rounds)


def compare(named: dict[str, Server], workload: Workload, at_once: int, rounds: int) -> None:
    """Rounds of all servers; in every second one they are asked in the opposite order."""
    runs = {name: list[Run]() for name in named}
    for server in named.values():
        server.run(
            workload, concurrency=at_once, num_requests=at_once
        )  # whatever is done once is done before
    for number in range(rounds):
        for name, server in list(named.items())[:: 1 if number % 2 else -1]:
            runs[name].append(server.run(workload, concurrency=at_once, num_requests=max(at_once, 4)))
    base = [run.calls_per_second for run in runs["vLLM alone"]]
    for name, found in runs.items():
        ratios = sorted(r.calls_per_second / b for r, b in zip(found, base, strict=True) if b)
        ratio = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})" if ratios else "-"
        speed = statistics.median(run.calls_per_second for run in found)
        tokens = statistics.median(run.tokens_per_second for run in found)
        valid = statistics.mean(run.share_valid for run in found)
        print(f"| {at_once} | {name} | {speed:.2f} | {ratio} | {tokens:.0f} | {valid:.0%} |", flush=True)


def first_masks(model: Path, folder: Path, starts: int, own: list[int], dtype: str) -> None:
    """How long the first token of a large toolset takes."""
    tools = unique_mcp_tools()
    text = load_tokenizer(model)
    store_url = f"sqlite://{folder}/callgate.db"
    found = look_up(
        store_url, tools, choice=REQUIRED, parallel=True, secret=SECRET.encode(), vocabulary=text.prepared
    )
    mark = marked(found, secret=SECRET.encode())
    prompt = text.tokenizer("Call it.")["input_ids"]
    for start in range(starts):
        with running_vllm(
            folder, store_url=store_url, secret=SECRET, model=model, options=engine_options(model, dtype)
        ) as vllm:
            complete(vllm, prompt, None, max_tokens=2)
            for state in ("nothing cached but the store", "once more"):
                seconds = timed(partial(complete, vllm, prompt, mark, max_tokens=1))
                print(f"{len(tools)} tools by a mark, {state}: {seconds:.2f} s", flush=True)
            for number in own if start == starts - 1 else ():
                for state in ("new", "once more"):
                    seconds = timed(partial(own_tag, vllm, tools[:number]))
                    print(
                        f"{number} tools by vLLM's own structural tag, {state}: {seconds:.2f} s", flush=True
                    )


def own_tag(vllm: EngineServer, tools: list[Tool]) -> httpx.Response:
    """One token of a required call of vLLM's own, whose prompt does not show the tools."""
    functions: list[dict[str, Any]] = [
        {
            "type": "function",
            "function": {"name": tool.name, "parameters": dict(tool.parameters), "strict": True},
        }
        for tool in tools
    ]
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Call it."}],
        "tools": functions,
        "tool_choice": "required",
        "chat_template": NO_TOOLS_SHOWN,
        "max_tokens": 1,
    }
    return httpx.post(f"{vllm.url}/v1/chat/completions", json=body, timeout=OWN_LIMIT_S)


def timed(ask: Callable[[], httpx.Response]) -> float:
    """The seconds of a request; an error is printed."""
    start = time.perf_counter()
    answer = ask()
    if answer.is_error:
        print(f"refused: {answer.text[:300]}")
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
