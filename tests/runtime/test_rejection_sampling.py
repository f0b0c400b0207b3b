"""Rejection sampling: what is accepted is distributed as the model's valid outputs are."""

import math
import time

import pytest
import toy_model
from selected import HESITANT, distribution, run, selected, selected_sequence, text_of

from runtime.errors import DeadlineExceeded, GenerationFailed
from runtime.selection import Selection
from runtime.sequence import SequenceStatus


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.7}, {"top_k": 2}])
def test_accepted_outputs_have_the_models_distribution(sampling):
    conditional, masked = toy_model.conditional(**sampling), toy_model.masked(**sampling)
    assert toy_model.distance(masked, conditional) > 0.25  # what a plain mask gets wrong
    outputs = selected(Selection("accept", 8), **sampling)
    accepted = [output for output in outputs if output.sequence.selection.is_exact]
    assert len(accepted) > len(outputs) / 2
    # So many exact draws of four texts are 0.04 away on average.
    assert toy_model.distance(distribution(accepted), conditional) < 0.1


def test_with_more_draws_all_outputs_come_closer_to_the_models_distribution():
    conditional = toy_model.conditional()
    distances = [
        toy_model.distance(distribution(selected(Selection("accept", size))), conditional)
        for size in (2, 4, 16)
    ]
    masked = toy_model.distance(toy_model.masked(), conditional)
    assert masked > distances[0] > distances[1] > distances[2]
    assert distances[2] < 0.1


def test_an_output_does_not_depend_on_its_company():
    selection = Selection("accept", 4)
    together = {o.sequence.first.seed: o.sequence.output_ids for o in selected(selection, 24)}
    alone = {
        seed: next(iter(run(toy_model.toy_engine(), [selected_sequence(selection, seed)]).values()))
        for seed in range(24)
    }
    assert {seed: output.sequence.output_ids for seed, output in alone.items()} == together


def test_an_output_does_not_depend_on_memory():
    def written(engine):
        sequences = [
            selected_sequence(Selection("accept", 4), seed, prompt=b"a prompt of some length")
            for seed in range(12)
        ]
        return [text_of(output) for output in run(engine, sequences).values()]

    tight = toy_model.toy_engine(num_pages=20)
    assert sorted(written(tight)) == sorted(written(toy_model.toy_engine()))


def test_given_up_draws_cost_only_what_came_before():
    outputs = selected(Selection("accept", 8))
    drawn = [output.sequence.selection for output in outputs]
    assert max(stats.num_sequences for stats in drawn) == 8
    for output, stats in zip(outputs, drawn, strict=True):
        assert stats.num_computed_tokens >= output.sequence.counters.num_computed
        assert stats.is_exact or stats.num_sequences == 8
        assert stats.is_exact is (stats.effective_size is None)
    costs = sum(stats.num_computed_tokens for stats in drawn)
    whole = sum(
        stats.num_sequences * o.sequence.stats.num_computed_tokens
        for o, stats in zip(outputs, drawn, strict=True)
    )
    assert costs < 0.9 * whole


def test_a_call_that_ends_with_its_budget_is_whole():
    outputs = selected(Selection("accept", 4), 40, max_tokens=4)
    assert all(len(text_of(output)) == output.sequence.num_output - 2 for output in outputs)
    assert {output.sequence.closed_by for output in outputs} == {None}


def test_a_deadline_ends_all_draws():
    engine = toy_model.toy_engine()
    sequence = selected_sequence(Selection("accept", 8), HESITANT, deadline=time.monotonic() + 3600)
    engine.add(sequence)
    while len(sequence.population.members) < 2:
        assert engine.step() == []
    for member in sequence.population.members:
        member.deadline = 0.0
    engine._next_deadline = 0.0
    (output,) = [*engine.step(), *engine.step()]
    assert isinstance(output.error, DeadlineExceeded)
    assert not engine.has_work
    assert engine.pool.num_free == engine.pool.num_usable
    assert all(member.status is SequenceStatus.FINISHED for member in sequence.population.members)


def test_a_draw_that_fails_ends_its_choice_and_no_other():
    engine = toy_model.toy_engine()
    healthy, broken = (selected_sequence(Selection("accept", 8), seed) for seed in (1, HESITANT))
    compute = engine.runner.run

    def poisoned(batch):
        logits = compute(batch)
        for row, entry in zip(logits, batch.rows, strict=True):
            if entry.sequence.first is broken and len(broken.population.members) > 1:
                row.fill_(math.nan)
        return logits

    engine.runner.run = poisoned
    engine.add(healthy)
    engine.add(broken)
    outputs = [output for _ in range(200) for output in engine.step()]
    assert {output.sequence.first: type(output.error) for output in outputs} == {
        healthy: type(None),
        broken: GenerationFailed,
    }
    assert not engine.has_work
