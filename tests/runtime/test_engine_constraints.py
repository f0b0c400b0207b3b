"""The engine under matchers and closers: what they say is written, and what they do wrong is one sequence's fault."""

import pytest
from scripted import Appends, Digits, Spells
from sequences import ENDLESS, finish, make_sequence

from runtime.errors import BudgetTooSmall, PromptTooLong, Unforeseen
from runtime.events import FinishReason


def test_a_matcher_decides_what_is_written(make_engine):
    forced = make_sequence("x", 50, temperature=1.0, matcher=Spells('{"a": 1}'))
    free = make_sequence("x", 5)
    finish(make_engine(), forced, free)
    assert bytes(forced.output_ids) == b'{"a": 1}'  # no step is spent on a stop token that must follow
    assert forced.finish_reason is FinishReason.STOP
    assert forced.stats.num_rescued_tokens > 0
    assert 0 < forced.stats.mass_removed < 1
    assert forced.stats.mask_fill_us_max <= forced.stats.mask_fill_us_sum
    assert free.stats.mask_fill_us_sum == 0


def test_a_matcher_survives_preemption(make_engine):
    texts = [f'{{"number": {i}, "text": "{"x" * 20}"}}' for i in range(4)]
    engine = make_engine(num_pages=26)
    sequences = [make_sequence("p" * 9 + str(i), 60, matcher=Spells(text)) for i, text in enumerate(texts)]
    finish(engine, *sequences)
    assert engine.scheduler.num_preempted > 0
    assert [bytes(s.output_ids).decode() for s in sequences] == texts


def test_a_matcher_that_contradicts_its_mask_fails_its_sequence(make_engine):
    matcher = Spells("abc")
    matcher.accept = lambda token_id: False
    (output,) = finish(make_engine(), make_sequence(matcher=matcher))
    assert isinstance(output.error, Unforeseen)


def test_the_closer_completes_an_output_at_its_budget(make_engine):
    sequence = make_sequence("x", 12, temperature=1.0, closer=Appends("99"), matcher=Digits(), seed=3)
    outputs = finish(make_engine(), sequence)
    assert sequence.num_output == 12
    assert bytes(sequence.output_ids[-2:]) == b"99"
    assert (sequence.finish_reason, sequence.closed_by) == (FinishReason.LENGTH, "budget")
    assert sequence.stats.num_forced_tokens == 2
    assert sequence.closer.seen == sequence.output_ids
    assert [t.sampled.token_id for o in outputs for t in o.tokens] == sequence.output_ids


def test_a_budget_of_exactly_the_minimum_is_all_closing(make_engine):
    sequence = make_sequence("x", 2, closer=Appends("42"), matcher=Digits())
    (output,) = finish(make_engine(), sequence)
    assert bytes(t.sampled.token_id for t in output.tokens) == b"42"
    assert sequence.closed_by == "budget"


def test_a_closer_that_forces_against_the_grammar_fails_its_sequence(make_engine):
    wrong = make_sequence("x", 4, closer=Appends("no"), matcher=Spells("abcdef"))
    right = make_sequence("x", 5)
    outputs = finish(make_engine(), wrong, right)
    assert [o.sequence for o in outputs if o.error] == [wrong]
    assert right.num_output > 0


def test_a_matcher_that_raises_fails_its_sequence(make_engine):
    def explode(*_):
        raise RuntimeError("bug")

    wrong, also_wrong = Spells("abc"), Spells("abc")
    wrong.fill_bitmask = explode
    also_wrong.accept = explode
    right = make_sequence("x", 5)
    outputs = finish(
        make_engine(), make_sequence(matcher=wrong), right, make_sequence("y", matcher=also_wrong)
    )
    assert sum(o.error is not None for o in outputs) == 2
    assert right.num_output > 0


def test_a_budget_below_the_minimum_is_refused(make_engine):
    with pytest.raises(BudgetTooSmall) as refused:
        make_engine().add(make_sequence("x", 3, closer=Appends("1234")))
    assert (refused.value.max_tokens, refused.value.minimum) == (3, 4)


def test_a_prompt_that_leaves_no_room_for_the_shortest_output_is_too_long(make_engine):
    engine = make_engine(context_length=10)
    engine.add(make_sequence("123456", 9, closer=Appends("1234")))
    with pytest.raises(PromptTooLong) as refused:
        engine.add(make_sequence("1234567", 9, closer=Appends("1234")))
    assert (refused.value.num_prompt_tokens, refused.value.context_length) == (7, 6)
    assert str(refused.value) == (
        "the prompt is too long: 7 tokens > 6 maximum, the context of this model without 4 for the shortest"
        " valid output"
    )
    for prompt, max_tokens, shortest, size in (
        ("1234567", 3, "1234", "max_tokens is 3"),
        ("1", 9, "0123456789", "the context of this model has 10 tokens"),
        ("1", 99, "0123456789", "the context of this model has 10 tokens"),
    ):
        with pytest.raises(BudgetTooSmall) as refused:
            engine.add(make_sequence(prompt, max_tokens, closer=Appends(shortest)))
        assert (refused.value.max_tokens, refused.value.minimum) == (max_tokens, len(shortest))
        assert str(refused.value).startswith(f"{size}, but the shortest valid output of this request needs")


def test_without_a_closer_the_budget_cuts(make_engine):
    sequence = make_sequence("x", 7, sampling=ENDLESS)
    finish(make_engine(), sequence)
    assert sequence.num_output == 7
    assert (sequence.finish_reason, sequence.closed_by) == (FinishReason.LENGTH, None)
