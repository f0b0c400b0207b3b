"""Rejection sampling: what is accepted is distributed as the model's valid outputs are."""

import math
import time
from functools import cache

import pytest
import torch
import toy_model
from selected import (
    HESITANT,
    WHOLE_BUT_GIVEN_UP,
    distribution,
    poison,
    run,
    selected,
    selected_sequence,
    text_of,
)
from sequences import finish

from compiler import compile_schema
from runtime.decoding.members import DECISIONS, SELECTION, is_finished
from runtime.decoding.sampling import draw_seed, seeded_uniform
from runtime.errors import DeadlineExceeded, GenerationFailed
from runtime.scheduling.batch import MAX_FORCED_ROWS
from runtime.scheduling.sequence import SequenceStatus
from runtime.selection import Selection


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
    together = [output.sequence.output_ids for output in selected(selection, 24)]
    alone = [
        output.sequence.output_ids
        for seed in range(24)
        for output in run(toy_model.toy_engine(), [selected_sequence(selection, seed)]).values()
    ]
    assert alone == together


@pytest.fixture(scope="module")
def draws_alone():
    """The draws of a population, each of them as a sequence of its own, and whole."""

    @cache
    def draws_of(seed, *sampling):
        draws = [selected_sequence(Selection(), draw_seed(seed, n), **dict(sampling)) for n in range(16)]
        finish(toy_model.toy_engine(), *draws)
        return draws

    return draws_of


@pytest.mark.parametrize("size", [2, 8, 16])
@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.7, "top_p": 0.95}], ids=["plain", "truncated"])
def test_draws_that_share_their_beginning_are_those_that_each_would_be_alone(draws_alone, size, sampling):
    outputs = selected(Selection("accept", size), 100, **sampling)
    shared = [(o.sequence.output_ids, o.sequence.selection.is_exact) for o in outputs]
    draws = [draws_alone(seed, *sampling.items())[:size] for seed in range(100)]
    assert shared == [chosen_alone(of_seed, seed) for seed, of_seed in enumerate(draws)]
    num_begun = [o.sequence.selection.num_draws for o in outputs]
    costs = [
        sum(draw.counters.num_computed for draw in of_seed[:number])
        for of_seed, number in zip(draws, num_begun, strict=True)
    ]
    computed = [output.sequence.selection.num_computed_tokens for output in outputs]
    assert sum(computed) < 0.8 * sum(costs) if size > 2 else sum(computed) < sum(costs)


def chosen_alone(draws, seed):
    """The output of the draw that is chosen, and whether it is exact."""
    for draw in draws:
        if math.exp(draw.weight.log_relative) >= seeded_uniform(draw.seed, 0, DECISIONS):
            return draw.output_ids, True
    gumbel = [-math.log(-math.log(seeded_uniform(draw.seed, 0, SELECTION) + 2**-33)) for draw in draws]
    best = max(range(len(draws)), key=lambda n: draws[n].weight.log_product + gumbel[n])
    return draws[best].output_ids, False


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
    assert max(stats.num_draws for stats in drawn) == 8
    for output, stats in zip(outputs, drawn, strict=True):
        assert stats.num_computed_tokens >= output.sequence.counters.num_computed
        assert stats.is_exact or stats.num_draws == 8
        assert stats.is_exact is (stats.effective_size is None)
    costs = sum(stats.num_computed_tokens for stats in drawn)
    whole = sum(
        stats.num_draws * o.sequence.stats.num_computed_tokens
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
    (output,) = finish(engine)
    assert isinstance(output.error, DeadlineExceeded)
    assert all(member.status is SequenceStatus.FINISHED for member in sequence.population.members)


@pytest.mark.parametrize("num_members", [1, 2])
def test_once_half_of_the_time_has_passed_no_more_draws_are_begun(stop_clock, num_members):
    engine = toy_model.toy_engine()
    sequence = selected_sequence(Selection("accept", 8), HESITANT, deadline=time.monotonic() + 7200)
    engine.add(sequence)
    while len(sequence.population.members) < num_members:
        assert engine.step() == []
    stop_clock(sequence.deadline - 3599)
    (output,) = finish(engine)
    assert output.error is None
    assert text_of(output) in toy_model.TEXTS
    selection = output.sequence.selection
    assert not selection.is_exact
    assert num_members <= selection.num_draws < 8


def test_outputs_that_the_budget_closes_are_not_written_again_and_again():
    """As those of a model that rambles: eight of them would cost eight budgets."""
    schema = {"type": "string", "maxLength": 1000}
    grammar = compile_schema(schema, tokenizer=toy_model.VOCABULARY)
    engine = toy_model.toy_engine()
    sequence = selected_sequence(Selection("accept", 8), 0, max_tokens=20, grammar=grammar)
    likes = torch.zeros(engine.runner.num_columns)
    likes[ord("a") : ord("z")] = 20
    engine.runner.run = lambda batch: likes.repeat(len(batch.rows), 1)
    (output,) = run(engine, [sequence]).values()
    assert output.sequence.closed_by == "budget"
    assert output.sequence.selection.num_written_tokens <= 3 * 20
    assert output.sequence.selection.num_draws < 8


def test_forced_tokens_are_weighed_a_few_in_a_step():
    """Each needs a row of logits, which takes time and memory with a large vocabulary."""
    text = "x" * 500
    grammar = compile_schema({"const": text}, tokenizer=toy_model.VOCABULARY)
    engine = toy_model.toy_engine()
    num_rows = []

    def run_batch(batch):
        num_rows.append(len(batch.rows))
        return torch.zeros(len(batch.rows), engine.runner.num_columns)

    engine.runner.run = run_batch
    sequences = [
        selected_sequence(Selection("accept", 2), seed, max_tokens=600, grammar=grammar, top_p=0.95)
        for seed in range(4)
    ]
    for output in run(engine, sequences).values():
        assert bytes(output.sequence.output_ids[:-1]).decode() == f'"{text}"'
    assert max(num_rows) <= MAX_FORCED_ROWS + 2 * len(sequences)


def test_where_nothing_allowed_is_probable_enough_the_most_probable_allowed_is_taken():
    assert {text_of(output) for output in selected(Selection("accept", 8), 40, top_k=1)} == {"aa"}


def test_a_resumed_draw_goes_before_choices_that_wait():
    engine = toy_model.toy_engine(max_batch=1)
    parked, other = (selected_sequence(Selection("accept", 8), seed) for seed in (1, 2))
    engine.add(parked)
    engine.step()
    engine.populations.park(parked)
    engine.add(other)
    engine.populations.resume(parked)
    assert engine.scheduler.waiting == [parked, other]


def test_draws_that_are_not_selected_let_go_of_their_matchers():
    outputs = selected(Selection("accept", 8), 40)
    others = [
        member
        for output in outputs
        for member in output.sequence.population.members
        if member is not output.sequence
    ]
    assert others
    assert {(member.matcher, member.closer, member.mask) for member in others} == {(None, None, None)}


def test_a_draw_that_fails_ends_its_choice_and_no_other():
    engine = toy_model.toy_engine()
    healthy, broken = (selected_sequence(Selection("accept", 8), seed) for seed in (1, HESITANT))
    poison(engine, lambda other: other.first is broken and len(broken.population.members) > 1)
    outputs = finish(engine, healthy, broken)
    assert {output.sequence.first: type(output.error) for output in outputs} == {
        healthy: type(None),
        broken: GenerationFailed,
    }


def test_a_whole_draw_is_the_answer_if_a_later_one_fails():
    engine = toy_model.toy_engine()
    poison(engine, lambda other: any(map(is_finished, other.population.members)))
    (output,) = run(engine, [selected_sequence(Selection("accept", 8), WHOLE_BUT_GIVEN_UP)]).values()
    assert text_of(output) in toy_model.TEXTS
    assert (output.sequence.selection.num_draws, output.sequence.selection.is_exact) == (2, False)
