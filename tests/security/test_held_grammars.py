"""What the grammars of a client's running answers take is bounded, also once they have left the cache."""

import gc
import weakref

import pytest

from compiler import ResponseFormat
from compiler.cache import grammar_cache
from compiler.cache.grammar_cache import GrammarCache
from compiler.errors import TooManyGrammars
from compiler.prepared_vocabulary import prepare
from compiler.vocabulary import Vocabulary
from toolspecs.held_parts import HeldParts

VOCABULARY = prepare(Vocabulary.of_bytes())


def choice(number):
    return ResponseFormat("choice", [f"answer {number}"])


@pytest.fixture
def held():
    return HeldParts(1, TooManyGrammars)


@pytest.fixture
async def grammars(held):
    """A cache without room: each grammar leaves it at once."""
    cache = GrammarCache(None, memory_bytes=0, secret=b"0123456789abcdef", held=held)
    yield cache
    await cache.close()


async def test_a_client_holds_so_much_and_others_as_much(grammars, held):
    """Else 128 answers that wait, each with a grammar of its own, would hold as many grammars, of 128 MB at most."""
    found = await grammars.find_format(choice(0), prepared=VOCABULARY, client_id="attacker")
    with pytest.raises(TooManyGrammars, match="take 1; try again"):
        await grammars.find_format(choice(1), prepared=VOCABULARY, client_id="attacker")
    again = await grammars.find_format(choice(0), prepared=VOCABULARY, client_id="attacker")
    assert again.grammar.digest == found.grammar.digest, "what it holds already takes no more"
    await grammars.find_format(choice(1), prepared=VOCABULARY, client_id="other")
    assert held.num_bytes("attacker") > 0


async def test_what_an_answer_held_is_free_when_it_has_ended(grammars, held):
    found = [await grammars.find_format(choice(0), prepared=VOCABULARY, client_id="a") for _ in range(2)]
    size, gone = held.num_bytes("a"), weakref.ref(found[0])
    del found[0]
    gc.collect()
    assert gone() is None
    assert held.num_bytes("a") == size
    found.clear()
    gc.collect()
    assert held.num_bytes("a") == 0
    await grammars.find_format(choice(1), prepared=VOCABULARY, client_id="a")


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_an_answer_that_was_sent_holds_nothing(client_with, monkeypatch, is_streamed):
    """Nothing refers in a circle to what holds a grammar, or a client would wait for garbage collection."""
    monkeypatch.setattr(grammar_cache, "MAX_HELD_BYTES", 1)
    gc.disable()
    try:
        async with client_with() as client:
            for number in range(5):
                answer = await client.post(
                    "/v1/chat/completions",
                    json={
                        "model": "tiny",
                        "messages": [{"role": "user", "content": "Hi"}],
                        "response_format": {"type": "choice", "choices": [f"answer {number}"]},
                        "stream": is_streamed,
                    },
                )
                assert answer.status_code == 200, answer.text
    finally:
        gc.enable()


class Holder:
    """An object that can be gone."""


def test_what_was_added_is_subtracted_although_the_size_has_changed(held):
    """Else a part that grows while it is held would leave less than nothing behind, and others pass for holders."""
    holders = [Holder(), Holder()]
    held.hold("a", {"grammar": 10}, holders[0])
    held.hold("a", {"grammar": 25}, holders[1])
    assert held.num_bytes("a") == 10
    del holders[0]
    gc.collect()
    assert held.num_bytes("a") == 10
    holders.clear()
    gc.collect()
    assert held.num_bytes("a") == 0
    assert not held.has_others("b")
