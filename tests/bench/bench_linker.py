"""What linking costs: masks against one grammar's, and a tool more or fewer among a thousand.

PYTHONPATH=.:tests python tests/bench/bench_linker.py [--tools 1000] [--vocabulary qwen3]
"""

import argparse
import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import xgrammar as xgr
from corpus import corpus
from monolith import TOOLS, monolith, sample_outputs, toolbox
from transformers import AutoTokenizer

from compiler.linker.linker import link
from compiler.matcher import Matcher, allocate_bitmask
from compiler.prepared_vocabulary import prepare
from compiler.syntax import Syntax
from compiler.syntaxes import SYNTAXES
from compiler.units.unit import Unit, compile_unit
from compiler.vocabulary import Vocabulary
from toolspecs.tool import ChoiceMode, ToolChoice

T = TypeVar("T")

REQUIRED = ToolChoice(ChoiceMode.REQUIRED)
WORDS = ("get", "list", "create", "update", "delete", "search", "user", "issue", "file", "event", "branch")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=int, default=1000)
    parser.add_argument("--vocabulary", choices=["qwen3", "mistral-v3"], default="qwen3")
    options = parser.parse_args()
    vocabulary = Vocabulary.from_tokenizer(
        AutoTokenizer.from_pretrained(corpus("tokenizers", options.vocabulary))
    )
    print(f"{options.vocabulary}, width {vocabulary.width}; times in microseconds unless said otherwise")
    _report("token index, once a vocabulary (ms)", [_timed(lambda: prepare(vocabulary).index)[0] * 1e-3])
    for name in ("hermes", "json"):
        _bench_masks(vocabulary, SYNTAXES[name])
    _bench_many(vocabulary, SYNTAXES["hermes"], options.tools)


def _bench_masks(vocabulary: Vocabulary, syntax: Syntax) -> None:
    grammars = toolbox(32, syntax, vocabulary)
    units = {name: compile_unit(grammar, syntax, prepare(vocabulary)) for name, grammar in grammars.items()}
    ebnf = monolith(grammars, syntax, vocabulary, ChoiceMode.REQUIRED, parallel=True)
    whole = prepare(vocabulary).backend.compile(ebnf)
    linked = link(units, syntax, prepare(vocabulary), REQUIRED)
    outputs = sample_outputs(grammars, syntax)
    runs = [list(_tokens(vocabulary, output, seed)) for seed, output in enumerate(outputs)]
    mask = allocate_bitmask(1, vocabulary.width)
    for label in ("first time", "again"):
        times = [time for run in runs for time in _fill_times(linked.matcher(), mask, run)]
        _report(f"{syntax.name}: mask, linked, 32 tools, {label}", times)
    reference = [time for run in runs for time in _fill_times(_Monolithic(whole), mask, run)]
    _report(f"{syntax.name}: mask, one grammar, 32 tools", reference)


def _bench_many(vocabulary: Vocabulary, syntax: Syntax, count: int) -> None:
    rng = random.Random(0)
    kinds = [compile_unit(grammar, syntax, prepare(vocabulary)) for grammar in TOOLS.values()]
    names = list(dict.fromkeys("_".join(rng.sample(WORDS, 3)) + f"_{n}" for n in range(count)))
    units = {name: kinds[at % len(kinds)] for at, name in enumerate(names)}
    duration, linked = _timed(lambda: link(units, syntax, prepare(vocabulary), REQUIRED))
    _report(f"link {count} tools", [duration])
    mask = allocate_bitmask(1, vocabulary.width)
    walks = [list(_tokens(vocabulary, syntax.header(rng.choice(names)), seed)) for seed in range(20)]
    _report(
        f"header masks, {count} tools, cold",
        [t for w in walks for t in _fill_times(linked.matcher(), mask, w)],
    )
    _report(
        f"header masks, {count} tools, kept",
        [t for w in walks for t in _fill_times(linked.matcher(), mask, w)],
    )

    def add_one(number: int) -> None:
        unit = compile_unit(TOOLS["pay_all"], syntax, prepare(vocabulary))
        grown = link({**units, f"new_tool_{number}": unit}, syntax, prepare(vocabulary), REQUIRED)
        _first_masks(grown.matcher(), mask, walks[number])

    _report(f"add a tool to {count}: unit seen before, link, masks up to the arguments", _repeat(add_one))

    def pick(number: int) -> None:
        choice = ToolChoice(ChoiceMode.REQUIRED, tuple(rng.sample(names, 20)))
        linked = link(units, syntax, prepare(vocabulary), choice)
        linked.matcher().fill_bitmask(mask, 0)

    _report(f"pick 20 of {count}, and its first mask", _repeat(pick))
    stored = kinds[1].to_bytes()
    _report(
        f"load a unit of {len(stored)} bytes", _repeat(lambda _: Unit.from_bytes(stored, prepare(vocabulary)))
    )


class _Monolithic:
    """One grammar's matcher, in the shape of ours."""

    def __init__(self, compiled: xgr.CompiledGrammar) -> None:
        self._matcher = xgr.GrammarMatcher(compiled)
        self.fill_bitmask = self._matcher.fill_next_token_bitmask
        self.accept = self._matcher.accept_token


def _tokens(vocabulary: Vocabulary, text: str, seed: int) -> Iterator[int]:
    """A random tokenization of `text`, leaning towards long tokens."""
    rng = random.Random(seed)
    ids = dict(zip(prepare(vocabulary).index.spellings, prepare(vocabulary).index.ids, strict=True))
    data = vocabulary.spell(text).encode()
    while data:
        ends = [end for end in range(1, min(len(data), 24) + 1) if data[:end] in ids]
        end = rng.choice(ends[-2:])
        yield ids[data[:end]][0]
        data = data[end:]


def _fill_times(matcher: Matcher | _Monolithic, mask: np.ndarray, token_ids: list[int]) -> Iterator[float]:
    for token_id in token_ids:
        yield _timed(lambda: matcher.fill_bitmask(mask, 0))[0]
        assert matcher.accept(token_id)


def _first_masks(matcher: Matcher, mask: np.ndarray, token_ids: list[int]) -> None:
    for token_id in token_ids:
        matcher.fill_bitmask(mask, 0)
        matcher.accept(token_id)


def _timed(call: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = call()
    return (time.perf_counter() - start) * 1e6, result


def _repeat(call: Callable[[int], object], count: int = 20) -> list[float]:
    return [_timed(lambda: call(number))[0] for number in range(count)]  # noqa: B023 - called at once


def _report(label: str, times: list[float]) -> None:
    low, high = np.percentile(times, [50, 99])
    print(f"{label:75s} p50 {low:10.1f}  p99 {high:10.1f}  max {max(times):10.1f}  n {len(times)}")


if __name__ == "__main__":
    main()
