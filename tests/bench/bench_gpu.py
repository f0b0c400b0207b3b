"""The runtime on a GPU: right first, then how fast, as JSON and as a table.

make bench-gpu, after make gpu-wheels where there is a package index; BENCH_GPU="--profile" passes options.
Offline, with random weights made on the device. `--device cpu --model tiny` runs all of it anywhere.
"""

import argparse
import json
import math
import multiprocessing
import platform
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import architectures
import paged_attention_cases
import torch
import transformers
from gpu_timing import SCALES, Bench, copy_rate, vocabulary_for
from gpu_workloads import WORKLOADS

from compiler.prepared_vocabulary import prepare
from runtime.engine import Engine
from runtime.forward.device_operations import DeviceOperations, device_operations_of
from runtime.forward.forward_pass import COMPILE_OPTIONS
from runtime.forward.model_runner import ModelRunner
from runtime.request import Sampling
from runtime.scheduling.sequence import Sequence
from runtime.settings import EngineSettings

LARGEST_ERRORS = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 1e-2}
"""Relative errors of the kernel that rounding explains."""


def main() -> bool:
    """Check, measure, write; returns whether everything that was checked is right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", choices=SCALES, default="llama-3.1-8b")
    parser.add_argument("--tokenizer", type=Path, default=Path(".gpu/tokenizer"), help="made up if absent")
    parser.add_argument("--out", type=Path, default=Path("build/bench-gpu"))
    parser.add_argument(
        "--shapes", nargs="*", default=list(architectures.CONFIGS), help="small models to compare"
    )
    parser.add_argument("--jobs", type=int, default=14, help="processes that check")
    parser.add_argument("--compiler", default="inductor", help="torch's, for compiled layers")
    parser.add_argument("--check-only", action="store_true", help="time nothing")
    parser.add_argument("--profile", action="store_true", help="list the kernels of a decode step")
    options = parser.parse_args()
    device, scale = torch.device(options.device), SCALES[options.model]
    COMPILE_OPTIONS["backend"] = options.compiler
    if device.type == "cpu":
        torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {"model": options.model, "machine": _machine(device)}

    def record(name: str, measure: Callable[[], Any]) -> None:
        """Keep what is known when something later fails; a part that fails says so in its place."""
        try:
            results[name] = measure()
        except Exception as error:  # noqa: BLE001 one part is no reason to lose the others
            results[name] = {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
        print(name, json.dumps(results[name]), flush=True)
        (options.out / "bench_gpu.json").write_text(json.dumps(results, indent=1))
        (options.out / "bench_gpu.md").write_text(_table(results))

    with _checkers(device, options.jobs) as checkers:
        record("kernel", lambda: _check_kernel(device, checkers))
        record("shapes", lambda: dict(checkers.map(partial(_check_shape, device), options.shapes)))
    if options.check_only:
        return _is_right(results)
    record("copy_gb_s", lambda: copy_rate(device, scale.copied_bytes) / 1e9)
    bench = Bench(scale, device, vocabulary_for(scale.config.vocab_size, options.tokenizer))
    record("floor_ms", lambda: 1e3 * bench.weight_bytes / copy_rate(device, scale.copied_bytes))
    record("graphs", bench.graph_sizes)
    record("valid_outputs", bench.valid_outputs)
    for batch in scale.batches:
        record(f"batch_{batch}", partial(bench.masked_and_unmasked, batch))
    if options.profile:
        record("kernels_us", bench.kernels)
    for workload in WORKLOADS:
        record(f"workload {workload.name}", partial(bench.under, workload))
    record("ours_tokens_s", lambda: bench.throughput(scale.beside))
    record("compile_layers_s", bench.compile_layers)
    for batch in scale.compiled_batches:
        record(f"batch_{batch} compiled", partial(bench.masked_and_unmasked, batch))
    record("ours_compiled_tokens_s", lambda: bench.throughput(scale.beside))
    record("transformers_tokens_s", lambda: bench.throughput_of_transformers(scale.beside))
    print(_table(results))
    return _is_right(results)


@contextmanager
def _checkers(device: torch.device, jobs: int) -> Iterator[Executor]:
    """What checks in parallel: Triton takes a second or more to compile a kernel, and checks need a hundred."""
    if device.type == "cpu":
        with ThreadPoolExecutor(1) as thread:
            yield thread
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as processes:
        yield processes


def _check_kernel(device: torch.device, checkers: Executor) -> dict[str, float]:
    """The largest relative error by type, over the cases that the interpreter is tested with, and bf16."""
    if device_operations_of(device) is None:
        return {}
    jobs = list(product(range(len(paged_attention_cases.CASES)), ("float32", "float16", "bfloat16")))
    largest: defaultdict[str, float] = defaultdict(float)
    for (_, dtype), error in zip(jobs, checkers.map(partial(_kernel_error, device), jobs), strict=True):
        largest[dtype] = max(largest[dtype], error)
    return dict(largest)


def _kernel_error(device: torch.device, job: tuple[int, str]) -> float:
    """The largest relative error of a case in a type; infinite if a value is not a number."""
    from runtime.forward.paged_triton_kernel import attend_pages

    case, dtype = paged_attention_cases.CASES[job[0]], getattr(torch, job[1])
    query, keys, values, queries, scoring = case.make()
    query, keys, values = (states.to(dtype) for states in (query, keys, values))
    expected = paged_attention_cases.reference(query.double(), keys, values, queries, scoring)
    query, keys, values = (states.to(device) for states in (query, keys, values))
    queries, scoring = paged_attention_cases.moved(queries, scoring, device)
    errors = []
    for num_splits in {1, case.num_splits, None}:
        found = attend_pages(query, keys, values, queries, scoring, num_splits).double().cpu()
        error = float((found - expected).norm() / expected.norm())
        errors.append(math.inf if math.isnan(error) else error)
    return max(errors)


def _check_shape(device: torch.device, name: str) -> tuple[str, str]:
    """Greedy tokens of a small model: the device's against those of pages gathered on the CPU."""
    backend = device_operations_of(device) or DeviceOperations(
        paged_attention_cases.reference, lambda step: step
    )
    expected, _ = _greedy(architectures.build(architectures.CONFIGS[name]), None)
    try:
        found, has_graphs = _greedy(architectures.build(architectures.CONFIGS[name]).to(device), backend)
    except Exception as error:  # noqa: BLE001 one shape is no reason to lose the others
        return name, f"failed: {type(error).__name__}: {error}"[:200]
    if found != expected:
        return name, "differs"
    return name, "equal, in graphs" if has_graphs else "equal, without graphs"


def _greedy(model: Any, backend: DeviceOperations | None) -> tuple[list[list[int]], bool]:
    settings = EngineSettings(page_size=4, num_pages=128, max_batch_tokens=16, max_batch=8)
    runner = ModelRunner(model, settings, backend)
    engine = Engine(runner, prepare(architectures.EVERYTHING), settings, context_length=256)
    sequences = [
        Sequence(f"{i}", p, 24, Sampling(temperature=0)) for i, p in enumerate(architectures.PROMPTS)
    ]
    for sequence in sequences:
        engine.add(sequence)
    while engine.has_work:
        engine.step()
    return [sequence.output_ids for sequence in sequences], runner.graphs is not None


def _table(results: dict[str, Any]) -> str:
    """What docs/benchmarks.md shows."""
    lines = [f"{results['model']} on {results['machine']}", ""]
    lines += [
        "| batch | unmasked, ms a token | masked | ratio (rounds) | fill, us a mask |",
        "|--:|--:|--:|--:|--:|",
    ]
    for name, row in results.items():
        if name.startswith("batch_") and "ratio" in row:
            spread = f"{row['ratio']:.3f} ({row['ratio_least']:.3f} to {row['ratio_most']:.3f})"
            lines.append(
                f"| {name[6:]} | {row['unmasked_ms']:.2f} | {row['masked_ms']:.2f} | {spread} |"
                f" {row['fill_us_per_mask']:.0f} |"
            )
    lines += ["", "| what | figure |", "|---|--:|"]
    floor = results.get("floor_ms")
    for name in ("batch_1", "batch_1 compiled"):
        if "unmasked_ms" in results.get(name, {}) and isinstance(floor, float):
            over = results[name]["unmasked_ms"] / floor
            lines.append(
                f"| batch {name[6:]}, over the memory-bandwidth floor of {floor:.2f} ms | {over:.2f} |"
            )
    rates = [results.get(f"{who}_tokens_s") for who in ("ours", "ours_compiled", "transformers")]
    shown = " / ".join(f"{rate:.0f}" if isinstance(rate, float) else "?" for rate in rates)
    lines.append(
        f"| tokens a second, ours / with compiled layers / transformers' continuous batching | {shown} |"
    )
    for name, row in results.items():
        if name.startswith("workload ") and "step_p50_ms" in row:
            steps = f"{row['step_p50_ms']:.1f} / {row['step_p99_ms']:.1f}"
            lines.append(
                f"| {name[9:]}: tokens a second; ms a step, p50 / p99 | {row['output_tokens_s']:.0f}; {steps} |"
            )
    for name, value in results.items():
        if name in {"copy_gb_s", "kernel", "shapes", "graphs", "valid_outputs", "compile_layers_s"} or (
            isinstance(value, dict) and "failed" in value
        ):
            lines.append(f"| {name} | {json.dumps(value)} |")
    return "\n".join(lines) + "\n"


def _machine(device: torch.device) -> str:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    return f"{name}, {versions}, transformers {transformers.__version__}"


def _is_right(results: dict[str, Any]) -> bool:
    """Whether errors are those of rounding, tokens are equal, and every output is valid; a failed part is not."""
    errors, shapes_found = results["kernel"], results["shapes"]
    outputs = results.get("valid_outputs", {"valid": 0, "of": 0})
    return (
        "failed" not in errors | shapes_found | outputs
        and all(error <= LARGEST_ERRORS[name] for name, error in errors.items())
        and all(found.startswith("equal") for found in shapes_found.values())
        and outputs["valid"] == outputs["of"]
    )


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
