"""What keys in any order cost: compiling real tools, and masks along a call, beside those in declared order.

OMP_NUM_THREADS=1 PYTHONPATH=.:tests python tests/bench/bench_key_order.py

473 MCP tools, closed objects, Qwen 3's vocabulary, hermes syntax, one thread. Each tool is compiled in both
orders, one after the other, and then writes the same call at random; times are of the processor.
"""

import random
import time
from typing import get_args

import numpy as np
from bench_compile import tools
from random_decoding import RandomDecoder
from vocabularies import named_vocabulary

from compiler.compiled_format import CompiledFormat
from compiler.errors import UnsupportedSchema
from compiler.matcher import allocate_bitmask
from compiler.prepared_vocabulary import CACHE_LIMIT_BYTES, Backend, PreparedVocabulary, prepare
from compiler.schema import lower_schema
from compiler.token_index import TokenIndex
from toolspecs.tool import KeyOrder, Tool

ORDERS: tuple[KeyOrder, ...] = get_args(KeyOrder)


def compiled(tool: Tool, order: KeyOrder, prepared: PreparedVocabulary) -> CompiledFormat:
    """Everything that a tool's first call needs, the budget closer's network included."""
    lowered = lower_schema(tool.parameters, objects="closed", only_objects=True, key_order=order)
    found = CompiledFormat(lowered.grammar, lowered.report, prepared)
    found.compile()
    assert found.network is not None
    return found


def mask_times(grammar: CompiledFormat, text: bytes, index: TokenIndex) -> list[float]:
    """Seconds of each mask along a text, spelled in the longest tokens that the mask allows."""
    ids = dict(zip(index.spellings, index.ids, strict=True))
    mask = allocate_bitmask(1, grammar.vocabulary.width)
    matcher = grammar.matcher()
    times = []
    while text:
        start = time.thread_time()
        matcher.fill_bitmask(mask, 0)
        times.append(time.thread_time() - start)
        ends = (end for end in range(min(len(text), index.longest), 0, -1) if text[:end] in ids)
        end = next(end for end in ends if matcher.accept(ids[text[:end]][0]))
        text = text[end:]
    return times


def main() -> None:
    """Measure and print."""
    vocabulary = named_vocabulary("qwen3")
    decoder, index = RandomDecoder(vocabulary), prepare(vocabulary).index
    rng = random.Random(0)
    compiling: dict[KeyOrder, list[float]] = {order: [] for order in ORDERS}
    masks: dict[KeyOrder, list[float]] = {order: [] for order in ORDERS}
    sizes: dict[KeyOrder, list[int]] = {order: [] for order in ORDERS}
    prepared = {order: PreparedVocabulary(vocabulary) for order in ORDERS}
    for each in prepared.values():
        vars(each)["tokenizer_info"] = prepare(vocabulary).tokenizer_info
        vars(each)["index"], vars(each)["guarded"] = index, prepare(vocabulary).guarded
        vars(each)["backend"] = Backend(each.tokenizer_info, cache_limit_bytes=CACHE_LIMIT_BYTES)
    for tool in tools():
        grammars: dict[KeyOrder, CompiledFormat] = {}
        try:
            for order in rng.sample(ORDERS, len(ORDERS)):
                start = time.thread_time()
                grammars[order] = compiled(tool, order, prepared[order])
                compiling[order].append(time.thread_time() - start)
        except UnsupportedSchema:
            continue
        text = decoder.decode(grammars["declared"].matcher(), rng, max_tokens=60)
        for order, grammar in grammars.items():
            sizes[order].append(int(grammar.compiled.memory_size_bytes))
            masks[order] += mask_times(grammar, text or b"", index)
    for order in ORDERS:
        print(f"{order}: {len(sizes[order])} tools, {np.mean(sizes[order]) / 1e3:.0f} KB on average", end="")
        print(f", at most {max(sizes[order]) / 1e3:.0f} KB")
        for what, times, unit, factor in (
            ("compile", compiling[order], "ms", 1e3),
            ("mask", masks[order], "us", 1e6),
        ):
            p50, p90, p99, worst = np.quantile(times, [0.5, 0.9, 0.99, 1]) * factor
            print(f"  {what}: p50 {p50:.1f}, p90 {p90:.1f}, p99 {p99:.1f}, max {worst:.1f} {unit}", end="")
            print(f"; {len(times)} in all {sum(times):.2f} s")


if __name__ == "__main__":
    main()
