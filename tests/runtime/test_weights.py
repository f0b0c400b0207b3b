"""The weight of an output is what its masks left of the model's distribution, forced tokens included."""

import math

import pytest
import torch
import toy_model
from scripted import Spells
from sequences import finish, make_sequence

from compiler import compile_schema
from runtime.request import Sampling
from runtime.scheduling.weights import MIN_MASS, Weight

SAMPLINGS = [{}, {"temperature": 0.5}, {"top_k": 2}, {"temperature": 2.0, "top_k": 2}]


@pytest.fixture
def weighed():
    """A finished output of the toy model, with its weight."""

    def make(seed, *, jumps=True, **options):
        sampling = Sampling(**{"temperature": 1.0} | options)
        sequence = make_sequence(
            "prompt", 5, seed=seed, sampling=sampling, matcher=toy_model.GRAMMAR.matcher(), weight=Weight(6)
        )
        finish(toy_model.toy_engine(jumps=jumps), sequence)
        return sequence

    return make


@pytest.mark.parametrize("jumps", [True, False])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_weight_is_the_product_of_the_allowed_masses(weighed, sampling, jumps):
    seen = set()
    for seed in range(40):
        sequence = weighed(seed, jumps=jumps, **sampling)
        text = toy_model.text_of(sequence.output_ids)
        masses = [max(mass, MIN_MASS) for mass in toy_model.allowed_masses(text, **sampling)]
        assert sequence.weight.log_product == pytest.approx(sum(map(math.log, masses)), abs=1e-4)
        assert sequence.stats.log_weight == sequence.weight.log_product
        assert sequence.weight.log_shared == pytest.approx(sum(map(math.log, masses[: 1 + jumps])), abs=1e-4)
        seen.add(text)
    assert len(seen) > 1


def test_forced_tokens_are_written_without_being_drawn(weighed):
    jumped, drawn = weighed(3), weighed(3, jumps=False)
    assert jumped.output_ids == drawn.output_ids
    assert jumped.weight.log_product == pytest.approx(drawn.weight.log_product, abs=1e-4)
    assert (jumped.weight.num_drawn, drawn.weight.num_drawn) == (3, 5)  # two letters and the stop token
    assert jumped.stats.num_computed_tokens == drawn.stats.num_computed_tokens == 6 + 4


@pytest.mark.parametrize(
    "penalty", [{"frequency_penalty": 0.5}, {"presence_penalty": 1.5}, {"repetition_penalty": 1.3}]
)
def test_each_forced_token_has_the_penalties_of_those_before_it(weighed, penalty):
    """Else no token could be forced under a penalty, and models that come with one would get plain masks."""
    plain = weighed(3)
    jumped, drawn = weighed(3, **penalty), weighed(3, **penalty, jumps=False)
    assert jumped.output_ids == drawn.output_ids
    assert jumped.weight.log_product == pytest.approx(drawn.weight.log_product, abs=1e-4)
    assert abs(jumped.weight.log_product - plain.weight.log_product) > 1e-3
    assert jumped.stats.num_forced_tokens == plain.stats.num_forced_tokens > 0


def test_a_weighed_output_of_a_real_model_is_what_it_is_without(make_engine):
    matchers = [toy_model.GRAMMAR.matcher() for _ in range(2)]
    plain = make_sequence("x", 5, temperature=1.0, matcher=matchers[0])
    weighed = make_sequence("x", 5, temperature=1.0, matcher=matchers[1], weight=Weight(1))
    finish(make_engine(), plain, weighed)
    assert weighed.output_ids == [*plain.output_ids, toy_model.STOP]
    assert -math.inf < weighed.weight.log_product < 0


def test_a_weight_survives_preemption(make_engine):
    texts = [f'{{"number": {i}, "text": "{"x" * 20}"}}' for i in range(4)]

    def weights(engine):
        sequences = [
            make_sequence("p" * 9, 60, matcher=Spells(text), temperature=1.0, weight=Weight(9))
            for text in texts
        ]
        finish(engine, *sequences)
        return [sequence.weight.log_product for sequence in sequences]

    tight = make_engine(num_pages=26)
    assert weights(tight) == pytest.approx(weights(make_engine()), rel=1e-4)
    assert tight.scheduler.num_preempted > 0


def test_forced_tokens_that_another_sequence_has_computed_are_weighed():
    grammar = compile_schema({"enum": [f"{'x' * 9}{end}" for end in "ab"]})
    engine = toy_model.toy_engine()  # its pages are shorter than the forced text
    engine.runner.run = lambda batch: torch.zeros(len(batch.rows), engine.runner.num_columns)

    def weight():
        sequence = make_sequence(
            "prompt", 30, matcher=grammar.matcher(), temperature=1.0, seed=1, weight=Weight(6)
        )
        finish(engine, sequence)
        return sequence.weight

    first, second = weight(), weight()
    assert first.num_counted == 6 + len('"xxxxxxxxxa"') + 1
    assert second == first
