"""Real schemas: no invalid instance is accepted, most valid ones are, and what is decoded at random is valid.

`make test` runs a fixed sample in this process, `make test-corpus` everything in worker processes with limits.
"""

import os
import random

import pytest
from soundness.comparison import outcomes, score
from soundness.corpora import CORPORA, sample
from soundness.decoding import decode_schemas
from soundness.judges import Judges
from soundness.mutations import mutations, wrongly_accepted
from vocabularies import BYTES

from compiler.errors import CompilerError
from compiler.schema import compile_schema

TOOLS = ("mcp", "bfcl", "openapi")


@pytest.mark.parametrize(
    ("corpus", "every", "compiled", "accepted", "writable"),
    [
        ("suite-2020-12", 1, 0.926, 0.95, 0.95),
        ("suite-7", 1, 0.926, 0.96, 0.96),
        ("formats-2020-12", 1, 1, 0.65, 0.65),
        ("formats-7", 1, 1, 0.65, 0.65),
        ("jsonschemabench", 180, 0.95, 0.93, 0.97),
        ("mcp", 40, 1, 1, 1),
        ("bfcl", 100, 1, 1, 1),
        ("openapi", 20, 1, 1, 1),
    ],
)
def test_a_sample_of_a_corpus_admits_nothing_invalid(corpus, every, compiled, accepted, writable):
    cases = sample(corpus, every=every)
    total = score(cases, outcomes("callgate", cases, workers=0))
    assert total.wrong == []
    assert total.tally["compiled"] >= compiled * len(cases)
    assert total.tally["valid accepted"] >= accepted * total.tally["valid"]
    assert total.tally["valid writable"] >= writable * total.tally["valid"]


@pytest.mark.corpus
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("engine", ["callgate", "xgrammar", "llguidance"])
@pytest.mark.parametrize("corpus", CORPORA)
def test_a_whole_corpus_admits_nothing_invalid(corpus, engine):
    if engine == "llguidance":
        pytest.importorskip("llguidance", reason="a dependency of the benchmarks alone")
    cases = sample(corpus)
    total = score(cases, outcomes(engine, cases, workers=os.cpu_count() or 1))
    print(f"\n| {corpus} | {engine} | {' | '.join(total.row)} |")
    assert total.tally["compiled"] > 0
    if engine == "callgate":
        assert total.wrong == []
        assert total.tally["over time"] + total.tally["crashed"] <= 0.002 * len(cases)


def test_what_is_a_change_away_from_a_real_instance_is_judged_right():
    rng = random.Random(0)
    num_mutations = 0
    for case in sample("jsonschemabench", every=300):
        try:
            compiled = compile_schema(case.schema, tokenizer=BYTES)
        except CompilerError:
            continue
        judges = Judges(case.schema)
        for instance in case.instances:
            if instance.is_valid:
                mutated = list(mutations(instance.value, rng, 10))
                num_mutations += len(mutated)
                assert wrongly_accepted(compiled, judges, mutated) == [], case.name
    assert num_mutations > 200


def decoded(corpus, vocabulary, *, every=1, per_schema, workers=0, objects="schema", key_order="declared"):
    cases = sample(corpus, every=every)
    options = {"objects": objects, "key_order": key_order}
    *_, tally = decode_schemas(cases, vocabulary, per_schema, workers=workers, **options)
    print(f"\n{corpus}, {vocabulary}, {objects}, {key_order}: {dict(tally.counts)}")
    assert tally.faults == []
    assert tally.counts["valid"] > 0.8 * per_schema * tally.counts["schemas done"]


@pytest.mark.parametrize("corpus", CORPORA)
def test_random_outputs_over_a_sample_are_valid(corpus):
    decoded(corpus, "bytes", every=240, per_schema=5)


@pytest.mark.parametrize("corpus", ["jsonschemabench", "mcp"])
def test_random_outputs_with_keys_in_any_order_are_valid(corpus):
    decoded(corpus, "bytes", every=600, per_schema=8, key_order="any")


def test_random_outputs_over_tools_with_a_real_vocabulary_are_valid():
    decoded("mcp", "qwen3", every=120, per_schema=15, objects="closed")


@pytest.mark.corpus
@pytest.mark.timeout(12 * 3600)
@pytest.mark.parametrize("corpus", CORPORA)
def test_random_outputs_are_valid(corpus):
    """Ten outputs for each of about 11,000 schemas: more than 100,000."""
    for objects in ("schema", "closed") if corpus in TOOLS else ("schema",):
        decoded(corpus, "qwen3", per_schema=10, objects=objects, workers=os.cpu_count() or 1)
