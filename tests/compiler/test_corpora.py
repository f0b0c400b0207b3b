"""Real schemas with labelled instances: no invalid one is accepted, and most valid ones are.

`make test` runs a fixed sample, `make test-corpus` everything, and prints the table of docs/soundness.md.
"""

import json
import random
import time
from collections import Counter

import jsonschema_rs
import pytest
from corpus import corpus, json_lines
from walks import walk

from compiler.errors import CompilerError
from compiler.schema import compile_schema
from compiler.vocabulary import Vocabulary

SAMPLE = 300


def cases():
    return [case for path in sorted(corpus("jsonschemabench").glob("*.gz")) for case in json_lines(path)]


def check(cases) -> tuple[Counter[str], list[tuple[str, str]]]:
    """Tallies, and the invalid instances that were accepted."""
    tally: Counter[str] = Counter()
    wrong = []
    for case in cases:
        tally["schemas"] += 1
        start = time.perf_counter()
        try:
            compiled = compile_schema(case["schema"])
        except CompilerError as refusal:
            tally["refused"] += 1
            keyword = getattr(refusal, "keyword", "")
            print(f"refused {case['dataset']}/{case['name']}: {str(refusal)[:200]}")
            tally[f"refused {keyword}"] += 1
            continue
        tally["slow"] += time.perf_counter() - start > 10
        for test in case["tests"]:
            text = json.dumps(test["data"])
            accepted = compiled.accepts(text)
            tally["valid" if test["valid"] else "invalid"] += 1
            if test["valid"]:
                tally["valid accepted"] += accepted
            elif accepted:
                wrong.append((case["name"], text[:300]))
    print(dict(tally))
    return tally, wrong


def test_sample_of_jsonschemabench():
    tally, wrong = check(random.Random(0).sample(cases(), SAMPLE))
    assert wrong == []
    assert tally["schemas"] - tally["refused"] >= 0.85 * SAMPLE
    assert tally["valid accepted"] >= 0.9 * tally["valid"]


@pytest.mark.corpus
@pytest.mark.timeout(7200)
def test_whole_jsonschemabench():
    _, wrong = check(cases())
    assert wrong == []


def test_random_walks_validate():
    vocabulary = Vocabulary.of_bytes()
    rng = random.Random(1)
    num_walks = 0
    for case in random.Random(2).sample(cases(), 150):
        try:
            compiled = compile_schema(case["schema"], tokenizer=vocabulary)
        except CompilerError:
            continue
        validator = jsonschema_rs.validator_for(case["schema"], validate_formats=True, offline=True)
        for bias in (0.1, 0.5):
            text = walk(compiled.matcher(), vocabulary, rng, bias=bias)
            if text is not None:
                num_walks += 1
                value = json.loads(text.decode())
                assert validator.is_valid(value), (case["name"], text)
    print(f"{num_walks} walks")
    assert num_walks > 50
