"""Schemas that hypothesis makes up: compiled or refused; what a mask lets through is valid, what is invalid is not accepted."""

import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_decoding import RandomDecoder
from soundness.judges import Judges
from soundness.mutations import mutations, wrongly_accepted
from soundness.schemas import DIALECTS, schemas
from vocabularies import BYTES

from compiler.errors import UnsupportedSchema
from compiler.schema import compile_schema

DECODER = RandomDecoder(BYTES)
CALM = settings(suppress_health_check=list(HealthCheck))


def check(schema, seed: int) -> None:
    try:
        compiled = compile_schema(schema, tokenizer=BYTES)
    except UnsupportedSchema:
        return
    judges = Judges(schema)
    rng = random.Random(seed)
    for bias in (0.05, 0.3, 0.6):
        text = DECODER.decode(compiled.matcher(), rng, max_tokens=200, bias=bias)
        if text is None:
            continue
        assert judges.faults(text) == [], text
        assert compiled.accepts(text.decode())
        assert wrongly_accepted(compiled, judges, mutations(json.loads(text), rng, 10)) == []


MANY = [
    pytest.param(draft, 5000, marks=[pytest.mark.corpus, pytest.mark.timeout(7200)]) for draft in DIALECTS
]
"""How many schemas a full run has of each draft, others each time."""


@pytest.mark.parametrize(("draft", "count"), [(4, 15), (6, 15), (7, 30), (2019, 15), (2020, 30), *MANY])
def test_generated_schemas_are_upheld_or_refused(draft, count):
    settings(CALM, max_examples=count, derandomize=count < 5000)(
        given(schemas(draft), st.integers(0, 99))(check)
    )()
