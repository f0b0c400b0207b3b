"""Random decoding under the grammars of many schemas, and the judges' verdict on each output."""

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from random_decoding import EmptyMask, RandomDecoder
from soundness.corpora import Case
from soundness.judges import Judges
from soundness.workers import Finished, Job, allow, run
from vocabularies import named_vocabulary

from compiler.errors import CompilerError
from compiler.schema import Objects, compile_schema
from toolspecs.tool import KeyOrder

BIASES = (0.02, 0.1, 0.3, 0.6)
"""How often a step prefers to end: for long outputs and short ones."""
MAX_TOKENS = 150
SECONDS = 60.0
"""Processor time for all outputs of a schema, compiling included."""


@dataclass(slots=True)
class Tally:
    """Counts of outputs by verdict, and every fault found."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def add(self, case: Case, finished: Finished) -> None:
        """Count one schema's outputs."""
        self.counts[f"schemas {finished.end}"] += 1
        if not finished.findings:
            self.counts["schemas refused"] += 1
        for outcome, fault in finished.findings:
            self.counts[outcome] += 1
            if fault:
                self.faults.append(f"{case.corpus} {case.name}: {fault}")


def decode_schemas(
    cases: Iterable[Case],
    vocabulary: str,
    per_schema: int,
    *,
    objects: Objects = "schema",
    key_order: KeyOrder = "declared",
    workers: int,
    seed: int = 0,
) -> Iterator[Tally]:
    """The tally so far, after each case; `vocabulary` is "bytes" or a folder of the corpus's tokenizers."""
    cases = list(cases)
    set_up = partial(_job, vocabulary, per_schema, objects, key_order, seed, is_limited=bool(workers))
    found = run(set_up, cases, workers=workers)
    tally = Tally()
    for case, finished in zip(cases, found, strict=True):
        tally.add(case, finished)
        yield tally


def _job(
    vocabulary: str,
    per_schema: int,
    objects: Objects,
    key_order: KeyOrder,
    seed: int,
    *,
    is_limited: bool,
) -> Job:
    words = named_vocabulary(vocabulary)
    decoder = RandomDecoder(words)

    def outcomes(case: Case) -> Iterator[tuple[str, str]]:
        if is_limited:
            allow(SECONDS)
        try:
            compiled = compile_schema(
                case.schema,
                documents=case.documents,
                tokenizer=words,
                objects=objects,
                key_order=key_order,
            )
        except CompilerError:
            return
        judges = Judges(case.schema, case.documents)
        rng = random.Random(f"{seed} {case.name}")
        for number in range(per_schema):
            yield outcome(decoder, compiled.matcher(), judges, rng, BIASES[number % len(BIASES)])

    return outcomes


def outcome(
    decoder: RandomDecoder, matcher: Any, judges: Judges, rng: random.Random, bias: float
) -> tuple[str, str]:
    """The verdict on one output ("valid", "unfinished", "wrong", "empty mask"), and the fault."""
    try:
        text = decoder.decode(matcher, rng, max_tokens=MAX_TOKENS, bias=bias)
    except EmptyMask as empty:
        return "empty mask", str(empty)
    if text is None:
        return "unfinished", ""
    if faults := judges.faults(text):
        return "wrong", f"{json.dumps(text.decode(errors='replace'))[:1000]} {faults}"
    return "valid", ""
