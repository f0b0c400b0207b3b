"""Outputs that are calls, or an answer in a format."""

import json
import random

import pytest
from linked import AUTO, HERMES, REQUIRED, accepts, linked, written
from output_reader import OutputReader, read_parts
from random_decoding import Generation, check_masks
from vocabularies import BYTES, ids_of, with_tokens

from compiler import ResponseFormat, UnsupportedSchema, compile_format
from compiler.syntaxes import find_syntax

PIECES = ("<tool", '<tool_call>\n{"', '"<tool_call>', '{"', '[{"', "</", "ab", "<b", "[TOOL_CALLS]")
MARKERS = (
    "<tool_call>", "</tool_call>", "<think>", "</think>", "[TOOL_CALLS]", "[ARGS]",
    "<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<|constrain|>",
)  # fmt: skip
PLAIN = with_tokens(*PIECES)
MARKED = with_tokens(*PIECES[:-1], markers=MARKERS)
OBJECT = ResponseFormat(
    "schema", {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
)
BEGINNING_ALIKE = ResponseFormat("pattern", "<(?:tool|b)(?: a)*")
WAYS = [
    ("hermes", PLAIN),
    ("hermes", MARKED),
    ("hermes+think", MARKED),
    ("llama3", PLAIN),
    ("mistral", PLAIN),
    ("mistral_v13", MARKED),
    ("qwen3_coder", PLAIN),
    ("json", PLAIN),
    ("harmony", MARKED),
]


def answer_in(response_format, vocabulary=BYTES):
    return compile_format(response_format, tokenizer=vocabulary)


def forked(response_format, syntax, vocabulary, names=("pay", "p")):
    answer = answer_in(response_format, vocabulary)
    return linked(AUTO, vocabulary=vocabulary, syntax=find_syntax(syntax), names=names, answer=answer)


@pytest.mark.parametrize(
    ("text", "is_of"),
    [
        (written("pay"), True),
        (written("pay", "p"), True),
        ('{"a": "x"}', True),
        ('{"a": "<tool_call>"}', True),
        ("", False),
        ("Hello.", False),
        (f"Hello. {written('pay')}", False),
        (f'{{"a": "x"}}{written("pay")}', False),
        (f'{written("pay")}{{"a": "x"}}', False),
    ],
)
def test_calls_or_an_answer_and_nothing_else(text, is_of):
    assert accepts(forked(OBJECT, "hermes", BYTES), ids_of(text)) is is_of


def test_what_both_begin_with_leads_to_either():
    grammar = forked(BEGINNING_ALIKE, "hermes", BYTES)
    for text in ("<tool", "<tool a", "<b", written("p")):
        assert accepts(grammar, ids_of(text)), text
    for text in ("<", "<t", "<tool_", "<b_call>"):
        assert not accepts(grammar, ids_of(text)), text


@pytest.mark.parametrize(("syntax", "vocabulary"), WAYS)
@pytest.mark.parametrize("response_format", [OBJECT, BEGINNING_ALIKE], ids=["object", "alike"])
def test_masks_allow_what_is_accepted_and_come_back(response_format, syntax, vocabulary):
    """Token by token, and the same again after any number of tokens, the stop token too, was taken back."""
    grammar = forked(response_format, syntax, vocabulary)
    for seed in range(6):
        check_masks(grammar.matcher(), vocabulary, random.Random(seed), num_tokens=12)


@pytest.mark.parametrize(("syntax", "vocabulary"), WAYS)
@pytest.mark.parametrize("response_format", [OBJECT, BEGINNING_ALIKE], ids=["object", "alike"])
def test_whatever_is_drawn_reads_as_calls_or_as_an_answer(response_format, syntax, vocabulary):
    """At any budget from the smallest on."""
    grammar = forked(response_format, syntax, vocabulary)
    minimum = grammar.closer().minimum()
    assert not grammar.closer().fits(minimum - 1)
    kinds = set()
    for seed in range(30):
        budget = minimum + (seed if seed < 15 else 5 * seed)
        generation = Generation(grammar, budget, random.Random(seed))
        assert len(generation.ids) <= budget
        assert generation.matcher.is_completed()
        parts = read_parts(grammar, generation.text, lambda name: grammar.units[name].types)
        calls = [name for kind, name in parts if kind == "CallStart"]
        answer = "".join(text for kind, text in parts if kind == "TextPart")
        kinds.add(bool(calls))
        if calls:
            assert set(calls) <= {"pay", "p"}
            assert parts.count(("CallEnd", None)) == len(calls)
            assert not answer.strip()
        else:
            assert grammar.answer.accepts(answer), generation.text
    assert kinds == {True, False}


@pytest.mark.parametrize(
    ("syntax", "schema"),
    [
        ("llama3", {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}),
        ("json", {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "string"}}}),
    ],
)
def test_an_answer_that_begins_as_a_call_is_refused(syntax, schema):
    with pytest.raises(UnsupportedSchema, match="cannot be told from a call"):
        forked(ResponseFormat("schema", schema), syntax, BYTES)


def test_only_where_the_choice_is_left_there_is_an_answer():
    answer = answer_in(OBJECT)
    plain = linked(REQUIRED)
    assert linked(REQUIRED, answer=answer).digest == plain.digest
    assert not accepts(linked(REQUIRED, answer=answer), ids_of('{"a": "x"}'))
    digests = {linked(AUTO, answer=other).digest for other in (None, answer, answer_in(BEGINNING_ALIKE))}
    assert len(digests) == 3


def test_a_reader_tells_an_answer_that_holds_a_call_from_a_call():
    inside = json.dumps({"a": written("pay")})
    for text, is_call in ((inside, False), (written("pay"), True), ("<tool", False)):
        parts = OutputReader(text, HERMES, may_answer=True).read()
        assert (parts != [("TextPart", text)]) == is_call
