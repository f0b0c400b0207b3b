"""A grammar that takes long to follow holds up its own sequences, and after some time ends them."""

import sys
import threading
import time
from functools import partial
from unittest.mock import patch

import pytest
import torch

from compiler import compile_schema, timed_fills
from compiler.cache_entry import CacheEntry
from compiler.errors import MatchingTooSlow
from compiler.free_matcher import FreeMatcher
from compiler.matcher import allocate_bitmask
from compiler.prepared_vocabulary import prepare
from compiler.response_format import ResponseFormat
from compiler.schema import CompiledSchema
from compiler.syntaxes import SYNTAXES, find_syntax
from compiler.timed_fills import TimedFills
from compiler.units.unit import Unit
from compiler.vocabulary import Vocabulary
from runtime.engine import Engine
from runtime.engines.verified_output import Verification, VerifiedOutput
from runtime.errors import GrammarTooSlow
from runtime.events import FinishReason
from runtime.masks import TokenMasks
from runtime.request import GenerationRequest, Sampling
from runtime.sequence import Sequence, SequenceStatus
from runtime.settings import EngineSettings
from runtime.slow_grammars import MAX_SLOW_S, RECENT_S, REST, SLOW_S, STEP_S, SlowGrammars
from runtime.text.detokenizer import TokenBytes
from runtime.written_token import SampledToken
from toolspecs.tool import CustomInput, custom_tool

VOCABULARY = prepare(Vocabulary.of_bytes())
GRAMMAR = CacheEntry.of_format(ResponseFormat("pattern", "[a-z]{400}"), VOCABULARY).compiled_schema


class Runner:
    """Logits that depend on nothing; each step takes 10 ms."""

    is_async = False
    num_columns = 257

    def __init__(self, settings, clocks):
        self.cache = type(
            "Cache",
            (),
            {
                "num_pages": settings.num_pages,
                "page_size": 4,
                "clear": lambda *_: None,
                "copy": lambda *_: None,
            },
        )
        self.clocks = clocks
        self.batches = []

    def run(self, batch):
        self.clocks.seconds += 0.01
        self.batches.append([chunk.sequence.share for chunk in batch.chunks])
        return torch.zeros(len(batch.rows), self.num_columns)


class Clocks:
    """One clock for all that the test lets take time."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


class SlowMatcher:
    """A matcher whose masks take `seconds` each."""

    def __init__(self, seconds, clocks):
        self.matcher, self.seconds, self.clocks = GRAMMAR.matcher(), seconds, clocks

    def __getattr__(self, name):
        return getattr(self.matcher, name)

    def fill_bitmask(self, bitmask, row):
        self.clocks.seconds += self.seconds
        self.matcher.fill_bitmask(bitmask, row)


class Machine:
    """An engine on a clock of its own."""

    def __init__(self, max_sequences=8):
        self.clocks = Clocks()
        settings = EngineSettings(
            page_size=4, num_pages=4096, max_sequences=max_sequences, max_batch_tokens=64
        )
        self.runner = Runner(settings, self.clocks)
        self.engine = Engine(self.runner, VOCABULARY, settings, context_length=4000)
        self.engine.scheduler.slow = slow = SlowGrammars(self.clocks, self.clocks)
        self.engine.writer._has_time = slow.has_time
        self.errors = {}

    def add(self, share, seconds=0.0, num_tokens=300):
        number = len(list(self.engine.scheduler))
        sequence = Sequence(
            f"{share}/{number}",
            [number, 1, 1, 1],
            num_tokens,
            Sampling(temperature=0),
            share=share,
            matcher=SlowMatcher(seconds, self.clocks),
        )
        self.engine.add(sequence)
        return sequence

    def step(self):
        before = self.clocks.seconds
        for output in self.engine.step():
            if output.error is not None:
                self.errors[output.sequence] = output.error
        if self.clocks.seconds == before:
            self.clocks.seconds += 0.001  # an idle step waits
        self.engine.check_integrity()


def test_ten_tokens_beside_slow_grammars_take_few_times_as_long_as_alone():
    machine = Machine()
    for _ in range(7):
        machine.add("attacker", 0.1)
    for _ in range(5):
        machine.step()
    start, victim = machine.clocks.seconds, machine.add("victim")
    while victim.num_output < 10:
        machine.step()
    assert machine.clocks.seconds - start < 0.1 + 0.8  # ten steps, and all masks of one step at most


@pytest.mark.parametrize("max_tokens", [1, 2, 4])
def test_short_answers_of_slow_grammars_do_not_hold_up_those_of_others(max_tokens):
    """They ended before it was known that they are slow: all of a step's were filled, and ten tokens took 71 s."""
    machine = Machine(max_sequences=64)
    victim, seconds = machine.add("victim"), 0.45
    for _ in range(5):
        machine.step()
    start, steps_s = machine.clocks.seconds, []
    while victim.num_output < 25:
        while sum(sequence.share == "attacker" for sequence in machine.engine.scheduler) < 100:
            machine.add("attacker", seconds, max_tokens)
        before = machine.clocks.seconds
        machine.step()
        steps_s.append(machine.clocks.seconds - before)
    assert max(steps_s) < STEP_S + seconds + 0.02
    assert machine.clocks.seconds - start < 2 * (STEP_S + seconds)


@pytest.mark.parametrize("has_grammar", [False, True])
def test_masks_just_under_the_limit_neither_fill_a_step_nor_starve_others(has_grammar):
    """Those that waited came last again in the next step."""
    machine = Machine(max_sequences=64)
    for _ in range(60):
        machine.add("attacker", 0.9 * SLOW_S)
    victim = machine.add("victim")
    victim.matcher = victim.matcher if has_grammar else None
    num_steps = 40
    for _ in range(num_steps):
        before = machine.clocks.seconds
        machine.step()
        assert machine.clocks.seconds - before < STEP_S + 0.03
    assert victim.num_output > (num_steps // 8 if has_grammar else 0.9 * num_steps)


class SlowCloser:
    """A closer that takes `seconds` for each token."""

    def __init__(self, seconds, clocks):
        self.seconds, self.clocks = seconds, clocks

    def fits(self, budget):
        return True

    def minimum(self):
        return 1

    def admits(self, token_id, budget):
        self.clocks.seconds += self.seconds
        return True

    def accepted(self, token_id):
        pass


def test_closers_that_take_long_do_not_fill_a_step():
    """All tokens of a step were written, however long their closers took: 15 s in one step."""
    machine = Machine(max_sequences=64)
    for _ in range(60):
        machine.add("attacker", num_tokens=3).closer = SlowCloser(0.2, machine.clocks)
    victim = machine.add("victim")
    start = machine.clocks.seconds
    while victim.num_output < 10:
        before = machine.clocks.seconds
        machine.step()
        assert machine.clocks.seconds - before < STEP_S + 0.25
    assert machine.clocks.seconds - start < 2


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
    start = machine.clocks.seconds
    while honest.num_output < 30:
        machine.step()
    assert machine.clocks.seconds - start < 1.5
    assert quick.num_output >= 28


def test_sequences_that_the_client_stops_meanwhile_are_not_sampled():
    machine = Machine()
    stopped, other = machine.add("attacker", 0.2), machine.add("victim")
    for _ in range(4):
        machine.step()
    machine.engine.step(meanwhile=lambda: machine.engine.stop(stopped))
    machine.step()
    assert machine.engine.scheduler.max_running == machine.engine.scheduler.settings.max_sequences
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
    machine.clocks.seconds += RECENT_S
    assert counted.expected_s(machine.add("attacker")) == 0


def test_slow_sequences_take_turns_beside_quick_ones_of_others():
    machine = Machine()
    slow = [machine.add("attacker", 0.2) for _ in range(3)]
    quick = machine.add("victim")
    while quick.num_output < 250:
        machine.step()
    batches = machine.runner.batches[2:]
    assert max(batch.count("attacker") for batch in batches) == 1
    assert sum("attacker" in batch for batch in batches) < 250 * 0.01 / (REST * 0.2) + 2
    assert any(sequence.num_output > 1 for sequence in slow)


def test_nobody_waits_where_grammars_are_slow_and_their_client_is_alone():
    machine = Machine()
    sequences = [machine.add("alone", SLOW_S * 1.5) for _ in range(3)]
    for _ in range(50):
        machine.step()
    assert machine.clocks.seconds == pytest.approx(50 * 0.01 + 150 * SLOW_S * 1.5)
    assert all(sequence.num_output == 50 for sequence in sequences)


def test_the_slow_sequences_of_one_step_are_bounded_so_that_a_newcomer_waits_for_few():
    machine = Machine()
    for _ in range(8):
        machine.add("alone", STEP_S * 0.4)
    for _ in range(9):
        machine.step()
    assert [len(batch) for batch in machine.runner.batches[1:]] == [2] * 8


def test_a_sequence_that_takes_too_long_in_all_fails_and_no_other():
    machine = Machine()
    slow, quick = machine.add("attacker", 0.5), machine.add("victim")
    while slow not in machine.errors:
        machine.step()
    assert quick.num_output == 300
    assert isinstance(machine.errors.pop(slow), GrammarTooSlow)
    assert slow.num_output <= MAX_SLOW_S / 0.5 + 1
    assert not machine.errors


class StuckMatcher:
    """A matcher whose masks take all of a processor's time until `goes_on` is set."""

    def __init__(self):
        self.goes_on = threading.Event()

    def fill_next_token_bitmask(self, bitmask, row):
        while not self.goes_on.is_set():
            pass
        bitmask[row] = 5


class WaitingMatcher:
    """A matcher whose masks take long, but no processor time: its machine is busy."""

    def fill_next_token_bitmask(self, bitmask, row):
        time.sleep(0.1)
        bitmask[row] = 5


def test_a_mask_that_takes_too_long_is_given_up_and_its_row_stays(monkeypatch):
    """One mask of `x? x? ...` took 7 s after three tokens: nothing can interrupt xgrammar."""
    monkeypatch.setattr(timed_fills, "MAX_FILL_S", 0.01)
    monkeypatch.setattr(timed_fills, "MAX_LEFT_BEHIND", 2)
    fills, stuck, bitmask = TimedFills(), StuckMatcher(), allocate_bitmask(2, 64)
    for _ in range(3):
        with pytest.raises(MatchingTooSlow):
            fills.fill(stuck, bitmask, 1)
    assert len(fills._left_behind) == 2  # the third was not begun
    assert (bitmask == -1).all()
    stuck.goes_on.set()
    for thread in fills._left_behind:
        thread.join()
    monkeypatch.setattr(timed_fills, "MAX_FILL_S", 60)
    before = fills.processor_s()
    fills.fill(stuck, bitmask, 1)
    assert bitmask.tolist() == [[-1, -1], [5, 5]]
    assert fills.processor_s() > before


def test_masks_that_one_client_leaves_behind_take_no_time_from_others(monkeypatch):
    """With 32 such masks a client would end the outputs of all others whose grammars are timed."""
    monkeypatch.setattr(timed_fills, "MAX_FILL_S", 0.01)
    monkeypatch.setattr(timed_fills, "MAX_LEFT_BEHIND_OF_CLIENT", 2)
    fills, stuck, bitmask = TimedFills(), StuckMatcher(), allocate_bitmask(1, 64)
    for client, seconds in [
        ("attacker", 0.01),
        ("attacker", 0.005),
        ("attacker", 0.01 / 3),
        ("victim", 0.01),
    ]:
        fills.begin_for(client)
        with pytest.raises(MatchingTooSlow) as refused:
            fills.fill(stuck, bitmask, 0)
        assert refused.value.seconds == seconds
    assert [fill.client for fill in fills._left_behind] == ["attacker", "attacker", "victim"]
    stuck.goes_on.set()


def test_an_engine_and_a_verified_output_say_whose_masks_they_fill():
    machine = Machine()
    verification = Verification(VOCABULARY, TokenBytes(VOCABULARY.vocabulary))
    request = GenerationRequest("r", "m", (), constraint=compile_schema({"const": "a"}), share="verified")
    with patch.object(TimedFills, "begin_for") as begin_for:
        engine = Engine(machine.runner, VOCABULARY, EngineSettings(), context_length=400)
        with engine.scheduler.slow.timed(machine.add("embedded")):
            pass
        VerifiedOutput(request, 0, [], 9, verification, is_thinking=False).allowed_ids(5)
    assert [call.args for call in begin_for.call_args_list[-2:]] == [("embedded",), ("verified",)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a thread's processor time")
def test_a_mask_is_not_given_up_because_the_machine_is_busy(monkeypatch):
    monkeypatch.setattr(timed_fills, "MAX_FILL_S", 0.02)
    bitmask = allocate_bitmask(1, 64)
    TimedFills().fill(WaitingMatcher(), bitmask, 0)
    assert bitmask.tolist() == [[5, 5]]


def test_a_sequence_whose_mask_is_given_up_fails_and_no_other():
    machine = Machine()
    stuck, quick = machine.add("attacker"), machine.add("victim")
    with patch.object(stuck.matcher, "fill_bitmask", side_effect=MatchingTooSlow(0.5)):
        while stuck not in machine.errors:
            machine.step()
    assert isinstance(machine.errors.pop(stuck), GrammarTooSlow)
    while quick.num_output < 300:
        machine.step()
    assert not machine.errors


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_matcher_whose_mask_was_given_up_is_not_used_again(is_complete):
    """A thread uses it still: a copy, or whether it is complete, would be read while that thread writes."""
    sequence = Machine().add("attacker")
    masks = TokenMasks(VOCABULARY, 257)
    with patch.object(sequence, "matcher") as matcher:
        matcher.fill_bitmask.side_effect = MatchingTooSlow(0.5)
        assert not masks.allows_only(sequence, [1])
        matcher.is_completed.return_value = is_complete
        matcher.reset_mock()
        assert not masks.is_exhausted(sequence)
        twin = sequence.fork(5)
        assert not matcher.method_calls
        assert twin.is_too_slow
        assert not masks.fill(twin).any()


def test_a_sequence_whose_mask_is_given_up_after_its_token_fails_at_once():
    """Until the next step, its population could copy it."""
    machine = Machine()
    stuck = machine.add("attacker")
    with patch.object(
        machine.engine.masks, "is_exhausted", lambda sequence: setattr(sequence, "is_too_slow", True)
    ):
        machine.step()
    assert isinstance(machine.errors[stuck], GrammarTooSlow)
    assert (stuck.num_output, stuck.status) == (1, SequenceStatus.FINISHED)


class SpinningMatcher:
    """A matcher whose masks take 20 ms of a processor's time."""

    def fill_next_token_bitmask(self, bitmask, row):
        ends = time.thread_time() + 0.02
        while time.thread_time() < ends:
            pass


def test_the_time_of_a_mask_counts_wherever_it_is_filled():
    """A draft's masks are filled when a token is taken, and so are those that verify another engine's."""
    machine = Machine()
    engine = Engine(machine.runner, VOCABULARY, EngineSettings(), context_length=400)
    sequence, bitmask = machine.add("attacker"), allocate_bitmask(1, 257)
    with engine.scheduler.slow.timed(sequence):
        VOCABULARY.timed_fills.fill(SpinningMatcher(), bitmask, 0)
    assert sequence.token_s >= 0.02

    verification = Verification(VOCABULARY, TokenBytes(VOCABULARY.vocabulary), checks_masks=True)
    request = GenerationRequest("r", "m", (), constraint=compile_schema({"const": "aaa"}))
    output = VerifiedOutput(request, 0, [], 9, verification, is_thinking=False)
    spin = partial(VOCABULARY.timed_fills.fill, SpinningMatcher())
    with patch.object(output._matcher, "fill_bitmask", spin):
        output.take([SampledToken(ord('"'))])
    assert output._time.slow_s >= 0.02


@pytest.mark.parametrize("name", sorted(SYNTAXES))
def test_the_masks_of_custom_tools_with_grammars_are_timed(name):
    tool = custom_tool("t", "", CustomInput("lark", "start: WORD*\nWORD: /[a-z ]{1,3}/"))
    entry = CacheEntry.of_tool(tool, find_syntax(name), VOCABULARY)
    again = Unit.from_bytes(entry.unit.to_bytes(), VOCABULARY)
    assert again.grammar.is_free
    for unit in (entry.unit, again):
        assert isinstance(unit.inner_matcher(), FreeMatcher)


@pytest.mark.parametrize(
    ("kind", "content", "is_timed"),
    [("grammar", 'root ::= ("a" | "b")*', True), ("pattern", "[ab]*", False), ("schema", {}, False)],
)
def test_the_masks_of_grammars_that_clients_write_are_timed(kind, content, is_timed):
    compiled = CacheEntry.of_format(ResponseFormat(kind, content), VOCABULARY).compiled_schema
    again = CompiledSchema.from_bytes(compiled.to_bytes(), compiled.report, VOCABULARY)
    assert isinstance(again.inner_matcher(), FreeMatcher) is again.may_search is is_timed
    bitmask = allocate_bitmask(1, 257)
    with patch.object(TimedFills, "fill", autospec=True, side_effect=TimedFills.fill) as timed:
        again.matcher().fill_bitmask(bitmask, 0)
    assert timed.called is is_timed
    assert bitmask[0, ord("a") >> 5] >> (ord("a") & 31) & 1 == (kind != "schema")
