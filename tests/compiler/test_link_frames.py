"""What stands around calls: framed prose, and thoughts."""

import pytest
from corpus import corpus
from linked import AUTO, NONE, REQUIRED, accepts, linked, written
from monolith import SAMPLES
from transformers import AutoTokenizer
from vocabularies import BYTES, STOP, ids_of, with_tokens

from compiler.syntaxes import SYNTAXES, find_syntax
from compiler.vocabulary import Vocabulary

HARMONY = SYNTAXES["harmony"]
FRAMES = ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>")
FRAMED = with_tokens(markers=FRAMES, stops=("<|call|>",))
THOUGHT = "<|channel|>analysis<|message|>Pay < who?<|end|><|start|>assistant"
PREAMBLE = "<|channel|>commentary<|message|>I pay.<|end|><|start|>assistant"
ANSWER = "<|channel|>final<|message|>Done."


@pytest.mark.parametrize("vocabulary", [BYTES, FRAMED], ids=["plain", "markers"])
@pytest.mark.parametrize(
    ("text", "where_required", "where_free"),
    [
        (written("pay", syntax=HARMONY), True, True),
        (THOUGHT + written("pay", syntax=HARMONY), True, True),
        (THOUGHT + PREAMBLE + THOUGHT + written("pay_all", syntax=HARMONY), True, True),
        (" to=functions.pay<|channel|>commentary json<|message|>" + SAMPLES["pay"] + "<|call|>", True, True),
        (ANSWER, False, True),
        (THOUGHT + ANSWER, False, True),
        (THOUGHT, False, False),
        ("<|channel|>analysis<|message|>Pay", False, False),
        (ANSWER + "<|end|><|start|>assistant" + written("pay", syntax=HARMONY), False, False),
        ("Hello", False, False),
        (written("pay", syntax=HARMONY) + THOUGHT, False, False),
    ],
)
def test_framed_prose_comes_before_a_call(text, where_required, where_free, vocabulary):
    def is_accepted(choice):
        grammar = linked(choice, syntax=HARMONY, vocabulary=vocabulary)
        return accepts(grammar, ids_of(text, vocabulary))

    assert is_accepted(REQUIRED) is where_required
    assert is_accepted(AUTO) is where_free
    assert is_accepted(NONE) is (where_free and "functions" not in text)


def test_no_marker_stands_in_a_message_but_its_end():
    matcher = linked(REQUIRED, syntax=HARMONY, vocabulary=FRAMED).matcher()
    assert all(map(matcher.accept, ids_of("<|channel|>analysis<|message|>Pay", FRAMED)))
    assert [i for i in range(256, FRAMED.width) if matcher.accept(i)] == [258]


THINKING = with_tokens(markers=("<think>", "</think>"))


@pytest.mark.parametrize(
    ("text", "where_required", "where_free"),
    [
        ("<think>So <b>\n</think>" + written("pay"), True, True),
        (written("pay"), True, True),
        ("<think></think>", False, True),
        ("<think></think>Hello", False, True),
        ("<think>So", False, False),
        ("", False, True),
        ("\n\n<think>\n</think>Hello", False, True),
        ("Hello<think></think>", False, False),
        ("<think></think><think></think>", False, False),
        ("<think><think></think>", False, False),
        ("</think>", False, False),
    ],
)
def test_a_thought_comes_before_all_else(text, where_required, where_free):
    row = find_syntax("hermes+think")
    for choice, expected in ((REQUIRED, where_required), (AUTO, where_free)):
        grammar = linked(choice, syntax=row, vocabulary=THINKING)
        assert accepts(grammar, ids_of(text, THINKING)) is expected
        if text.startswith("<think>"):
            inside = grammar.matcher(is_thinking=True)
            rest = ids_of(text.removeprefix("<think>"), THINKING)
            assert all(map(inside.accept, [*rest, STOP])) is expected


def test_a_thought_needs_markers():
    grammar = linked(REQUIRED, syntax=find_syntax("hermes+think"))
    assert accepts(grammar, ids_of(written("pay")))
    assert not accepts(grammar, ids_of("<think></think>" + written("pay")))


def test_a_tokenizer_with_the_markers_of_harmony():
    """What `from_tokenizer` makes of gpt-oss's kind: the token that ends a call is among the stop tokens."""
    tokenizer = AutoTokenizer.from_pretrained(corpus("tokenizers", "qwen3"))
    tokenizer.add_special_tokens({"additional_special_tokens": [*FRAMES, "<|return|>"]})
    stops = [tokenizer.convert_tokens_to_ids(text) for text in ("<|return|>", "<|call|>")]
    vocabulary = Vocabulary.from_tokenizer(tokenizer, stop_ids=stops)
    assert vocabulary.spell("<|call|>") == ""
    assert Vocabulary.from_bytes(vocabulary.to_bytes()).digest == vocabulary.digest
    grammar = linked(REQUIRED, syntax=HARMONY, vocabulary=vocabulary, names=("pay",))
    matcher = grammar.matcher()
    whole = THOUGHT + written("pay", syntax=HARMONY)
    for token_id in tokenizer.encode(whole, add_special_tokens=False):
        assert not matcher.is_terminated()
        assert matcher.accept(token_id), tokenizer.decode([token_id])
    assert matcher.is_terminated()


def test_a_marker_token_may_have_the_id_0():
    """The end of a message, a marker, is written whole by a closer, wherever the message stopped."""
    markers = {text: at for at, text in enumerate(("<|end|>", "<|channel|>", "<|message|>", "<|start|>"))}
    spellings = [*[b"?"] * 4, *(bytes([b]) for b in range(256)), b""]
    vocabulary = Vocabulary.from_tokens(spellings, markers=markers, stop_ids=[260])
    closer = linked(REQUIRED, syntax=HARMONY, vocabulary=vocabulary).closer()
    thought = [markers["<|channel|>"], *(4 + byte for byte in b"analysis"), markers["<|message|>"]]
    for token_id in [*thought, 4 + ord("<")]:
        closer.accepted(token_id)
    assert closer.completion_ids(1000)[0] == markers["<|end|>"]
