"""Schemas that hypothesis makes up: compiled or refused; what a mask lets through is valid, what is invalid is not accepted."""

import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from soundness.comparison import spellings
from soundness.judges import Judges, repeats_a_key
from soundness.schemas import mutations, schemas
from walks import Walker

from compiler.errors import UnsupportedSchema
from compiler.schema import compile_schema
from compiler.vocabulary import Vocabulary

BYTES = Vocabulary.of_bytes()
WALKER = Walker(BYTES)
CALM = settings(deadline=None, suppress_health_check=list(HealthCheck))


def check(schema, seed: int) -> None:
    try:
        compiled = compile_schema(schema, tokenizer=BYTES)
    except UnsupportedSchema:
        return
    judges = Judges(schema)
    rng = random.Random(seed)
    for bias in (0.05, 0.3, 0.6):
        text = WALKER.walk(compiled.matcher(), rng, max_tokens=200, bias=bias)
        if text is None:
            continue
        assert judges.faults(text) == [], text
        if repeats_a_key(text):
            continue
        assert compiled.accepts(text.decode())
        for value in mutations(json.loads(text), rng, 10):
            spelled = spellings(value)
            if any(judges.faults(other.encode()) for other in spelled):
                accepted = [other for other in spelled if compiled.accepts(other)]
                assert accepted == [], "accepts what is invalid"


@pytest.mark.parametrize("draft", ["draft2020-12", "draft7"])
def test_generated_schemas_are_upheld_or_refused(draft):
    settings(CALM, max_examples=60, derandomize=True)(given(schemas(draft), st.integers(0, 99))(check))()


@pytest.mark.corpus
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("draft", ["draft2020-12", "draft7"])
def test_many_generated_schemas_are_upheld_or_refused(draft):
    settings(CALM, max_examples=5000)(given(schemas(draft), st.integers(0, 99))(check))()
