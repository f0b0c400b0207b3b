"""Particles: sequences are drawn together and resampled, and come closer to the model's distribution."""

import math

import pytest
import toy_model
from hypothesis import given
from hypothesis import strategies as st
from selected import assert_fails, distribution, run, selected, selected_sequence, text_of

from runtime.decoding.members import weight_shares
from runtime.decoding.particles import systematic_copies
from runtime.scheduling.scheduler import Scheduler
from runtime.scheduling.sequence import Sequence
from runtime.selection import Selection


def particles(size):
    return Selection("particles", size)


def test_with_more_particles_outputs_come_closer_to_the_models_distribution():
    conditional = toy_model.conditional()
    distances = [toy_model.distance(toy_model.masked(), conditional)]
    distances += [
        toy_model.distance(distribution(selected(particles(size))), conditional) for size in (2, 4, 16)
    ]
    assert distances == sorted(distances, reverse=True)
    assert distances[0] > 0.3  # what a plain mask gets wrong
    assert distances[-1] < 0.1  # so many exact draws of four texts are 0.04 away on average


@pytest.mark.parametrize("sampling", [{"temperature": 0.7}, {"top_k": 2}])
def test_the_models_distribution_is_the_truncated_one(sampling):
    conditional = toy_model.conditional(**sampling)
    written = distribution(selected(particles(16), **sampling))
    assert (
        toy_model.distance(written, conditional)
        < toy_model.distance(toy_model.masked(**sampling), conditional) / 3
    )


def test_an_output_does_not_depend_on_its_company_or_on_memory():
    def written(engine, sequences):
        return {o.sequence.first.seed: o.sequence.output_ids for o in run(engine, sequences).values()}

    def sequences():
        return [
            selected_sequence(particles(4), seed, prompt=b"a prompt of some length") for seed in range(10)
        ]

    together = written(toy_model.toy_engine(max_batch=64), sequences())
    tight = toy_model.toy_engine(num_pages=24, max_batch=5)
    assert written(tight, sequences()) == together
    alone = {}
    for sequence in sequences():
        alone |= written(toy_model.toy_engine(jumps=True, max_batch=1), [sequence])
    assert alone == together


def test_all_particles_are_drawn_together_and_one_is_selected():
    (output,) = run(toy_model.toy_engine(), [selected_sequence(particles(8), 3)]).values()
    stats = output.sequence.selection
    assert (stats.strategy, stats.num_draws, stats.is_exact) == ("particles", 8, False)
    shares = weight_shares(output.sequence.population.members)
    assert stats.effective_size == pytest.approx(1 / sum(share**2 for share in shares))
    assert 1 <= stats.effective_size <= 8
    text = text_of(output)
    assert output.sequence.weight.log_product == pytest.approx(
        sum(map(math.log, toy_model.allowed_masses(text))), abs=1e-4
    )


@pytest.fixture
def forked(monkeypatch):
    """The sequences of which a copy is made."""
    found, fork = [], Sequence.fork
    monkeypatch.setattr(Sequence, "fork", lambda self, seed: found.append(self) or fork(self, seed))
    return found


def test_particles_are_resampled(forked):
    for output in selected(particles(8), 16):
        counters = {member.counters.num_computed for member in output.sequence.population.members}
        assert output.sequence.selection.num_computed_tokens > sum(counters)
    assert forked


class FittingModel(toy_model.ToyModel):
    """A model that writes each of the texts as often as the others, and seldom anything else: after an `a`."""

    def next_probabilities(self, output):
        whole = [toy_model.ids_of(text) for text in toy_model.TEXTS]
        following = {ids[len(output)] for ids in whole if ids[: len(output)] == output}
        seldom = 0.3 if toy_model.written(output).endswith("a") else 0.0
        return dict.fromkeys(following, (1 - seldom) / len(following)) | {ord("x"): seldom}


def test_particles_of_similar_weights_are_not_resampled(forked):
    sequences = [selected_sequence(particles(8), seed) for seed in range(8)]
    for output in run(toy_model.toy_engine(FittingModel(), max_batch=64), sequences).values():
        assert 4 < output.sequence.selection.effective_size < 8
    assert not forked


@pytest.fixture
def without_copies(monkeypatch):
    """Copies of particles go through the queue, and compute the tokens of their last page again."""

    def switch():
        monkeypatch.setattr(Scheduler, "has_room_for_copy", lambda self, sequence: False)

    return switch


@pytest.mark.parametrize(("prompt", "num_after"), [(b"prompt", 0), (b"prompts.", 2)])
def test_copies_go_on_from_the_pages_of_the_others(without_copies, prompt, num_after):
    """Resampled after the second letter, when so many tokens are computed after the last full page."""

    def written():
        engine = toy_model.toy_engine(max_batch=64)
        sequences = [selected_sequence(particles(8), seed, prompt=prompt) for seed in range(8)]
        outputs = run(engine, sequences)
        return [outputs[sequence].sequence.output_ids for sequence in sequences], engine.runner.num_computed

    copied, num_copied = written()
    without_copies()
    queued, num_queued = written()
    assert copied == queued
    assert (num_copied < num_queued) is (num_after > 0)
    assert num_copied <= num_queued


def test_a_copied_page_has_what_the_other_had(make_engine, without_copies):
    def written():
        engine = make_engine(max_batch=64)
        sequences = [selected_sequence(particles(8), seed, prompt=b"a prompt") for seed in range(12)]
        outputs = run(engine, sequences)
        return [
            (outputs[s].sequence.output_ids, round(outputs[s].sequence.weight.log_product, 3))
            for s in sequences
        ]

    copied = written()
    without_copies()
    assert written() == copied


def test_a_particle_that_fails_ends_its_choice():
    engine = toy_model.toy_engine()
    broken = selected_sequence(particles(4), 1)
    assert_fails(engine, broken, where=lambda other: other is not broken and other.num_output > 1)


def test_particles_that_fail_together_end_their_choice_once():
    assert_fails(toy_model.toy_engine(), selected_sequence(particles(4), 1), where=lambda _: True)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=16).filter(lambda weights: sum(weights) > 0.1),
    st.integers(0, 2**32 - 1).map(lambda number: number / 2**32),  # the steps of `noise`
)
def test_copies_are_as_many_as_the_shares_say(weights, uniform):
    shares = [weight / sum(weights) for weight in weights]
    copies = systematic_copies(shares, uniform)
    assert sum(copies) == len(shares)
    for share, number in zip(shares, copies, strict=True):
        assert abs(number - share * len(shares)) < 1 + 1e-6
        assert number == 0 or share > 0
