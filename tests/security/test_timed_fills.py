"""Masks of grammars that clients write have a limit of time each, and are given up after it."""

import sys
import threading
import time
from functools import partial
from unittest.mock import patch

import pytest
from slow_engine import VOCABULARY, Machine

from compiler import compile_schema, timed_fills
from compiler.cache_entry import CacheEntry
from compiler.client_grammar_matcher import ClientGrammarMatcher
from compiler.compiled_format import CompiledFormat
from compiler.errors import MatchingTooSlow
from compiler.held_memory import HeldMemory
from compiler.matcher import allocate_bitmask
from compiler.response_format import ResponseFormat
from compiler.syntaxes import SYNTAXES, find_syntax
from compiler.timed_fills import TimedFills
from compiler.units.unit import Unit
from runtime.decoding.masks import TokenMasks
from runtime.engine import Engine
from runtime.engines.verified_output import Verification, VerifiedOutput
from runtime.errors import GrammarTooSlow
from runtime.request import GenerationRequest
from runtime.scheduling.sequence import SequenceStatus
from runtime.settings import EngineSettings
from runtime.text.detokenizer import TokenBytes
from runtime.written_token import SampledToken
from toolspecs.tool import CustomInput, custom_tool


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
    """One mask of `x? x? ...` takes 7 s after three tokens, and nothing can interrupt xgrammar."""
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


def test_what_a_thread_left_behind_holds_is_counted_until_it_ends(monkeypatch):
    """Its sequence has failed and is gone, but its thread makes the matcher larger still."""
    monkeypatch.setattr(timed_fills, "MAX_FILL_S", 0.01)
    fills, held, stuck = TimedFills(), HeldMemory(), StuckMatcher()
    matcher = ClientGrammarMatcher(stuck, fills, held)
    with pytest.raises(MatchingTooSlow):
        matcher.fill_next_token_bitmask(allocate_bitmask(1, 64), 0)
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "callgate-fill"]
    del matcher
    assert len(held._times) == 1
    stuck.goes_on.set()
    thread.join()
    assert len(held._times) == 0


def test_masks_that_one_client_leaves_behind_take_no_time_from_others(monkeypatch):
    """With 32 such masks a client would end the outputs of all others whose grammars are timed."""
    monkeypatch.setattr(timed_fills, "MAX_FILL_S", 0.01)
    monkeypatch.setattr(timed_fills, "MAX_LEFT_BEHIND_OF_CLIENT", 2)
    fills, stuck, bitmask = TimedFills(), StuckMatcher(), allocate_bitmask(1, 64)
    for client_id, seconds in [
        ("attacker", 0.01),
        ("attacker", 0.005),
        ("attacker", 0.01 / 3),
        ("victim", 0.01),
    ]:
        fills.begin_for(client_id)
        with pytest.raises(MatchingTooSlow) as refused:
            fills.fill(stuck, bitmask, 0)
        assert refused.value.seconds == seconds
    assert [fill.client_id for fill in fills._left_behind] == ["attacker", "attacker", "victim"]
    stuck.goes_on.set()


def test_an_engine_and_a_verified_output_say_whose_masks_they_fill():
    machine = Machine()
    verification = Verification(VOCABULARY, TokenBytes(VOCABULARY.vocabulary))
    request = GenerationRequest("r", "m", (), constraint=compile_schema({"const": "a"}), client_id="verified")
    with patch.object(TimedFills, "begin_for") as begin_for:
        engine = Engine(machine.runner, VOCABULARY, EngineSettings(), context_length=400)
        with engine.scheduler.slow.timed(machine.add("embedded")):
            pass
        VerifiedOutput(request, 0, [], 9, verification, is_thinking=False).position.allowed_ids(5)
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
        machine.check_that_only_one_fails(stuck, quick)


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
    assert sequence.grammar_time.next_s >= 0.02

    verification = Verification(VOCABULARY, TokenBytes(VOCABULARY.vocabulary), checks_masks=True)
    request = GenerationRequest("r", "m", (), constraint=compile_schema({"const": "aaa"}))
    output = VerifiedOutput(request, 0, [], 9, verification, is_thinking=False)
    spin = partial(VOCABULARY.timed_fills.fill, SpinningMatcher())
    with patch.object(output.position.matcher, "fill_bitmask", spin):
        output.take([SampledToken(ord('"'))])
    assert output._time.slow_s >= 0.02


@pytest.mark.parametrize("name", sorted(SYNTAXES))
def test_the_masks_of_custom_tools_with_grammars_are_timed(name):
    tool = custom_tool("t", "", CustomInput("lark", "start: WORD*\nWORD: /[a-z ]{1,3}/"))
    entry = CacheEntry.of_tool(tool, find_syntax(name), VOCABULARY)
    again = Unit.from_bytes(entry.unit.to_bytes(), VOCABULARY)
    assert again.grammar.is_client_grammar
    for unit in (entry.unit, again):
        assert isinstance(unit.unguarded_matcher(), ClientGrammarMatcher)


@pytest.mark.parametrize(
    ("kind", "content", "is_timed"),
    [("grammar", 'root ::= ("a" | "b")*', True), ("pattern", "[ab]*", False), ("schema", {}, False)],
)
def test_the_masks_of_grammars_that_clients_write_are_timed(kind, content, is_timed):
    compiled = CacheEntry.of_format(ResponseFormat(kind, content), VOCABULARY).compiled_format
    again = CompiledFormat.from_bytes(compiled.to_bytes(), compiled.report, VOCABULARY)
    assert isinstance(again.unguarded_matcher(), ClientGrammarMatcher) is again.may_search is is_timed
    bitmask = allocate_bitmask(1, 257)
    with patch.object(TimedFills, "fill", autospec=True, side_effect=TimedFills.fill) as timed:
        again.matcher().fill_bitmask(bitmask, 0)
    assert timed.called is is_timed
    assert bitmask[0, ord("a") >> 5] >> (ord("a") & 31) & 1 == (kind != "schema")
