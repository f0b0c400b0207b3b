"""Texts into which very many derivations of a client's grammar fit: what their matchers keep is bounded."""

import sys
from functools import partial
from itertools import count
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from slow_engine import Machine, SlowMatcher

from compiler import held_memory
from compiler.cache_entry import CacheEntry
from compiler.errors import MatchingTooSlow
from compiler.grammar.ebnf import ebnf_grammar
from compiler.prepared_vocabulary import prepare
from compiler.recogniser import parser_state
from compiler.recogniser.network import Network
from compiler.recogniser.parser_state import initial_state
from compiler.response_format import ResponseFormat
from compiler.syntaxes import SYNTAXES, find_syntax
from compiler.units.unit import Unit
from compiler.vocabulary import Vocabulary
from runtime.decoding.particles import Particles
from runtime.decoding.sampling import draw_seed
from runtime.decoding.token_writer import TokenWriter
from runtime.errors import GrammarTooSlow
from runtime.request import Sampling
from runtime.scheduling.sequence import Sequence, SequenceStatus
from runtime.scheduling.weights import Weight
from toolspecs.tool import CustomInput, custom_tool

AMBIGUOUS = 'root ::= x? x? x? x? x? x? x? x?\nx ::= [ab]* "a"'
GIB = 2**30
LETTER = ord("a")


@pytest.fixture
def prepared():
    """A vocabulary of this test's own, so that the texts of no other test count."""
    return prepare(Vocabulary.of_bytes())


@pytest.fixture
def process(monkeypatch):
    """What the system would tell of the process: each step takes 10 ms, and its memory is `num_bytes`."""
    process = SimpleNamespace(num_bytes=5 * GIB)
    monkeypatch.setattr(held_memory, "thread_time", partial(next, count(0.0, 0.0101)))
    monkeypatch.setattr(held_memory, "_own_bytes", lambda: process.num_bytes)
    return process


def compiled(prepared, grammar=AMBIGUOUS):
    return CacheEntry.of_format(ResponseFormat("grammar", grammar), prepared).compiled_format


def accept(matcher, num_tokens):
    """Accept letters; returns how many, which are fewer if it takes too long."""
    for number in range(num_tokens):
        try:
            assert matcher.accept(LETTER)
        except MatchingTooSlow:
            return number
    return num_tokens


def test_a_text_goes_on_while_little_memory_is_held(prepared, process):
    matcher = compiled(prepared).matcher()
    process.num_bytes += GIB
    assert accept(matcher, 200) == 200


def test_a_text_is_not_continued_while_too_much_is_held(prepared, process):
    matcher = compiled(prepared).matcher()
    assert accept(matcher, 30) == 30
    process.num_bytes += GIB + 1
    assert accept(matcher, 20) == 0
    assert matcher.num_accepted == 30
    assert matcher.is_completed()
    process.num_bytes -= GIB
    assert accept(matcher, 20) == 20


def test_texts_that_took_little_time_are_not_blamed(prepared, process):
    matcher = compiled(prepared).matcher()
    process.num_bytes += 9 * GIB  # another model, perhaps
    assert accept(matcher, 20) == 20


def test_the_longest_texts_of_the_client_with_the_most_end_first(prepared, process):
    grammar, fills = compiled(prepared), prepared.timed_fills
    texts = {}
    for client, lengths in {"attacker": (30, 20, 5), "victim": (40,)}.items():
        fills.begin_for(client)
        texts[client] = [grammar.matcher() for _ in lengths]
        assert tuple(map(accept, texts[client], lengths)) == lengths
    process.num_bytes += GIB + 1
    assert accept(texts["victim"][0], 10) == 10
    fills.begin_for("attacker")
    assert [accept(text, 3) for text in texts["attacker"]] == [0, 0, 3]
    del texts["attacker"][:2]
    assert accept(texts["attacker"][0], 10) == 10  # now it is the other client that has the most
    fills.begin_for("victim")
    assert accept(texts["victim"][0], 10) == 0


def test_a_copy_counts_like_its_original(prepared, process):
    matcher = compiled(prepared).matcher()
    assert accept(matcher, 30) == 30
    process.num_bytes += GIB + 1
    with pytest.raises(MatchingTooSlow):
        matcher.fork()
    process.num_bytes -= GIB
    twin = matcher.fork()
    process.num_bytes += GIB
    assert accept(twin, 9) == 1  # after which the system is asked


def test_what_is_rolled_back_is_not_held(prepared, process):
    texts = [compiled(prepared).matcher() for _ in range(2)]
    assert accept(texts[0], 100) == 100
    texts[0].rollback(100)
    assert accept(texts[1], 30) == 30
    process.num_bytes += GIB + 1
    assert [accept(text, 1) for text in texts] == [1, 0]


def test_memory_is_counted_from_where_no_text_is_written(prepared, process):
    matcher = compiled(prepared).matcher()
    assert accept(matcher, 30) == 30
    process.num_bytes += GIB + 1
    assert accept(matcher, 1) == 0
    del matcher
    assert accept(compiled(prepared).matcher(), 40) == 40


def test_time_stands_for_memory_where_the_system_does_not_tell(prepared, process):
    process.num_bytes = 0
    matcher = compiled(prepared).matcher()
    assert accept(matcher, 200) == 100  # a second


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much a process has grown")
def test_an_ambiguous_answer_ends_before_it_holds_much(prepared, monkeypatch):
    """Unbounded, sixteen such parts hold 780 MB after 1,600 letters."""
    monkeypatch.setattr(held_memory, "MAX_GROWN_BYTES", 40_000_000)
    grammar = compiled(prepared, "root ::= " + "x? " * 16 + '\nx ::= [ab]* "a"')
    assert 100 < accept(grammar.matcher(), 1_600) < 1_000


def test_a_sequence_whose_text_holds_too_much_fails_and_no_other(prepared, process):
    machine = Machine()
    quick, ambiguous = machine.add("victim"), machine.add("attacker")
    ambiguous.matcher = compiled(prepared, "root ::= [a-z]*").matcher()
    while ambiguous.num_output < 30:
        machine.step()
    process.num_bytes += GIB + 1
    machine.check_that_only_one_fails(ambiguous, quick)


def test_no_text_is_forced_where_a_client_wrote_the_rules(prepared):
    """A walk along 1,500 forced letters would take 8 s and 1.2 GB, where a hundred alternatives have them."""
    assert compiled(prepared, 'root ::= "abc"').matcher().forced_text() == b""


@pytest.mark.parametrize("name", sorted(SYNTAXES))
def test_no_text_is_forced_in_a_custom_tool_with_a_grammar(name, prepared):
    tool = custom_tool("t", "", CustomInput("lark", 'start: "abc"'))
    entry = CacheEntry.of_tool(tool, find_syntax(name), prepared)
    assert Unit.from_bytes(entry.unit.to_bytes(), prepared).forced_start == b""


class ParticleMachine(Machine):
    """An engine for populations."""

    def add_particles(self, client_id, size, seconds):
        def member(number, max_tokens):
            return Sequence(
                f"{client_id}/{number}",
                [1, 2, 3],
                max_tokens,
                Sampling(temperature=1),
                client_id=client_id,
                seed=draw_seed(5, number),
                matcher=Forked(seconds, self.clock),
                weight=Weight(3),
            )

        first = member(0, 300)
        first.population = Particles(first, size, member)
        self.engine.add(first)
        return first.population


class Forked(SlowMatcher):
    """A slow matcher whose copies are slow, too."""

    def fork(self):
        twin = Forked(self.seconds, self.clock)
        twin.matcher = self.matcher.fork()
        return twin


def test_slow_particles_go_on_beside_those_that_wait_for_them():
    """Held particles take no places of a step, in which they would compute nothing."""
    machine = ParticleMachine(max_batch=32)
    population, victim = machine.add_particles("attacker", 16, 0.012), machine.add("victim", 0.02, 60)
    for _ in range(3_000):
        machine.step()
        if victim.num_output >= 60 and population.is_over:
            break
    assert victim.num_output >= 60
    assert population.is_over


def test_a_copy_that_would_take_too_long_ends_its_population():
    machine = ParticleMachine()
    population = machine.add_particles("attacker", 4, 0.0)
    with patch.object(Particles, "advance", side_effect=MatchingTooSlow(0.5)):
        while not population.is_over:
            machine.step()
    assert [type(error) for error in machine.errors.values()] == [GrammarTooSlow]
    assert not machine.engine.has_work


def test_a_text_that_takes_too_long_before_the_first_token_ends_its_own_sequence():
    """Also that of a draft, whose matcher fills a mask to advance."""
    machine = Machine()
    with patch.object(TokenWriter, "write_forced", side_effect=MatchingTooSlow(0.5)):
        sequence = machine.add("attacker")
    machine.step()
    assert isinstance(machine.errors[sequence], GrammarTooSlow)
    assert sequence.status is SequenceStatus.FINISHED


AMBIGUOUS_BYTES = 'root ::= x root | x\nx ::= [a-z]+ "!"'


@pytest.mark.parametrize(("piece", "is_too_slow"), [(b"abcdefgh", False), (b"a!b!c!d!e!f!g!", True)])
def test_a_piece_of_a_text_has_a_time_however_many_derivations_fit(monkeypatch, piece, is_too_slow):
    """Else a token of 128 blanks in a grammar of 60 kB would take a second or two."""
    state = initial_state(Network(ebnf_grammar(AMBIGUOUS_BYTES)))
    monkeypatch.setattr(parser_state, "thread_time", partial(next, count(0.0, parser_state.MAX_PIECE_S / 2)))
    if is_too_slow:
        with pytest.raises(MatchingTooSlow):
            state.advance(piece)
    else:
        assert state.advance(piece)


def test_a_long_text_has_that_time_for_each_of_its_pieces(monkeypatch):
    """A constant of many kilobytes is no token: it is read at the start, by closers."""
    state = initial_state(Network(ebnf_grammar(AMBIGUOUS_BYTES)))
    step_s = parser_state.MAX_PIECE_S / 300
    monkeypatch.setattr(parser_state, "thread_time", partial(next, count(0.0, step_s)))
    assert state.advance(b"a!" * 2_000)
