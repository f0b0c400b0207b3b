"""Loads that bench_gpu.py puts on an engine beside plain decoding: long prompts, a shared one, arrivals, `top_p`."""

import statistics
import time
from dataclasses import dataclass

import torch

from runtime.engine import Engine
from runtime.request import Sampling
from runtime.scheduling.sequence import Sequence


@dataclass(frozen=True)
class Workload:
    """Prompts of `shortest` to `longest` tokens of their own after `shared` common ones.

    A new sequence arrives in every `steps_between` steps; with 0, all come at once.
    """

    name: str
    shortest: int = 64
    longest: int = 64
    shared: int = 0
    steps_between: int = 0
    top_p: float = 1.0


WORKLOADS = (
    Workload("alike"),
    Workload("top_p 0.9", top_p=0.9),
    Workload("shared prefix of 3,100", shared=3100),
    Workload("ragged up to 8,000", longest=7900),
    Workload("arrivals beside decoding", longest=2000, steps_between=4),
)


def measure(
    engine: Engine, workload: Workload, *, count: int, num_output: int, num_ids: int, most: int
) -> dict[str, float]:
    """Tokens a second and milliseconds of a step for `count` sequences of `num_output` tokens.

    Prompts have at most `most` tokens. Every engine of one model gets the same prompts.
    """
    waiting = _sequences(workload, count, num_output, num_ids, most)
    sequences = list(waiting)
    times: list[float] = []
    start = time.perf_counter()
    while waiting or engine.has_work:
        due = len(waiting) if not workload.steps_between else len(times) % workload.steps_between == 0
        for _ in range(min(int(due), len(waiting))):
            engine.add(waiting.pop())
        before = time.perf_counter()
        engine.step()
        times.append(time.perf_counter() - before)
    elapsed = time.perf_counter() - start
    return {
        "output_tokens_s": sum(sequence.num_output for sequence in sequences) / elapsed,
        "prompt_tokens": sum(len(sequence.prompt_ids) for sequence in sequences),
        "step_p50_ms": 1e3 * statistics.median(times),
        "step_p99_ms": 1e3 * sorted(times)[int(0.99 * (len(times) - 1))],
    }


def _sequences(workload: Workload, count: int, num_output: int, num_ids: int, most: int) -> list[Sequence]:
    noise = torch.Generator().manual_seed(0)

    def ids(number: int) -> list[int]:
        return torch.randint(1, num_ids, (number,), generator=noise).tolist()

    common = ids(min(workload.shared, most // 2))
    longest = min(workload.longest, most - len(common))
    shortest = min(workload.shortest, longest)
    lengths = torch.randint(shortest, longest + 1, (count,), generator=noise).tolist()
    return [
        Sequence(f"{number}", common + ids(length), num_output, Sampling(top_p=workload.top_p), seed=number)
        for number, length in enumerate(lengths)
    ]
