"""What the study's tables count, and what its remarks say of them."""

from dataclasses import replace

import pytest

from runtime.study.answering import StudyAnswer
from runtime.study.judging import REFUSED, Judgement
from runtime.study.lenient_parser import OutputFault
from runtime.study.remarks import remarks
from runtime.study.results import (
    Cell,
    Findings,
    StudySettings,
    compare,
    difference_interval,
    interval,
    mean_interval,
    pair,
    summarize,
)


def answer_of(*, valid, right=False, calls=(), is_reordered=False, seconds=1.0, **options):
    fault = None if valid else OutputFault.UNCLOSED
    verdict = Judgement(
        is_json=valid,
        is_valid=valid,
        is_valid_open=valid,
        is_tool=right,
        is_right=right,
        fault=fault,
        calls=calls,
        is_reordered=is_reordered,
    )
    return StudyAnswer("", verdict, seconds, num_tokens=10, **options)


def test_a_row_counts_tokens_of_all_answers_for_each_valid_one():
    answers = [answer_of(valid=True, right=True, seconds=n) for n in (2.0, 1.0)]
    answers += [answer_of(valid=False, seconds=9.0), StudyAnswer("", REFUSED, 0.0)]
    row = summarize(Cell("easy", "prompt", 0.0, tuple(answers)))
    assert (row.valid, row.right, row.num_refused) == (0.5, 0.5, 1)
    assert row.tokens_per_valid == 15
    assert (row.seconds_p50, row.seconds_p99) == (2.0, float("inf"))
    assert row.faults == {"unclosed": 1, "refused": 1}
    assert row.as_json["seconds_p99"] is None
    empty = summarize(Cell("easy", "prompt", 0.0, (answer_of(valid=False),)))
    assert empty.tokens_per_valid == float("inf")


def test_masked_answers_are_compared_with_the_valid_unmasked_ones():
    add, sub = (("add", "{}"),), (("sub", "{}"),)
    unmasked = [
        answer_of(valid=True, right=True, calls=add),
        answer_of(valid=True, calls=sub, is_reordered=True),
        answer_of(valid=False),
        answer_of(valid=False),
    ]
    masked = [
        answer_of(valid=True, right=True, calls=add),
        answer_of(valid=True, right=True, calls=add),
        answer_of(valid=True, right=True, calls=add),
        answer_of(valid=True, calls=sub),
    ]
    found = compare(
        Cell("easy", "prompt", 0.0, tuple(unmasked)), Cell("easy", "callgate", 0.0, tuple(masked))
    )
    assert (found.num_valid, found.same_tool, found.same_call) == (2, 0.5, 0.5)
    assert (found.right_unmasked, found.right_masked) == (0.5, 1.0)
    assert (found.num_invalid, found.rescued_tool, found.rescued_right) == (2, 0.5, 0.5)
    assert (found.num_changed, found.num_reordered, found.num_reordered_changed) == (1, 1, 1)
    assert found.num_rescued == 1


def test_questions_without_a_grammar_are_told_once_whatever_the_temperature():
    settings = StudySettings(temperatures=(0.0, 1.0))
    refused = replace(REFUSED, reason="no grammar for `pattern`")
    answers = (answer_of(valid=True), StudyAnswer("", refused, 0.0))
    cells = {("hard", "xgrammar", t): Cell("hard", "xgrammar", t, answers) for t in settings.temperatures}
    findings = Findings(settings, "m", 1, can_think=False, machine={}, cells=cells)
    assert findings.refusals() == {("hard", "xgrammar"): ["no grammar for `pattern`"]}


def test_remarks_count_what_tables_do_not_say():
    call = (("add", "{}"),)
    unmasked = (answer_of(valid=True, calls=call), answer_of(valid=False))
    masked = (
        answer_of(valid=True, calls=call, num_forced=4),
        answer_of(valid=True, right=True, is_closed_by_budget=True),
    )
    cells = {
        ("easy", name, 0.0): Cell("easy", name, 0.0, answers)
        for name, answers in (("prompt", unmasked), ("callgate", masked))
    }
    kept, tokens, closed = remarks(cells, ["easy"], "easy", 256)
    assert "1 calls were valid unmasked; the plain mask's are the same in 1 cases" in kept
    assert "Of 1 that were not valid, 1 are right" in kept
    assert "10.0 tokens unmasked and 10.0 under the plain mask, 6.0 of them drawn" in tokens
    assert (
        "of the plain mask's 2 calls, 1 were closed at the limit of 256 tokens; 1 of those are right"
        in closed
    )
    assert [*remarks({}, ["easy"], "easy", 256)] == []


def test_a_share_is_as_good_as_its_count():
    assert interval(0.5, 100) == pytest.approx((0.4038, 0.5962), abs=1e-4)
    assert interval(1.0, 50) == pytest.approx((0.9286, 1.0), abs=1e-4)
    assert interval(0.5, 0) == (0.0, 1.0)


def test_two_strategies_are_paired_question_by_question():
    ours = [answer_of(valid=True, right=n < 3, num_computed=30, seconds=n) for n in range(4)]
    rival = [answer_of(valid=True, right=n in {0, 3}, num_computed=60, seconds=2 * n) for n in range(4)]
    found = pair(Cell("easy", "accept", 1.0, tuple(ours)), Cell("easy", "retry", 1.0, tuple(rival)))
    assert (found.num_asked, found.right, found.right_of_rival) == (4, 0.75, 0.5)
    assert (found.computed, found.seconds) == (0.5, 0.5)
    assert (found.low, found.high) == difference_interval(2, 1, 4)


def test_draws_of_one_question_count_as_one_value():
    ours = [answer_of(valid=True, right=n in {0, 1, 4}) for n in range(6)]
    rival = [answer_of(valid=True, right=n in {2, 5}) for n in range(6)]
    found = pair(Cell("easy", "accept", 1.0, tuple(ours)), Cell("easy", "retry", 1.0, tuple(rival)), 2)
    assert (found.num_asked, found.right, found.right_of_rival) == (6, 0.5, 2 / 6)
    assert (found.low, found.high) == mean_interval([1.0, -0.5, 0.0])
    assert mean_interval([1.0, -0.5, 0.0]) == pytest.approx((1 / 6 - 0.8643, 1 / 6 + 0.8643), abs=1e-3)
    assert mean_interval([1.0]) == (-1.0, 1.0)


def test_a_difference_is_as_good_as_the_pairs_that_differ():
    low, high = difference_interval(0, 0, 600)
    assert low == -high == pytest.approx(-0.0033, abs=1e-4)
    low, high = difference_interval(40, 20, 200)
    assert ((low + high) / 2, high - low) == pytest.approx((20 / 202, 0.1495), abs=1e-3)
