"""A grammar that takes long to follow holds up its own sequences, and after some time ends them."""

from unittest.mock import patch

import pytest
from slow_engine import VOCABULARY, Machine, SlowMatcher

from compiler import compile_schema
from compiler.errors import MatchingTooSlow
from runtime.errors import GrammarTooSlow
from runtime.events import FinishReason
from runtime.scheduling.sequence import SequenceStatus
from runtime.scheduling.slow_grammars import MAX_SLOW_S, RECENT_S, REST_FACTOR, SLOW_S, STEP_S


def test_ten_tokens_beside_slow_grammars_take_few_times_as_long_as_alone():
    machine = Machine()
    for _ in range(7):
        machine.add("attacker", 0.1)
    for _ in range(5):
        machine.step()
    start, victim = machine.clock.elapsed_s(), machine.add("victim")
    while victim.num_output < 10:
        machine.step()
    assert machine.clock.elapsed_s() - start < 0.1 + 0.8  # ten steps, and all masks of one step at most


@pytest.mark.parametrize("max_tokens", [1, 2, 4])
def test_short_answers_of_slow_grammars_do_not_hold_up_those_of_others(max_tokens):
    """They end before it is known that they are slow: with all masks of a step, ten tokens would take 71 s."""
    machine = Machine(max_batch=64)
    victim, seconds = machine.add("victim"), 0.45
    for _ in range(5):
        machine.step()
    start, steps_s = machine.clock.elapsed_s(), []
    while victim.num_output < 25:
        while sum(sequence.client_id == "attacker" for sequence in machine.engine.scheduler) < 100:
            machine.add("attacker", seconds, max_tokens)
        before = machine.clock.elapsed_s()
        machine.step()
        steps_s.append(machine.clock.elapsed_s() - before)
    assert max(steps_s) < STEP_S + seconds + 0.02
    assert machine.clock.elapsed_s() - start < 2 * (STEP_S + seconds)


@pytest.mark.parametrize("has_grammar", [False, True])
def test_masks_just_under_the_limit_neither_fill_a_step_nor_starve_others(has_grammar):
    """Those that wait do not come last again in the next step."""
    machine = Machine(max_batch=64)
    for _ in range(60):
        machine.add("attacker", 0.9 * SLOW_S)
    victim = machine.add("victim")
    victim.matcher = victim.matcher if has_grammar else None
    num_steps = 40
    for _ in range(num_steps):
        before = machine.clock.elapsed_s()
        machine.step()
        assert machine.clock.elapsed_s() - before < STEP_S + 0.03
    assert victim.num_output > (num_steps // 8 if has_grammar else 0.9 * num_steps)


class SlowCloser:
    """A closer that takes `seconds` for each token."""

    def __init__(self, seconds, clock):
        self.seconds, self.clock = seconds, clock

    def fits(self, budget):
        return True

    def minimum(self):
        return 1

    def admits(self, token_id, budget):
        self.clock.pass_by(seconds=self.seconds)
        return True

    def accepted(self, token_id):
        pass


def test_closers_that_take_long_do_not_fill_a_step():
    """Not all tokens of a step are written, if their closers take long: it could be 15 s in one step."""
    machine = Machine(max_batch=64)
    slow = [machine.add("attacker", num_tokens=3) for _ in range(60)]
    for sequence in slow:
        sequence.closer = SlowCloser(0.2, machine.clock)
    victim = machine.add("victim")
    start = machine.clock.elapsed_s()
    while victim.num_output < 10:
        before = machine.clock.elapsed_s()
        machine.step()
        assert machine.clock.elapsed_s() - before < STEP_S + 0.25
    assert machine.clock.elapsed_s() - start < 2
    assert any(sequence.grammar_time.num_waits for sequence in slow)
    for sequence in (*slow, victim):  # a token that is drawn again counts once
        assert sequence.counters.num_masked_steps == sequence.num_output


class ClosingCloser(SlowCloser):
    """A closer that completes its output at once, with 390 tokens of `seconds` each."""

    def admits(self, token_id, budget):
        return False

    def completion_ids(self, budget):
        return [ord("a")] * 390

    def accepted(self, token_id):
        self.clock.pass_by(seconds=self.seconds)


@pytest.mark.parametrize("seconds", [0.0002, 0.0005, 0.02])
def test_while_outputs_are_closed_others_have_every_other_step(seconds):
    """Else all closing outputs would come before what the model computes for others: 12 s at 0.5 ms a token."""
    machine = Machine(max_batch=64)
    victim = machine.add("victim")
    machine.step()
    closing = [machine.add("attacker") for _ in range(60)]
    for sequence in closing:
        sequence.closer = ClosingCloser(seconds, machine.clock)
    start, num_before = machine.clock.elapsed_s(), victim.num_output
    while victim.num_output < num_before + 20:
        before = machine.clock.elapsed_s()
        machine.step()
        assert machine.clock.elapsed_s() - before < STEP_S + 2 * seconds + 0.03
    assert machine.clock.elapsed_s() - start < 20 * (2 * STEP_S + 0.1)
    while any(sequence.status is not SequenceStatus.FINISHED for sequence in closing):
        machine.step()
    assert all(sequence.num_output == 390 or sequence in machine.errors for sequence in closing)


def test_an_honest_first_mask_does_not_rest_for_the_slow_tokens_of_others():
    machine = Machine()
    machine.add("attacker", 0.45)
    for _ in range(3):
        machine.step()
    honest, quick = machine.add("honest"), machine.add("quick")
    machine.step()
    honest.matcher.seconds = 0.012
    machine.step()
    honest.matcher.seconds = 0.0
    start = machine.clock.elapsed_s()
    while honest.num_output < 30:
        machine.step()
    assert machine.clock.elapsed_s() - start < 1.5
    assert quick.num_output >= 28


def test_sequences_that_the_client_stops_meanwhile_are_not_sampled():
    machine = Machine()
    stopped, other = machine.add("attacker", 0.2), machine.add("victim")
    for _ in range(4):
        machine.step()
    machine.engine.step(meanwhile=lambda: machine.engine.stop(stopped))
    machine.step()
    assert machine.engine.scheduler.max_running == machine.engine.scheduler.settings.max_batch
    assert other.num_output >= 5


def test_an_output_that_is_complete_with_its_last_token_stops_also_where_time_is_short():
    machine = Machine()
    sequence = machine.add("attacker", num_tokens=1)
    sequence.matcher = compile_schema({"const": 1}, tokenizer=VOCABULARY).matcher()
    with patch.object(machine.engine.writer, "_has_time", lambda: False):
        while sequence.status is not SequenceStatus.FINISHED:
            machine.step()
    assert sequence.finish_reason is FinishReason.STOP


def test_a_client_is_slow_for_a_while_after_its_last_slow_token():
    machine = Machine()
    slow, quick = machine.add("attacker", 0.2, 2), machine.add("victim")
    while slow.status is not SequenceStatus.FINISHED:
        machine.step()
    counted, again = machine.engine.scheduler.slow, machine.add("attacker")
    assert counted.expected_s(again) == pytest.approx(0.2)
    assert counted.expected_s(quick) == 0
    again.matcher = None
    assert counted.expected_s(again) == 0
    machine.clock.pass_by(seconds=RECENT_S)
    assert counted.expected_s(machine.add("attacker")) == 0


def test_slow_sequences_take_turns_beside_quick_ones_of_others():
    machine = Machine()
    slow = [machine.add("attacker", 0.2) for _ in range(3)]
    quick = machine.add("victim")
    while quick.num_output < 250:
        machine.step()
    batches = machine.runner.batches[2:]
    assert max(batch.count("attacker") for batch in batches) == 1
    assert sum("attacker" in batch for batch in batches) < 250 * 0.01 / (REST_FACTOR * 0.2) + 2
    assert any(sequence.num_output > 1 for sequence in slow)


@pytest.mark.parametrize(("heavy_s", "light_s"), [(0.45, 0.015), (0.0, 0.1)])
def test_many_addresses_do_not_take_a_tenth_of_a_second_of_each_step(heavy_s, light_s):
    """Each of them is light, but together they rest: else others would have 1.4 to 6 tokens a second."""
    machine, num_steps, number = Machine(max_batch=64), 300, 0
    victim = machine.add("victim")
    if heavy_s:
        machine.add("heavy", heavy_s)
    light = []
    start = machine.clock.elapsed_s()
    while victim.num_output < num_steps and machine.clock.elapsed_s() - start < 20:
        light = [sequence for sequence in light if sequence.status is not SequenceStatus.FINISHED]
        while len(light) < 50:
            number += 1
            light.append(machine.add(f"address {number}", light_s, num_tokens=2))
        machine.step()
    assert victim.num_output / (machine.clock.elapsed_s() - start) > 10


class FailingMatcher(SlowMatcher):
    """A matcher whose masks take too long after some quick ones."""

    num_quick = 0

    def fill_bitmask(self, bitmask, row):
        if self.num_quick:
            self.num_quick -= 1
            self.matcher.fill_bitmask(bitmask, row)
            return
        self.clock.pass_by(seconds=self.seconds)
        raise MatchingTooSlow(self.seconds)


@pytest.mark.parametrize("num_quick", [0, 10])
def test_masks_that_are_given_up_count_for_their_client(num_quick):
    """Each fails, but its time is noted: else every step of others would have one."""
    machine = Machine(max_batch=64)
    victim = machine.add("victim")
    while victim.num_output < 200:
        while sum(sequence.client_id == "attacker" for sequence in machine.engine.scheduler) < 20:
            sequence = machine.add("attacker")
            sequence.matcher = FailingMatcher(1.0, machine.clock)
            sequence.matcher.num_quick = num_quick
        machine.step()
    assert machine.errors
    assert machine.clock.elapsed_s() < 8


def test_a_steadily_slow_client_goes_on_beside_heavy_and_light_ones():
    machine = Machine(max_batch=64)
    machine.add("victim")
    steady = machine.add("steady", 0.015)
    machine.add("heavy", 0.45)
    while machine.clock.elapsed_s() < 5:
        machine.step()
    assert steady.num_output > 15


def test_nobody_waits_where_grammars_are_slow_and_their_client_is_alone():
    machine = Machine()
    sequences = [machine.add("alone", SLOW_S * 1.5) for _ in range(3)]
    for _ in range(50):
        machine.step()
    assert machine.clock.elapsed_s() == pytest.approx(50 * 0.01 + 150 * SLOW_S * 1.5)
    assert all(sequence.num_output == 50 for sequence in sequences)


def test_one_slow_token_of_a_client_that_is_alone_does_not_hold_up_its_other_sequences():
    """Else each step would have one of them for five seconds, as if all of their tokens were as slow."""
    machine = Machine()
    sequences = [machine.add("alone") for _ in range(8)]
    sequences[0].matcher.seconds = 2 * STEP_S
    machine.step()
    sequences[0].matcher.seconds = 0.0
    for _ in range(10):
        machine.step()
    assert min(sequence.num_output for sequence in sequences) >= 9


def test_the_slow_sequences_of_one_step_are_bounded_so_that_a_newcomer_waits_for_few():
    machine = Machine()
    for _ in range(8):
        machine.add("alone", STEP_S * 0.4)
    steps_s = []
    for _ in range(11):
        before = machine.clock.elapsed_s()
        machine.step()
        steps_s.append(machine.clock.elapsed_s() - before)
    assert max(steps_s) < STEP_S + 0.04
    assert [len(batch) for batch in machine.runner.batches] == [8, 7, 4] + [2] * 8  # once each is known


def test_a_sequence_that_takes_too_long_in_all_fails_and_no_other():
    machine = Machine()
    slow, quick = machine.add("attacker", 0.5), machine.add("victim")
    while slow not in machine.errors:
        machine.step()
    assert quick.num_output == 300
    assert isinstance(machine.errors.pop(slow), GrammarTooSlow)
    assert slow.num_output <= MAX_SLOW_S / 0.5 + 1
    assert not machine.errors
