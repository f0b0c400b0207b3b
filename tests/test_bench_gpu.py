"""The GPU benchmark runs here from end to end, on a tiny model and a CPU, so that on a GPU it only has to run."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


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
    assert results["valid_outputs"] == "8 of 8"
    assert results["batch_4"]["masked_tokens_per_step"] > 0
    assert results["batch_1 compiled"]["ratio"] > 0
    assert results["workload ragged up to 8,000"]["output_tokens_s"] > 0
    assert results["workload shared prefix of 3,100"]["prompt_tokens"] > 0
    assert "| batch | unmasked" in (tmp_path / "bench_gpu.md").read_text()


def test_every_wheel_is_pinned(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tests" / "bench")
    from gpu_wheels import PACKAGES, pinned

    assert [pin.split("==")[0] for pin in pinned()] == list(PACKAGES)
