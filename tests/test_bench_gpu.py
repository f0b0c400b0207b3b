"""The GPU benchmark runs here from end to end, on a tiny model and a CPU, so that on a GPU it only has to run."""

import ast
import json
import os
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = ("toolspecs", "compiler", "runtime")
NOT_REACHED = {"landlock", "matplotlib", "pyseccomp", "sglang", "vllm"}
"""What the benchmark never imports: for isolated compile workers, pictures, and plugins of engines."""


THERE = {
    "PyYAML",
    "httpcore",
    "httpx",
    "huggingface_hub",
    "Jinja2",
    "numpy",
    "safetensors",
    "tokenizers",
    "torch",
    "transformers",
    "triton",
}
"""What a GPU machine has anyway."""


def test_every_part_of_the_gpu_benchmark_runs_on_a_cpu(tmp_path):
    command = [sys.executable, "tests/bench/bench_gpu.py", "--device", "cpu", "--model", "tiny"]
    command += ["--profile", "--compiler", "eager"]
    path = os.pathsep.join([".", "tests", "tests/runtime", *sys.path])
    done = subprocess.run(
        [*command, "--out", str(tmp_path), "--shapes", "llama", "--tokenizer", str(tmp_path / "none")],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    results = json.loads((tmp_path / "bench_gpu.json").read_text())
    # transformers' continuous batching asks for more libraries on a CPU than it needs on a GPU.
    failed = {name for name, value in results.items() if isinstance(value, dict) and "failed" in value}
    assert failed <= {"transformers_tokens_s"}
    assert results["shapes"] == {"llama": "equal, in graphs"}
    assert results["valid_outputs"] == {"valid": 8, "of": 8}
    assert results["batch_4"]["masked_tokens_per_step"] > 0
    assert results["batch_1 compiled"]["ratio"] > 0
    assert results["workload ragged up to 8,000"]["output_tokens_s"] > 0
    assert results["workload shared prefix of 3,100"]["prompt_tokens"] > 0
    assert "| batch | unmasked" in (tmp_path / "bench_gpu.md").read_text()


def test_a_gpu_machine_gets_all_that_the_runtime_imports(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tests" / "bench")
    from gpu_wheels import PACKAGES

    sources = [file.read_text() for layer in LAYERS for file in (ROOT / layer).rglob("*.py")]
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    modules |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    packages = packages_distributions()
    imported = {packages[name][0] for module in modules if (name := module.split(".")[0]) in packages}
    carried = {name.lower().replace("_", "-") for name in {*PACKAGES, *THERE}}
    missing = {name for name in imported if name.lower().replace("_", "-") not in carried}
    assert missing - {"callgate", *NOT_REACHED} == set()


@pytest.mark.parametrize(
    "changed",
    [
        {"kernel": {"float32": 1e-3}},
        {"kernel": {"failed": "no device"}},
        {"shapes": {"llama": "differs"}},
        {"valid_outputs": {"valid": 127, "of": 128}},
        {"valid_outputs": {"failed": "invalid JSON"}},
    ],
)
def test_a_gpu_that_computes_something_else_is_noticed(monkeypatch, changed):
    for folder in ("bench", "runtime"):
        monkeypatch.syspath_prepend(ROOT / "tests" / folder)
    from bench_gpu import _is_right

    right = {
        "kernel": {"float32": 1.3e-6, "bfloat16": 2.5e-3},
        "shapes": {"llama": "equal, in graphs"},
        "valid_outputs": {"valid": 128, "of": 128},
    }
    assert _is_right(right)
    assert not _is_right(right | changed)


def test_every_wheel_is_pinned(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tests" / "bench")
    from gpu_wheels import PACKAGES, pinned

    assert [pin.split("==")[0] for pin in pinned()] == list(PACKAGES)
