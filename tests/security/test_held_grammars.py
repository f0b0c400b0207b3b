"""What the grammars of a client's running answers take is bounded, also once they have left the cache."""

import gc
import weakref

import pytest

from compiler import ResponseFormat
from compiler.cache.grammar_cache import GrammarCache
from compiler.cache.held_grammars import HeldGrammars
from compiler.errors import TooManyGrammars
from compiler.prepared_vocabulary import prepare
from compiler.vocabulary import Vocabulary

VOCABULARY = prepare(Vocabulary.of_bytes())


def choice(number):
    return ResponseFormat("choice", [f"answer {number}"])


@pytest.fixture
def held():
    return HeldGrammars(max_bytes=1)


@pytest.fixture
async def grammars(held):
    """A cache without room: each grammar leaves it at once."""
    cache = GrammarCache(None, memory_bytes=0, secret=b"0123456789abcdef", held=held)
    yield cache
    await cache.close()


async def test_a_client_holds_so_much_and_others_as_much(grammars, held):
    """128 answers that waited, each with a grammar of its own, held as many grammars, of 128 MB at most."""
    found = await grammars.format(choice(0), prepared=VOCABULARY, share="attacker")
    with pytest.raises(TooManyGrammars, match="take 1; try again"):
        await grammars.format(choice(1), prepared=VOCABULARY, share="attacker")
    again = await grammars.format(choice(0), prepared=VOCABULARY, share="attacker")
    assert again.grammar.digest == found.grammar.digest, "what it holds already takes no more"
    await grammars.format(choice(1), prepared=VOCABULARY, share="other")
    assert held.num_bytes("attacker") > 0


async def test_what_an_answer_held_is_free_when_it_has_ended(grammars, held):
    found = [await grammars.format(choice(0), prepared=VOCABULARY, share="a") for _ in range(2)]
    size, gone = held.num_bytes("a"), weakref.ref(found[0])
    del found[0]
    gc.collect()
    assert gone() is None
    assert held.num_bytes("a") == size
    found.clear()
    gc.collect()
    assert held.num_bytes("a") == 0
    await grammars.format(choice(1), prepared=VOCABULARY, share="a")
