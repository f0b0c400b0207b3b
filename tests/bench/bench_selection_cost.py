"""What selected answers cost: tokens computed and seconds, by strategy, number of draws and clients, in one run.

OMP_NUM_THREADS=1 PYTHONPATH=. python tests/bench/bench_selection_cost.py [QUESTIONS [TEMPERATURE]]

The tiny model answers held-out questions, at temperature 1 unless told otherwise, with the same seeds in every
row. Rows take turns question by question, so that load from elsewhere meets all of them alike.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from compiler import compile_toolset
from runtime.embedded import EmbeddedRuntime
from runtime.events import Finished
from runtime.models import TINY_MODEL_FOLDER
from runtime.request import GenerationRequest, Sampling
from runtime.selection import DRAFT, Selection
from runtime.settings import EngineSettings
from runtime.study.questions import Question, held_out

NUM_CLIENTS = (1, 8)
ROWS = {
    "plain mask": Selection(),
    **{f"{strategy}, {k}": Selection(strategy, k) for strategy in ("accept", "particles") for k in (2, 4, 8)},
    "draft": DRAFT,
}


@dataclass
class Row:
    """Of one strategy at one number of clients: per answer the seconds and tokens, and the seconds of all."""

    latencies: list[float] = field(default_factory=list)
    num_computed: list[int] = field(default_factory=list)
    seconds: float = 0.0


async def main(num_questions: int, temperature: float) -> None:
    """Print a table."""
    settings = EngineSettings(num_threads=1, max_batch=64, kv_bytes=256 * 2**20)
    runtime = EmbeddedRuntime.load(TINY_MODEL_FOLDER, settings, model_id="tiny")
    questions = list(held_out(num_questions))
    await answer(runtime, questions[0], Selection(), 0, temperature)  # it also warms up
    print("| draws | clients | tokens computed | seconds, median | seconds, p90 | answers a second |")
    print("|---|--:|--:|--:|--:|--:|")
    for num_clients in NUM_CLIENTS:
        rows = {name: Row() for name in ROWS}
        for start in range(0, len(questions), num_clients):
            group = questions[start : start + num_clients]
            for question in group:
                # Its prompt is in the cache then, for every row.
                await answer(runtime, question, Selection(), 0, temperature)
            for name, selection in ROWS.items():
                await ask(runtime, group, selection, start, temperature, rows[name])
        for name, row in rows.items():
            print(line(name, num_clients, row))
    await runtime.close()


async def ask(
    runtime: EmbeddedRuntime,
    group: Sequence[Question],
    selection: Selection,
    start: int,
    temperature: float,
    row: Row,
) -> None:
    """Have one client for each question of a group ask it, all at the same time."""
    begun = time.perf_counter()
    asked = [answer(runtime, question, selection, start + i, temperature) for i, question in enumerate(group)]
    for seconds, num_computed in await asyncio.gather(*asked):
        row.latencies.append(seconds)
        row.num_computed.append(num_computed)
    row.seconds += time.perf_counter() - begun


async def answer(
    runtime: EmbeddedRuntime, question: Question, selection: Selection, seed: int, temperature: float
) -> tuple[float, int]:
    """The seconds of one answer, and the tokens that were computed for it."""
    (card,) = await runtime.models()
    linked = compile_toolset(question.tools, tokenizer=card.prepared, syntax=card.syntax, parallel=False)
    request = GenerationRequest(
        f"{seed}",
        "tiny",
        question.messages,
        tools=question.tools,
        constraint=linked,
        sampling=Sampling(temperature=temperature, seed=seed),
        max_tokens=256,
        selection=selection,
    )
    begun = time.perf_counter()
    events = [event async for event in runtime.generate(request)]
    seconds = time.perf_counter() - begun
    end = events[-1]
    assert isinstance(end, Finished)
    selected = end.stats.selection
    return seconds, (selected.num_computed_tokens or 0) if selected else end.stats.num_computed_tokens


def line(name: str, num_clients: int, row: Row) -> str:
    """A row of the table."""
    p90 = statistics.quantiles(row.latencies, n=10)[-1]
    values = (
        f"{statistics.mean(row.num_computed):.0f}",
        f"{statistics.median(row.latencies):.2f}",
        f"{p90:.2f}",
        f"{len(row.latencies) / row.seconds:.1f}",
    )
    return f"| {name} | {num_clients} | {' | '.join(values)} |"


if __name__ == "__main__":
    arguments = sys.argv[1:]
    number, temperature = (*arguments, *("40", "1")[len(arguments) :])
    asyncio.run(main(int(number), float(temperature)))
