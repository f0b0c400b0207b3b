"""How fast a model on the CPU computes beside busy processes: threads, how they wait, which cores they may use.

PYTHONPATH=.:tests:tests/bench python tests/bench/bench_threads.py [--rounds 3] [--steps 40] [--dtype float32] [--out FILE]

Each arm is a process of its own with its own environment. They take turns: in every round each arm computes
some decode steps and one chunk of a prompt, while the others sleep. Between rounds the order is reversed.
`beside` are processes that compute without end; `quota` stops an arm once it used that many cores' time in a
period of 100 ms, as the scheduler does in a container with a limit.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from statistics import median
from typing import Any

NUM_CORES = len(os.sched_getaffinity(0))
PERIOD_S = 0.1
POLICIES = {
    "torch's default": {},
    "spin 100,000": {"GOMP_SPINCOUNT": "100000"},
    "spin 10,000": {"GOMP_SPINCOUNT": "10000"},
    "spin 1,000": {"GOMP_SPINCOUNT": "1000"},
    "passive": {"OMP_WAIT_POLICY": "PASSIVE"},
}


@dataclass(frozen=True, slots=True)
class Condition:
    """What else runs, and what an arm may use."""

    name: str
    num_beside: int = 0
    num_cores: int = NUM_CORES
    quota: float | None = None


CONDITIONS = (
    Condition("alone"),
    Condition("1 busy process", num_beside=1),
    Condition(f"{NUM_CORES} busy processes", num_beside=NUM_CORES),
    Condition("affinity of 1 core", num_cores=1),
    Condition("quota of 1 core", quota=1.0),
)


@dataclass
class Arm:
    """A process that computes when it is told to."""

    name: str
    process: "subprocess.Popen[str]"
    times: defaultdict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def start(
        cls, name: str, num_threads: int, environment: dict[str, str], options: argparse.Namespace
    ) -> "Arm":
        """Start the process; it loads a model first."""
        command = [sys.executable, __file__, "--arm", str(num_threads)]
        command += ["--steps", str(options.steps), "--dtype", options.dtype]
        without = {key: value for key, value in os.environ.items() if "OMP_" not in key}
        process = subprocess.Popen(
            command, env=without | environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return cls(name, process)

    def measure(self, condition: Condition) -> None:
        """Compute once under a condition."""
        allowed = sorted(os.sched_getaffinity(0))[: condition.num_cores]
        for thread in Path(f"/proc/{self.process.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), allowed)
        with limited(self.process.pid, condition.quota):
            self.times[condition.name].append(self.ask("go"))

    def ask(self, command: str) -> Any:
        """What the process answers."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def row(self, condition: Condition) -> tuple[float, float, float]:
        """Medians over the rounds: ms of a step, ms of a chunk, processor seconds of all."""
        times = self.times[condition.name]
        return (
            median(t["step_ms"] for t in times),
            median(t["chunk_ms"] for t in times),
            median(t["cpu_s"] for t in times),
        )


@contextmanager
def busy(number: int) -> Iterator[None]:
    """Processes that compute without end."""
    with ExitStack() as running:
        for _ in range(number):
            process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            running.callback(process.wait)
            running.callback(process.kill)
        yield


@contextmanager
def limited(pid: int, quota: float | None) -> Iterator[None]:
    """Stop a process for the rest of each period in which it used up `quota` cores."""
    if quota is None:
        yield
        return
    clock, ended = (~pid << 3) | 2, threading.Event()  # Linux's clock of the process's processor time

    def watch() -> None:
        while not ended.is_set():
            used, end = time.clock_gettime(clock), time.monotonic() + PERIOD_S
            while not ended.is_set() and (left := end - time.monotonic()) > 0:
                if time.clock_gettime(clock) - used >= quota * PERIOD_S:
                    os.kill(pid, SIGSTOP)
                    time.sleep(left)
                    os.kill(pid, SIGCONT)
                else:
                    time.sleep(0.002)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--arm", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.arm:
        compute(options.arm, options.steps, options.dtype)
        return
    arms = [Arm.start(name, NUM_CORES, env, options) for name, env in POLICIES.items()]
    arms.append(Arm.start("1 thread", 1, {}, options))
    for arm in arms:
        arm.ask("ready")
    for number in range(options.rounds):
        for condition in CONDITIONS:
            with busy(condition.num_beside):
                for arm in arms if number % 2 == 0 else reversed(arms):
                    arm.measure(condition)
        print(f"round {number + 1} of {options.rounds}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    print_table(arms)
    if options.out:
        options.out.write_text(json.dumps({arm.name: arm.times for arm in arms}, indent=1))
    for arm in arms:
        arm.process.kill()


def print_table(arms: list[Arm]) -> None:
    """A row for each condition: of each arm, ms of a step / of a chunk / processor seconds."""
    print("| |", " | ".join(arm.name for arm in arms), "|")
    print("|---|", "--:|" * len(arms))
    for condition in CONDITIONS:
        cells = ("{:.0f} / {:.0f} / {:.1f}".format(*arm.row(condition)) for arm in arms)
        print(f"| {condition.name} |", " | ".join(cells), "|")


def compute(num_threads: int, num_steps: int, dtype: str) -> None:
    """An arm: wait for lines, and answer each with times; a new prompt each time, so no prefix is reused."""
    import torch
    from side_by_side.model import shape
    from transformers import AutoModelForCausalLM

    from compiler.prepared_vocabulary import PreparedVocabulary
    from compiler.vocabulary import Vocabulary
    from runtime.embedded import run_in_short_lived_thread
    from runtime.engine import Engine
    from runtime.forward.model_runner import ModelRunner
    from runtime.scheduling.sequence import Sequence
    from runtime.settings import EngineSettings

    settings = EngineSettings(kv_bytes=64 * 2**20)

    def load() -> ModelRunner:
        model = AutoModelForCausalLM.from_config(
            shape(eos_token_id=None, pad_token_id=0), dtype=getattr(torch, dtype)
        )
        return ModelRunner(model, settings)

    runner = run_in_short_lived_thread(load)
    torch.set_num_threads(num_threads)
    vocabulary = Vocabulary.from_tokens(
        [b"%d " % token_id for token_id in range(runner.num_columns)], stop_ids=(0,)
    )
    engine = Engine(runner, PreparedVocabulary(vocabulary), settings, context_length=1024)
    for number, line in enumerate(sys.stdin):
        num_wanted = num_steps if line.strip() == "go" else 2
        prompt = [1 + (number * 7919 + i * i) % 100_000 for i in range(settings.max_batch_tokens)]
        cpu, steps = time.process_time(), []
        engine.add(Sequence(str(number), prompt, max_tokens=1 + num_wanted, seed=1))
        while engine.has_work:
            start = time.perf_counter()
            engine.step()
            steps.append(1000 * (time.perf_counter() - start))
        times = {"chunk_ms": steps[0], "step_ms": median(steps[1:]), "cpu_s": time.process_time() - cpu}
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
