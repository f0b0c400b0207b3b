"""Searches at temperature 0 whose time or budget ends, or whose outputs fail."""

import json
import time
from dataclasses import dataclass

import pytest
import toy_model
from searches import (
    ANY_TEXT,
    GRAMMAR,
    SCORES,
    WORDS,
    LostModel,
    NumberModel,
    RandomModel,
    search,
    searched,
    word_of,
)
from selected import assert_fails, poison, run, selected_sequence, text_of
from sequences import finish
from toy_model import STOP, ToyModel, toy_engine

from compiler import compile_schema
from compiler.errors import MatchingTooSlow
from runtime.errors import DeadlineExceeded
from runtime.events import FinishReason
from runtime.scheduling.sequence import SequenceStatus
from runtime.selection import Selection


@dataclass
class EndlessModel(ToyModel):
    """A model that begins the text of an object with a letter, and repeats that, or is lost and breaks the line.

    `letters` has the probability of each letter, and how probable it is that the model is lost after it.
    """

    letters: dict[str, tuple[float, float]]
    BEGINNING = b'{"a": "'

    def next_probabilities(self, output):
        place = len(self.BEGINNING)
        if len(output) < place:
            return {self.BEGINNING[len(output)]: 1.0}
        if len(output) == place:
            return {ord(letter): p for letter, (p, _) in self.letters.items()}
        _, lost = self.letters[chr(output[place])]
        return {output[place]: 1 - lost, ord("\n"): lost}


LONG_ENDING = compile_schema(
    {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"const": "x" * 300}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
)
"""The budget closer needs several steps to end it, so a branch that it ends is given up before its end."""


def endless_search(size, strategy):
    """An engine and the first sequence of a search: of its model's texts, `a` gets lost, and `b` never ends."""
    engine = toy_engine(EndlessModel({"a": (0.5, 0.9), "b": (0.3, 0.0), "c": (0.2, 0.9)}))
    deadline = time.monotonic() + 7200
    first = search(size, strategy=strategy, grammar=LONG_ENDING, max_tokens=360, deadline=deadline)
    engine.add(first)
    return engine, first


@pytest.mark.parametrize("strategy", SCORES)
def test_the_deadline_ends_a_choice_of_which_all_that_has_ended_was_given_up(strategy, stop_clock):
    engine, first = endless_search(3, strategy)
    while not any(member.finish_reason for member in first.population.members):
        assert engine.step() == []
    assert first.finish_reason is None
    stop_clock(first.deadline + 1)
    assert [type(output.error) for output in finish(engine)] == [DeadlineExceeded]


@pytest.mark.parametrize("strategy", SCORES)
def test_no_further_output_is_begun_when_it_is_late_even_if_none_is_whole(strategy, stop_clock):
    engine, first = endless_search(8, strategy)
    while first.status is not SequenceStatus.PARKED:
        assert engine.step() == []
    stop_clock(first.deadline - 1)
    assert [(output.sequence, output.error) for output in finish(engine)] == [(first, None)]
    assert first.selection.num_draws == 2


def test_a_branch_that_does_not_fit_the_budget_is_left():
    """A word of three letters takes five tokens with its quotes."""
    for budget, longest in ((3, 1), (4, 2), (5, 3)):
        for seed in range(20):
            word = word_of(searched(RandomModel(seed), 16, grammar=GRAMMAR, max_tokens=budget))
            assert word in WORDS
            assert len(word) <= longest


@pytest.mark.parametrize(("strategy", "temperature"), [("accept", 0.0), ("particles", 0.0), ("accept", 1.0)])
def test_an_output_that_leaves_no_room_for_a_stop_token_is_complete(strategy, temperature):
    """As under a plain mask, which needs none."""
    sequence = selected_sequence(Selection(strategy, 8), 1, temperature=temperature, max_tokens=4)
    (output,) = run(toy_engine(), [sequence]).values()
    assert word_of(output.sequence) in toy_model.TEXTS
    assert (output.sequence.finish_reason, output.sequence.closed_by) == (FinishReason.STOP, None)


def test_no_output_is_written_twice_after_a_token_that_does_not_fit_the_budget():
    """The model would rather write zeros than `2`, the end or `3`; its place in the text is sampled again."""
    model = NumberModel({ord("0"): 0.0, ord("2"): -1.0, STOP: -1.5, ord("3"): -2.0})
    sequence = searched(model, 16, grammar=compile_schema({"enum": [1, 12, 13, 10**15]}), max_tokens=6)
    members = sequence.population.members
    written = [tuple(member.output_ids) for member in members if member.num_written]
    assert len(set(written)) == len(written)
    outputs = [member.selection for member in members if member.selection]
    assert [stats.is_exact for stats in outputs] == [True]


@pytest.fixture
def begun():
    """An engine, and a search of it with a deadline."""
    engine, sequence = toy_engine(), search(16, deadline=time.monotonic() + 7200)
    engine.add(sequence)
    return engine, sequence


@pytest.mark.parametrize(("is_first_written", "num_draws"), [(False, 1), (True, 2)])
def test_once_half_of_the_time_has_passed_the_best_so_far_is_selected(
    begun, stop_clock, is_first_written, num_draws
):
    """It is no proof, even if the branch that is left is a likely one."""
    engine, sequence = begun
    while is_first_written and sequence.status is not SequenceStatus.FINISHED:
        engine.step()
    stop_clock(sequence.deadline - 1)
    (output,) = finish(engine)
    assert word_of(output.sequence) == "aa"
    selection = output.sequence.selection
    assert (selection.num_draws, selection.is_exact) == (num_draws, False)


def test_a_whole_output_is_the_answer_if_the_deadline_finds_a_branch_waiting(begun, stop_clock):
    engine, sequence = begun
    while sequence.status is not SequenceStatus.FINISHED:
        engine.step()
    assert engine.step() == []  # the branch writes its first token, and then waits
    assert engine.scheduler.waiting
    stop_clock(sequence.deadline + 1)
    (output,) = finish(engine)
    assert (output.sequence, output.error, output.is_last) == (sequence, None, True)


def test_a_search_whose_first_output_fails_at_once_has_no_answer():
    sequence = search(4)
    assert_fails(toy_engine(), sequence, where=lambda other: other is sequence)


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("strategy", SCORES)
def test_a_search_whose_first_output_fails_later_writes_the_best_branch(strategy, is_late, stop_clock):
    engine = toy_engine()
    sequence = search(4, strategy=strategy, deadline=time.monotonic() + 7200)
    poison(engine, lambda other: other is sequence and other.num_output == 2)
    if is_late:
        stop_clock(sequence.deadline - 1)
    (output,) = run(engine, [sequence]).values()
    assert (output.sequence is sequence, output.error) == (False, None)
    assert text_of(output) in toy_model.TEXTS
    assert not output.sequence.selection.is_exact
    assert not is_late or output.sequence.selection.num_draws == 2


@pytest.mark.parametrize("strategy", SCORES)
def test_a_branch_that_does_not_fit_the_budget_goes_on_if_nothing_else_is_left(strategy):
    """After 1, 2 begins a number that is too long."""
    engine = toy_engine(NumberModel({ord("3"): -0.7, ord("2"): -1.2, STOP: -1.6}))
    numbers = compile_schema({"enum": [1, 13, 1333, 12345678901]})
    sequence = search(2, strategy=strategy, grammar=numbers, max_tokens=6)
    poison(engine, lambda other: other is sequence and other.num_output == 2)
    (output,) = run(engine, [sequence]).values()
    assert output.sequence is not sequence
    assert word_of(output.sequence) in {"1", "13", "1333"}


@pytest.mark.parametrize("strategy", SCORES)
def test_a_search_whose_outputs_all_fail_ends_with_an_error(strategy):
    engine = toy_engine()
    sequence = search(4, strategy=strategy)
    assert_fails(engine, sequence, where=lambda other: other.num_output == 2)
    assert len([m for m in sequence.population.members if m.num_written]) > 1


def fill_with_nan(engine, sequence):
    poison(engine, lambda other: other is not sequence)


def write_too_slowly(engine, sequence):
    write = engine.writer.write_sampled

    def write_slowly(other, token):
        if other is not sequence:
            raise MatchingTooSlow(0.5)
        return write(other, token)

    engine.writer.write_sampled = write_slowly


@pytest.mark.parametrize("fail", [fill_with_nan, write_too_slowly])
def test_a_whole_output_is_the_answer_if_a_branch_fails(fail):
    """Here the branch is more likely than the whole output."""
    engine = toy_engine()
    sequence = search(4)
    fail(engine, sequence)
    (output,) = run(engine, [sequence]).values()
    assert (output.sequence, text_of(output)) == (sequence, "aa")
    assert (output.sequence.selection.num_draws, output.sequence.selection.is_exact) == (2, False)


@pytest.mark.parametrize("strategy", SCORES)
def test_an_output_that_was_left_is_the_answer_if_the_branch_fails(strategy):
    engine = toy_engine(LostModel(0.3, 0.999))
    sequence = search(2, strategy=strategy, grammar=ANY_TEXT, max_tokens=60)
    poison(engine, lambda other: other is not sequence)
    (output,) = run(engine, [sequence]).values()
    assert (output.sequence, output.error, word_of(sequence)) == (sequence, None, "a" * 40)
    assert (sequence.selection.num_draws, sequence.selection.is_exact) == (2, False)


@pytest.mark.parametrize("strategy", SCORES)
def test_a_search_ends_with_an_error_if_an_output_that_was_left_fails_too(strategy):
    engine = toy_engine(LostModel(0.3, 0.999))
    sequence = search(2, strategy=strategy, grammar=ANY_TEXT, max_tokens=60)
    assert_fails(engine, sequence, lambda other: other is not sequence or other.num_output > 20)
    assert len(sequence.population.members) == 2


@pytest.mark.parametrize("strategy", SCORES)
def test_an_output_that_the_budget_closes_is_the_answer_if_no_other_is_left(strategy):
    """Its completion takes several steps, so a search may give it up there."""
    engine = toy_engine(EndlessModel({"a": (0.6, 0.3), "b": (0.4, 0.7)}))
    sequence = search(2, strategy=strategy, grammar=LONG_ENDING, max_tokens=370)
    poison(engine, lambda other: other is sequence and other.num_output > 25)
    (output,) = run(engine, [sequence]).values()
    assert output.error is None
    assert output.sequence.closed_by == "budget"
    assert json.loads(word_of(output.sequence))["a"].startswith("bbbb")
