"""Time to the first mask, and masks along valid instances, of real schemas beside xgrammar and llguidance.

OMP_NUM_THREADS=1 PYTHONPATH=.:tests python tests/bench/bench_schemas.py [--schemas 600] [--every 1] [--others 8]

Schemas of jsonschemabench that have valid instances, Qwen 3's vocabulary, one thread. A first mask is all from
the schema to a filled row. Times are of the processor, so that a busy machine changes them little. `--every N`
measures each Nth schema, `--others N` each Nth of these with the others, too.
"""

import argparse
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import llguidance
import llguidance.hf
import llguidance.numpy
import numpy as np
import xgrammar as xgr
from corpus import corpus, json_lines
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from compiler.errors import CompilerError
from compiler.isolation.priming import prime
from compiler.matcher import Bitmask, Matcher, allocate_bitmask
from compiler.prepared_vocabulary import CACHE_LIMIT_BYTES, Backend, prepare
from compiler.schema import Objects, compile_schema
from compiler.vocabulary import Vocabulary

SEED = 5


class Refused(Exception):
    """The engine does not take the schema."""


Tokens = Callable[[Any], list[int]]


class Matching(Protocol):
    """A matcher of any engine."""

    def fill(self, mask: Bitmask) -> None: ...

    def accept(self, token_id: int) -> bool: ...


Engine = Callable[[Any], Callable[[], Matching]]
"""From a schema to its matchers."""


class Ours:
    """Our matcher."""

    def __init__(self, matcher: Matcher) -> None:
        self.accept = matcher.accept
        self._matcher = matcher

    def fill(self, mask: Bitmask) -> None:
        self._matcher.fill_bitmask(mask, 0)


class Xgrammar:
    """xgrammar's own converter and matcher."""

    def __init__(self, compiled: xgr.CompiledGrammar) -> None:
        matcher = xgr.GrammarMatcher(compiled)
        self.fill = matcher.fill_next_token_bitmask
        self.accept = matcher.accept_token


class Llguidance:
    """llguidance's own converter and matcher."""

    def __init__(self, matcher: llguidance.LLMatcher) -> None:
        self.accept = matcher.consume_token
        self._matcher = matcher

    def fill(self, mask: Bitmask) -> None:
        llguidance.numpy.fill_next_token_bitmask(self._matcher, mask, 0)


def ours(vocabulary: Vocabulary, objects: Objects, *, is_cold: bool = False) -> Engine:
    """With a compiler that is new for every schema, or the vocabulary's own."""

    def engine(schema: Any) -> Callable[[], Matching]:
        if is_cold:
            prepared = prepare(vocabulary)
            vars(prepared)["backend"] = Backend(prepared.tokenizer_info, cache_limit_bytes=CACHE_LIMIT_BYTES)
        try:
            compiled = compile_schema(schema, tokenizer=vocabulary, objects=objects)
        except CompilerError as refusal:
            raise Refused from refusal
        return lambda: Ours(compiled.matcher())

    return engine


def xgrammar(vocabulary: Vocabulary) -> Engine:
    compiler = xgr.GrammarCompiler(prepare(vocabulary).tokenizer_info, max_threads=1, cache_enabled=False)

    def engine(schema: Any) -> Callable[[], Matching]:
        try:
            compiled = compiler.compile_json_schema(json.dumps(schema), strict_mode=False)
        except RuntimeError as refusal:
            raise Refused from refusal
        return lambda: Xgrammar(compiled)

    return engine


def guidance(tokenizer: PreTrainedTokenizerBase, vocabulary: Vocabulary) -> Engine:
    known = llguidance.hf.from_tokenizer(tokenizer, n_vocab=vocabulary.width)

    def engine(schema: Any) -> Callable[[], Matching]:
        try:
            matcher = llguidance.LLMatcher(known, llguidance.LLMatcher.grammar_from_json_schema(schema))
        except ValueError as refusal:
            raise Refused from refusal
        if matcher.is_error():
            raise Refused(matcher.get_error())
        return lambda: Llguidance(matcher.deep_copy())

    return engine


def measure(
    label: str, engine: Engine, cases: list[Any], tokens: Tokens, width: int, *, walks: bool = True
) -> None:
    """Print the engine's first masks, and its masks along the valid instances as far as it accepts them."""
    mask = allocate_bitmask(1, width)
    firsts: list[tuple[float, str]] = []
    masks: list[float] = []
    refused = 0
    for case in cases:
        start = time.thread_time()
        try:
            matcher = engine(case["schema"])
            matcher().fill(mask)
        except Refused:
            refused += 1
            continue
        firsts.append((time.thread_time() - start, case["name"]))
        for test in case["tests"] if walks else ():
            if test["valid"]:
                masks += _along(matcher(), tokens(test["data"]), mask)
    _report(f"{label}: first mask, ms", np.array([seconds for seconds, _ in firsts]) * 1e3)
    worst = ", ".join(f"{name} {seconds:.1f} s" for seconds, name in sorted(firsts)[-1:-4:-1])
    print(f"    {refused} refused; {sum(s > 10 for s, _ in firsts)} took over 10 s; slowest: {worst}")
    if masks:
        _report(f"{label}: masks, us", np.array(masks) * 1e6)


def _along(matching: Matching, token_ids: list[int], mask: Bitmask) -> Iterator[float]:
    for token_id in token_ids:
        start = time.thread_time()
        matching.fill(mask)
        yield time.thread_time() - start
        if not matching.accept(token_id):
            return


def from_memory(vocabulary: Vocabulary, cases: list[Any]) -> None:
    """A matcher of what is compiled already, and its first mask; and masks of 64 rows."""
    mask = allocate_bitmask(64, vocabulary.width)
    firsts, rows, sizes = [], [], []
    for case in cases:
        try:
            compiled = compile_schema(case["schema"], tokenizer=vocabulary)
        except CompilerError:
            continue
        start = time.thread_time()
        compiled.matcher().fill_bitmask(mask, 0)
        firsts.append(time.thread_time() - start)
        sizes.append(compiled.num_bytes)
        matchers = [compiled.matcher() for _ in range(64)]
        start = time.thread_time()
        for row, matcher in enumerate(matchers):
            matcher.fill_bitmask(mask, row)
        rows.append(time.thread_time() - start)
    _report("from memory, first mask, ms", np.array(firsts) * 1e3)
    _report("64 rows at the start, ms", np.array(rows) * 1e3)
    _report("a grammar in memory, KB", np.array(sizes) / 1e3)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schemas", type=int, default=600)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--others", type=int, default=8)
    parser.add_argument("--holding", default="", help="only schemas whose text holds this, such as maxLength")
    options = parser.parse_args()
    paths = sorted(corpus("jsonschemabench").glob("*.gz"))
    cases = [case for path in paths for case in json_lines(path) if any(t["valid"] for t in case["tests"])]
    random.Random(SEED).shuffle(cases)
    cases = [case for case in cases[: options.schemas] if options.holding in json.dumps(case["schema"])]
    cases = cases[:: options.every]
    some = cases[:: options.others]
    tokenizer = AutoTokenizer.from_pretrained(corpus("tokenizers", "qwen3"))
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert prepare(vocabulary).tokenizer_info is not None

    def tokens(value: Any) -> list[int]:
        token_ids: list[int] = tokenizer.encode(json.dumps(value), add_special_tokens=False)
        return token_ids

    print(f"{len(cases)} schemas, {len(some)} of them with the others, load {os.getloadavg()[0]:.1f}")
    width = vocabulary.width
    kinds: tuple[tuple[str, Objects], ...] = (("open", "schema"), ("closed", "closed"))
    for name, objects in kinds:
        engine = ours(vocabulary, objects, is_cold=True)
        measure(f"{name}, nothing cached", engine, cases, tokens, width, walks=False)
    prepared = prepare(vocabulary)
    vars(prepared)["backend"] = Backend(prepared.tokenizer_info, cache_limit_bytes=CACHE_LIMIT_BYTES)
    start = time.thread_time()
    prime(prepared)
    print(f"priming: {time.thread_time() - start:.1f} s of processor time")
    for name, objects in kinds:
        measure(f"{name}, primed", ours(vocabulary, objects), cases, tokens, width)
    from_memory(vocabulary, cases)
    measure("these with the others: open, primed", ours(vocabulary, "schema"), some, tokens, width)
    measure("llguidance", guidance(tokenizer, vocabulary), some, tokens, width)
    measure("xgrammar", xgrammar(vocabulary), some, tokens, width)
    print(f"load {os.getloadavg()[0]:.1f}")


def _report(label: str, values: "np.ndarray[Any, np.dtype[np.float64]]") -> None:
    if not len(values):
        print(f"{label}: none")
        return
    low, middle, high, highest = np.percentile(values, [50, 90, 99, 100])
    print(
        f"{label:48s} p50 {low:9.1f} p90 {middle:9.1f} p99 {high:9.1f} max {highest:9.1f}"
        f" avg {values.mean():9.1f} n {len(values)}",
        flush=True,
    )


if __name__ == "__main__":
    main()
