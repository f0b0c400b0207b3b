"""What a process keeps of clients' grammars beside the cache of grammars is bounded."""

import random

import pytest

from compiler import kept_sets
from compiler.cache.grammar_cache import MAX_FORMAT_BYTES, GrammarCache
from compiler.cache_entry import CacheEntry
from compiler.errors import UnsupportedSchema
from compiler.grammar.ebnf import ebnf_grammar
from compiler.grammar.grammar import CharClass, _write_class
from compiler.isolation.compile_job import CompileJob
from compiler.prepared_vocabulary import prepare
from compiler.recogniser import network
from compiler.recogniser.network import Network
from compiler.recogniser.parser_state import initial_state
from compiler.regular.charset import MAX_RANGES
from compiler.regular.utf8 import byte_sequences
from compiler.response_format import ResponseFormat
from compiler.scalars.char_encoding import as_json
from compiler.vocabulary import Vocabulary

AMBIGUOUS = "root ::= [a-z ]* [a-m] [a-z ]{24}"
"""Each text leads to a set of states of its own: which of the last 24 letters come before n."""


def ranges(count):
    return tuple((0x100 + 2 * number, 0x100 + 2 * number) for number in range(count))


@pytest.mark.parametrize("function", [byte_sequences, _write_class, as_json], ids=lambda f: f.__name__)
def test_only_small_sets_of_characters_are_kept_for_the_whole_process(function):
    """Else sixty grammars with 30,000 characters each would leave a gigabyte behind."""
    small, large = ranges(MAX_RANGES), ranges(MAX_RANGES + 1)
    assert function(small) is function(small)
    assert function(large) is not function(large)
    assert function(large) == function(large)


def letters(rng, count):
    return bytes(rng.choice(b"abcdefghijklmnopqrstuvwxyz ") for _ in range(count))


def test_the_sets_of_an_ambiguous_grammar_are_forgotten(monkeypatch):
    """They grow by 3 kB with each token of each output, and nobody counts them."""
    monkeypatch.setattr(network, "MAX_KEPT", 2_000)
    rng, parsed = random.Random(1), Network(ebnf_grammar(AMBIGUOUS))
    state, most = initial_state(parsed), 0
    for _ in range(1_000):
        state = state.advance(letters(rng, 3))
        most = max(most, parsed._num_kept)
    assert most < 3_000
    assert sum(len(states.consuming) for states in parsed._sets.values()) < 3_000


def test_the_sets_of_all_grammars_are_forgotten_if_they_are_many_together(monkeypatch):
    """Each may keep 20 MB, also when nobody uses it any more, and a cache has thousands."""
    monkeypatch.setattr(kept_sets, "MAX_KEPT_TOGETHER", 5_000)
    prepared, rng = prepare(Vocabulary.of_bytes()), random.Random(1)
    grammars = [ResponseFormat("grammar", f"{AMBIGUOUS} [a-{last}]") for last in "mnopqrst"]
    networks = [CacheEntry.of_format(grammar, prepared).compiled.network for grammar in grammars]
    for parsed in networks:
        state = initial_state(parsed)
        for _ in range(100):
            state = state.advance(letters(rng, 3))
        assert prepared.kept_sets.num_kept <= 5_000
        assert sum(network._num_kept for network in networks) < 6_000
    assert not networks[0]._sets


def test_a_step_between_sets_counts_as_well(monkeypatch):
    """A set keeps up to 256 of them, 9 kB."""
    monkeypatch.setattr(network, "MAX_KEPT", 20)
    parsed = Network(ebnf_grammar("root ::= [a-z]*"))
    state = begin = initial_state(parsed)
    for letter in b"abcdefghijklmnopqrstuvwxyz":
        state = state.advance(bytes([letter]))
    assert all(len(states.steps) < 20 for states in begin.live.values())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("grammar", [AMBIGUOUS, 'root ::= x root | x\nx ::= [a-z]+ " "? [a-f]'])
def test_texts_go_on_as_before_when_sets_are_forgotten(monkeypatch, grammar, seed):
    """Several texts at once, each at another point when the sets of all are forgotten."""
    rng = random.Random(seed)
    kept, forgetful = Network(ebnf_grammar(grammar)), Network(ebnf_grammar(grammar))
    pairs = [(initial_state(kept), initial_state(forgetful)) for _ in range(4)]
    for _ in range(40):
        at = rng.randrange(4)
        piece = letters(rng, rng.randint(1, 4))
        monkeypatch.setattr(network, "MAX_KEPT", 10**9)
        expected = pairs[at][0].advance(piece)
        monkeypatch.setattr(network, "MAX_KEPT", 100)
        found = pairs[at][1].advance(piece)
        assert (expected is None) == (found is None)
        if expected is not None and found is not None:
            assert found.is_complete == expected.is_complete
            assert found.cost == expected.cost
            assert found.next_bytes() == expected.next_bytes()
            assert found.completion() == expected.completion()
            pairs[at] = expected, found


def test_the_byte_sequences_of_a_large_class_are_found_once_for_a_grammar(monkeypatch):
    found = []
    monkeypatch.setattr(network, "byte_sequences", lambda of: found.append(of) or byte_sequences(of))
    characters = "".join(chr(low) for low, _ in ranges(MAX_RANGES + 1))
    state = initial_state(Network(ebnf_grammar(f"root ::= [{characters}]*")))
    state.advance(characters.encode())
    assert len(found) == 1
    assert CharClass(found[0])


async def test_a_response_format_that_is_too_long_is_refused_before_it_is_written_as_json(monkeypatch):
    """Writing 2.3 MB of keys would stop the event loop for half a second."""
    cache = GrammarCache(None, secret=b"0123456789abcdef")
    monkeypatch.setattr(CompileJob, "key", lambda *_: pytest.fail("it was written as JSON"))
    constant = {f"key {number}": number for number in range(80_000)}
    with pytest.raises(UnsupportedSchema, match=f"at most {MAX_FORMAT_BYTES} are compiled. Shorten it"):
        await cache.find_format(
            ResponseFormat("schema", {"const": constant}), prepared=prepare(Vocabulary.of_bytes())
        )
    await cache.close()


@pytest.mark.parametrize("odd", [2**70, "\ud800", float("inf")])
def test_what_cannot_be_measured_is_left_to_others(odd):
    CompileJob.format(ResponseFormat("schema", {"const": odd})).check_length(1_000)
