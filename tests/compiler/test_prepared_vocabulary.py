"""What is prepared from a vocabulary is prepared once, and lives as long as the vocabulary."""

import gc
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

from corpus import corpus
from transformers import AutoTokenizer

from compiler import compile_schema, compile_toolset
from compiler.prepared_vocabulary import PreparedVocabulary, once, prepare
from compiler.vocabulary import Vocabulary
from toolspecs.tool import Tool

SCHEMA = {"type": "object"}


def test_a_vocabulary_is_prepared_once():
    vocabulary = Vocabulary.of_bytes()
    prepared = prepare(vocabulary)
    assert prepared.vocabulary is vocabulary
    assert prepare(vocabulary) is prepared
    assert prepare(prepared) is prepared
    for given in (vocabulary, prepared):
        compiled = compile_schema(SCHEMA, tokenizer=given)
        assert compiled.prepared is prepared
        assert compiled.vocabulary is vocabulary
        linked = compile_toolset([Tool("f", "", SCHEMA)], tokenizer=given)
        assert linked.prepared is prepared
        assert linked.units["f"].prepared is prepared


def test_a_tokenizer_is_prepared_once():
    known = AutoTokenizer.from_pretrained(corpus("tokenizers", "mistral-v3"))
    prepared = compile_schema(SCHEMA, tokenizer=known).prepared
    assert prepare(known) is prepared
    assert prepared.vocabulary.digest == Vocabulary.from_tokenizer(known).digest


def test_without_a_tokenizer_the_tokens_are_bytes():
    assert compile_schema(SCHEMA).vocabulary.digest == Vocabulary.of_bytes().digest


def test_what_is_prepared_goes_with_its_vocabulary():
    vocabulary = Vocabulary.of_bytes()
    left = weakref.ref(prepare(vocabulary))
    assert left() is not None
    del vocabulary
    gc.collect()
    assert left() is None


def test_each_part_is_made_once_however_many_threads_ask_for_it():
    class Slow:
        num_made = 0

        @once
        def part(self):
            self.num_made += 1
            time.sleep(0.05)
            return object()

    slow = Slow()
    with ThreadPoolExecutor(8) as threads:
        parts = list(threads.map(lambda _: slow.part, range(8)))
    assert len(set(parts)) == slow.num_made == 1


def test_parts_refer_to_one_another():
    prepared = PreparedVocabulary(Vocabulary.of_bytes())
    assert prepared.guarded.index is prepared.index
    assert prepared.backend is prepared.backend
