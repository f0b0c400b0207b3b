"""Answers in a format, where the model thinks first or frames its messages."""

import random

import pytest
from output_reader import read_parts
from random_decoding import Generation, check_masks
from vocabularies import BYTES, STOP, ids_of, with_tokens

from compiler import ResponseFormat, UnsupportedSchema, compile_format
from compiler.linker.linker import FramedFormat, link_format
from compiler.prepared_vocabulary import prepare
from compiler.syntaxes import find_syntax

FRAMES = ("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<|constrain|>")
THINKING = with_tokens("</", "ab", "\n\n", '<tool_call>{"', markers=("<think>", "</think>"))
FRAMED = with_tokens("final", "analysis", "<|mess", "age|>{", '{"', markers=FRAMES)
PLAIN = with_tokens("<|channel|>", "final<|", "message|>ab", "|>{", "<|end|>", '">{"')
WORDS = ResponseFormat("pattern", r"(?:ab|\n)+")
CALL_LIKE = ResponseFormat(
    "choice", ['<tool_call>\n{"name": "x", "arguments": {}}\n</tool_call>', "b<|end|>"]
)
OBJECT = ResponseFormat(
    "schema", {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
)
WAYS = [("hermes+think", THINKING), ("llama3+think", THINKING), ("harmony", FRAMED), ("harmony", PLAIN)]
FINAL = "<|channel|>final<|message|>"
ANALYSIS = "<|channel|>analysis<|message|>"


def answer_in(response_format, syntax, vocabulary) -> FramedFormat:
    grammar = link_format(
        compile_format(response_format, tokenizer=vocabulary), find_syntax(syntax), prepare(vocabulary)
    )
    assert isinstance(grammar, FramedFormat)
    return grammar


def accepts(grammar, text, *, is_thinking=False):
    matcher = grammar.matcher(is_thinking=is_thinking)
    return all(map(matcher.accept, [*ids_of(text, grammar.vocabulary), STOP])) and matcher.is_terminated()


@pytest.mark.parametrize(
    ("text", "is_of", "is_of_inside"),
    [
        ("ab", True, False),
        ("\nab\n", True, False),
        ("<think>So ab?\n</think>ab", True, False),
        ("So</think>ab", False, True),
        ("<think></think>abab", True, False),
        ("<think></think>", False, False),
        ("<think></think>abc", False, False),
        ("<think></think>So ab", False, False),
        ("<think></think><think></think>ab", False, False),
        ("ab<think></think>", False, False),
        ("\n<think></think>ab", False, False),
    ],
)
def test_a_thought_comes_first_and_is_free(text, is_of, is_of_inside):
    grammar = answer_in(WORDS, "hermes+think", THINKING)
    assert accepts(grammar, text) is is_of
    assert accepts(grammar, text, is_thinking=True) is is_of_inside


@pytest.mark.parametrize("vocabulary", [FRAMED, PLAIN], ids=["markers", "text"])
@pytest.mark.parametrize(
    ("text", "is_of"),
    [
        (f"{FINAL}ab", True),
        (f"{ANALYSIS}So?<|end|><|start|>assistant{FINAL}ab\n", True),
        (f"{ANALYSIS}a<|end|><|start|>assistant{ANALYSIS}b<|end|><|start|>assistant{FINAL}ab", True),
        ("ab", False),
        (f"{FINAL}", False),
        (f"{FINAL}abc", False),
        (f"{ANALYSIS}ab", False),
        (f"{FINAL}ab<|end|>", False),
        ("<|channel|>commentary<|message|>ab<|end|>", False),
        ("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}", False),
    ],
)
def test_the_last_message_is_the_answer_and_the_others_are_thoughts(text, is_of, vocabulary):
    assert accepts(answer_in(WORDS, "harmony", vocabulary), text) is is_of


@pytest.mark.parametrize(("syntax", "vocabulary"), WAYS)
@pytest.mark.parametrize("response_format", [WORDS, CALL_LIKE, OBJECT], ids=["words", "call-like", "object"])
def test_whatever_is_drawn_reads_as_thoughts_and_an_answer(syntax, vocabulary, response_format):
    """At any budget from the smallest on; the answer comes back as it was written, whatever it looks like."""
    grammar = answer_in(response_format, syntax, vocabulary)
    minimum = grammar.closer().minimum()
    assert not grammar.closer().fits(minimum - 1)
    num_thoughts = 0
    for seed in range(40):
        budget = minimum + (seed if seed < 20 else 5 * seed)
        generation = Generation(grammar, budget, random.Random(seed))
        assert len(generation.ids) <= budget
        assert generation.matcher.is_completed()
        parts = read_parts(grammar, generation.text)
        assert {kind for kind, _ in parts} <= {"TextPart", "ThoughtPart"}
        answer = "".join(text for kind, text in parts if kind == "TextPart")
        assert grammar.answer.accepts(answer), generation.text
        num_thoughts += len(parts) > 1
    assert num_thoughts > 0


@pytest.mark.parametrize(("syntax", "vocabulary"), WAYS)
def test_masks_allow_what_is_accepted_and_come_back(syntax, vocabulary):
    """Token by token, and the same again after any number of tokens, the stop token too, was taken back."""
    grammar = answer_in(OBJECT, syntax, vocabulary)
    for seed in range(6):
        check_masks(grammar.matcher(), vocabulary, random.Random(seed), num_tokens=40, avoided=257)


def test_what_could_be_taken_for_a_thought_is_refused():
    compiled = compile_format(ResponseFormat("pattern", "<think>a|b"), tokenizer=THINKING)
    with pytest.raises(UnsupportedSchema, match="<think>"):
        link_format(compiled, find_syntax("hermes+think"), prepare(THINKING))
    assert link_format(compiled, find_syntax("hermes"), prepare(THINKING)) is compiled


def test_without_thoughts_or_frames_an_answer_is_itself():
    compiled = compile_format(WORDS)
    for name in ("hermes", "hermes+think"):  # whose thoughts need markers
        assert link_format(compiled, find_syntax(name), prepare(BYTES)) is compiled


def test_digests_tell_formats_and_syntaxes_apart():
    digests = {answer_in(f, s, v).digest for f in (WORDS, OBJECT) for s, v in WAYS}
    assert len(digests) == 8
