"""What guards cost: passwords, distinct strings, many keys, and the shortest completions under a guard.

OMP_NUM_THREADS=1 PYTHONPATH=.:tests python tests/bench/bench_guards.py [--only NAME]

Qwen 3's vocabulary, primed, one thread. Times are of the processor, so that a busy machine changes them little.
"""

import argparse
import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from corpus import corpus
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from compiler.compiled_format import CompiledFormat
from compiler.errors import CompilerError
from compiler.guard.cursor import JsonCursor
from compiler.guard.plan import GuardPlan
from compiler.isolation.priming import prime
from compiler.matcher import allocate_bitmask
from compiler.prepared_vocabulary import prepare
from compiler.schema import compile_schema
from compiler.vocabulary import Vocabulary

STRING = {"type": "string"}
PASSWORDS = {
    r"^(?=.*[A-Z])(?=.*[a-z])(?=.*\d).{8,64}$": "Corr3ct horse battery",
    r"^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)(?=.*[@$!%*?&])[A-Za-z\d@$!%*?&]{8,}$": "Corr3ct!horse*battery",
    r"^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)(?=.*[@$!%*?&])[A-Za-z\d@$!%*?&]{8,128}$": "Corr3ct!horse*battery",
    r"^(?=.*[A-Z])(?!.*\s).{10,72}$": "Correct-horse-battery",
}


class Bench:
    """Measures schemas over one vocabulary."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = Vocabulary.from_tokenizer(tokenizer)
        self._prepared = prepare(self._vocabulary)
        prime(self._prepared)

    def schema(self, name: str, schema: Any, value: Any) -> None:
        """Compile, and write a value."""
        start = time.process_time()
        try:
            compiled = compile_schema(schema, tokenizer=self._vocabulary)
        except CompilerError as refusal:
            print(f"{name:60s} refused after {time.process_time() - start:.2f} s: {refusal}"[:200])
            return
        seconds = time.process_time() - start
        verdicts = {entry.keyword: str(entry.verdict) for entry in compiled.report}
        print(f"{name:60s} {seconds * 1e3:8.0f} ms {compiled.num_bytes / 1e6:8.1f} MB {verdicts}", flush=True)
        for label in ("first time", "again"):
            self._walk(f"    masks, {label}", compiled, value)

    def _walk(self, name: str, compiled: CompiledFormat, value: Any) -> None:
        matcher, mask = compiled.matcher(), allocate_bitmask(1, self._vocabulary.width)
        seconds = []
        for token_id in self._tokenizer.encode(json.dumps(value), add_special_tokens=False):
            start = time.process_time()
            matcher.fill_bitmask(mask, 0)
            seconds.append(time.process_time() - start)
            assert matcher.accept(token_id), self._vocabulary.tokens[token_id]
        percentiles = np.percentile(np.array(seconds) * 1e3, [50, 90, 99, 100])
        print(name.ljust(60), "p50 {:.2f} p90 {:.2f} p99 {:.2f} max {:.2f} ms".format(*percentiles))

    def closing(self, name: str, schema: Any, text: str = "") -> None:
        """Find the shortest completion."""
        compiled = compile_schema(schema, tokenizer=self._vocabulary)
        closer = compiled.closer()
        for token_id in self._tokenizer.encode(text, add_special_tokens=False):
            closer.accepted(token_id)
        assert compiled.network is not None
        least = measured(f"{name}: minimum", closer.minimum)
        measured(f"{name}: fits a budget that is too small", lambda: compiled.closer().fits(100))
        measured(f"{name}: fits a large budget", lambda: compiled.closer().fits(least + 1000))


def measured(name: str, call: Callable[[], Any]) -> Any:
    """Call, and print how long that takes."""
    start = time.process_time()
    result = call()
    print(f"{name:60s} {(time.process_time() - start) * 1e3:8.1f} ms: {result!r}"[:100], flush=True)
    return result


def many_keys(number: int) -> None:
    """The memory of the positions of one text, as a matcher keeps them."""
    tracemalloc.start()
    start = time.process_time()
    cursor: JsonCursor | None = JsonCursor(GuardPlan()).advance(b"{")
    positions = []
    for key in range(number):
        assert cursor is not None
        cursor = cursor.advance(b'"key_%d":1,' % key)
        positions.append(cursor)
    print(
        f"{number} keys: {tracemalloc.get_traced_memory()[1] / 2**20:.1f} MiB,"
        f" {time.process_time() - start:.2f} s"
    )
    tracemalloc.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="passwords, distinct, objects, keys or closing")
    only = parser.parse_args().only
    if only in ("", "keys"):
        many_keys(1000)
        many_keys(4000)
    if only == "keys":
        return
    bench = Bench(AutoTokenizer.from_pretrained(corpus("tokenizers", "qwen3")))
    if only in ("", "passwords"):
        for pattern, value in PASSWORDS.items():
            schema = {"type": "object", "properties": {"password": {**STRING, "pattern": pattern}}}
            bench.schema(pattern[:58], schema, {"password": value})
    distinct = {"type": "array", "uniqueItems": True}
    words = [
        "a rather long text",
        "a",
        "ab",
        "another",
        "yet another text",
        "a rather long tale",
        "\u00e9t\u00e9",
    ] * 1
    if only in ("", "distinct"):
        for bound in (
            {"maxLength": 100},
            {"maxLength": 20},
            {"minLength": 1, "maxLength": 50},
            {"minLength": 1},
            {},
        ):
            bench.schema(f"distinct strings, {bound}", {**distinct, "items": {**STRING, **bound}}, words)
        bench.schema(
            "64 distinct strings",
            {**distinct, "items": {**STRING, "maxLength": 100}},
            [f"{word} {number}" for number in range(9) for word in words],
        )
    if only in ("", "objects"):
        items = [{"a": 1}, {"a": 2, "name": "x"}, {"b": [1, 2], "name": "x"}, {"a": "text"}]
        declared = {"type": "object", "properties": {"a": {}, "b": {}, "name": STRING}}
        bench.schema("distinct objects", {**distinct, "items": declared}, items)
    if only in ("", "closing"):
        long = {**STRING, "minLength": 32_000, "maxLength": 32_700}
        bench.closing("minLength 32000", long)
        bench.closing("minLength 32000, no guard", {**STRING, "minLength": 32_000})
        bench.closing("64 such", {"type": "array", "items": long, "minItems": 64})
        few = {**distinct, "items": {"enum": [*"abcdefghij"]}, "minItems": 8}
        bench.closing("8 distinct of 10", few)
        bench.closing("8 distinct of 10, begun", few, '["a", "b", "')
        pairs = {**distinct, "items": {"type": "integer", "minimum": 0, "maximum": 99}, "minItems": 50}
        bench.closing("50 distinct of 100", pairs)


if __name__ == "__main__":
    main()
