"""Never a broken call: whatever is sampled, and at any budget, the output is complete and valid.

`make test` writes for a fixed sample of real schemas in this process, `make test-corpus` for all tools and 2,500
schemas in worker processes with limits.
"""

import json
import os
import re
from statistics import median

import pytest
import torch
from dictation import Indifferent, engine_of, spelled_vocabulary
from sequences import finish, make_sequence
from soundness.budgets import outputs
from soundness.corpora import sample
from vocabularies import STOP

from compiler import compile_schema
from runtime.request import Sampling

BYTES, SPELLS_BYTES = spelled_vocabulary("bytes")


def written(corpus, vocabulary, *, every, per_schema, workers=0):
    cases = sample(corpus, every=every)
    *_, tally = outputs(cases, vocabulary, per_schema, workers=workers)
    print(f"\n{corpus}, {vocabulary}: {tally}")
    assert tally.faults == []
    assert tally.counts["closed"] > 0
    assert tally.counts["closed"] + tally.counts["ended"] > 0.9 * per_schema * tally.counts["schemas done"]
    assert median(tally.early) <= 8


def test_calls_of_real_tools_are_valid_at_any_budget():
    written("mcp", "qwen3", every=400, per_schema=4)


def test_outputs_of_real_schemas_are_valid_at_any_budget():
    written("jsonschemabench", "random", every=900, per_schema=4)


@pytest.mark.corpus
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize(("corpus", "every", "per_schema"), [("mcp", 1, 6), ("jsonschemabench", 3, 4)])
def test_outputs_of_a_whole_corpus_are_valid_at_any_budget(corpus, every, per_schema):
    written(corpus, "qwen3", every=every, per_schema=per_schema, workers=os.cpu_count() or 1)


class Insists(Indifferent):
    """A model that writes one of its favourites wherever it may."""

    def __init__(self, favourites: bytes) -> None:
        super().__init__(BYTES.width)
        self._favourites = list(favourites)

    def run(self, batch):
        logits = torch.zeros(len(batch.sampled), self.num_columns)
        logits[:, self._favourites] = 50.0
        return logits


@pytest.mark.parametrize(
    ("schema", "favourites", "closed_by"),
    [
        ({"type": "string"}, b"a", "budget"),
        ({"type": "string"}, b"\\u0", "budget"),
        ({"type": "array"}, b"[", "budget"),
        ({"type": "array", "items": {"type": "integer"}}, b"[1,", "budget"),
        ({"type": "array", "items": {"enum": [1, 2]}}, b"[1,", "budget"),
        ({"type": "array", "items": {"type": "null"}, "minItems": 3, "maxItems": 5}, b"[n,", None),
        ({"type": "object", "minProperties": 1}, b"a", "budget"),
        ({"type": "integer"}, b"123456789", None),  # has a last digit
        ({"type": "number"}, b"-.0123456789eE", None),
        # Blanks stand only after separators, one at most.
        ({"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}, b" \t\r\n", None),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 4}, b" \t\r\n", None),
        ({"type": ["object", "array"]}, b" \t\r\n", None),
    ],
)
def test_a_loop_is_closed_by_the_budget_or_bounded_by_the_grammar(schema, favourites, closed_by):
    compiled = compile_schema(schema, tokenizer=BYTES)
    for jump_forward in (None, SPELLS_BYTES):
        engine = engine_of(Insists(favourites), BYTES, jump_forward)
        sequence = make_sequence(
            [0],
            200,
            sampling=Sampling(logit_bias={STOP: 30.0, ord("}"): 20.0, ord('"'): 10.0}),
            seed=1,
            matcher=compiled.matcher(),
            closer=compiled.closer(),
        )
        finish(engine, sequence)
        text = bytes(i for i in sequence.output_ids if i != STOP)
        json.loads(text)
        assert sequence.num_output <= 200
        assert sequence.closed_by == closed_by, text
        outside = re.sub(rb'"(?:[^"\\]|\\.)*"', b'""', text)
        assert not re.search(rb"\s\s", outside)
