"""Steps of the engine in this process: masked against unmasked, and what a row keeps of the memory."""

from dataclasses import dataclass
from typing import Any

import torch
from corpus import corpus
from gpu_timing import MAX_TOKENS, Bench, Scale, vocabulary_for
from side_by_side.model import WIDTH, shape


@dataclass(frozen=True, slots=True)
class Step:
    """Medians of a batch's decode steps; the least and the largest ratio of a round.

    `bytes_per_row` of keys and values are allocated for a sequence, a share of which its tokens fill.
    """

    unmasked_ms: float
    masked_ms: float
    ratio: float
    ratio_least: float
    ratio_most: float
    fill_us: float
    bytes_per_row: float
    share_filled: float


def measure_steps(batches: list[int]) -> dict[int, Step]:
    """By batch, on a CPU; the model has the modules and the shape of the one which is served."""
    scale = Scale(
        shape(eos_token_id=None, pad_token_id=0),
        torch.bfloat16,
        tuple(batches),
        num_steps=20,
        num_prompt=64,
        num_rounds=6,
        num_outputs=16,
        beside=16,
        compiled_batches=(),
        copied_bytes=2**28,
    )
    vocabulary = vocabulary_for(WIDTH, corpus("tokenizers", "qwen3"))
    bench = Bench(scale, torch.device("cpu"), vocabulary)
    return {batch: _measure(bench, batch) for batch in batches}


def _measure(bench: Bench, batch: int) -> Step:
    times = bench.masked_and_unmasked(batch)
    return Step(
        times["unmasked_ms"],
        times["masked_ms"],
        times["ratio"],
        times["ratio_least"],
        times["ratio_most"],
        times["fill_us_per_mask"],
        **_memory(bench, batch),
    )


def _memory(bench: Bench, batch: int) -> dict[str, Any]:
    """What is allocated once every row has written some tokens; prompts differ, so nothing is shared."""
    engine, cache = bench.engine, bench.engine.runner.cache
    sequences = bench.sequences(batch, schema=bench.schema, max_tokens=MAX_TOKENS)
    for sequence in sequences:
        engine.add(sequence)
    while any(sequence.num_output < 8 for sequence in sequences):
        engine.step()
    num_pages = sum(len(sequence.page_table) for sequence in sequences)
    num_tokens = sum(sequence.num_computed for sequence in sequences)
    for sequence in sequences:
        engine.stop(sequence)
    return {
        "bytes_per_row": num_pages * cache.bytes_per_page / batch,
        "share_filled": num_tokens / (num_pages * cache.page_size),
    }
