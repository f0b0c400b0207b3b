"""The closer: whatever is drawn, from the smallest budget on, the output is complete and valid."""

import json
import random
import tracemalloc
from functools import cache
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from random_decoding import Generation, allowed_ids
from soundness.judges import Judges
from vocabularies import BYTES, named_vocabulary
from whole_outputs import parse_calls

from compiler import compile_schema, compile_toolset
from compiler.closing import closer as closing
from compiler.errors import UnsupportedGrammar
from compiler.linker.linker import LinkedGrammar
from compiler.recogniser.recogniser import Recogniser
from compiler.response_format import ResponseFormat, compile_format
from compiler.syntaxes import SYNTAXES
from compiler.vocabulary import Vocabulary
from toolspecs.tool import Tool

SCHEMAS = [
    True,
    {"type": "number", "minimum": -3},
    {"type": "array", "items": {"type": "array", "items": {"type": "string"}}, "minItems": 3},
    {"enum": ["größer", "groß", "a long one that takes many tokens", "😀"]},
    {
        "type": "object",
        "properties": {
            "id": {"type": "string", "format": "uuid"},
            "next": {"$ref": "#"},
            "tags": {"type": "array", "items": {"type": "string", "minLength": 5}, "minItems": 2},
        },
        "required": ["id"],
        "additionalProperties": {"type": "object", "required": ["long_key", "longer_key"]},
    },
    {
        "anyOf": [
            {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]},
            {
                "type": "object",
                "properties": {"k": {"const": "x"}, "l": {"enum": ["a" * 40, "b" * 30]}},
                "required": ["k", "l"],
            },
        ]
    },
    {
        "type": "array",
        "items": {"type": "integer", "multipleOf": 3600, "exclusiveMaximum": -1},
        "minItems": 2,
    },
]

TOOLS = [
    Tool("weather", "", {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}),
    Tool("weather_by_id", "", {"properties": {"id": SCHEMAS[4]}, "required": ["id"]}),
    Tool(
        "größe",
        "",
        {
            "properties": {"größe": {"enum": ["kleín }", "groß"]}, "n": {"type": "array", "minItems": 2}},
            "required": ["größe", "n"],
        },
    ),
    Tool(
        "note",
        "",
        {
            "properties": {
                "text": {"type": ["string", "null"]},
                "tag": {"enum": ["<a>", "b", 3]},
                "any": {"minLength": 2},
            },
            "required": ["text", "any"],
        },
    ),
    Tool("now", "", {}),
]


@pytest.fixture(scope="session")
def qwen() -> Vocabulary:
    return named_vocabulary("qwen3")


@cache
def _schema(number: int, vocabulary: Vocabulary):
    return compile_schema(SCHEMAS[number], tokenizer=vocabulary)


@cache
def _toolset(syntax: str, mode: str, vocabulary: Vocabulary, *, parallel: bool = True) -> LinkedGrammar:
    return compile_toolset(TOOLS, tokenizer=vocabulary, syntax=syntax, tool_choice=mode, parallel=parallel)


def _check(generation: Generation, budget: int) -> None:
    assert len(generation.ids) <= budget
    assert generation.early is None or generation.early >= 0
    assert generation.matcher.is_completed()
    assert generation.closer.completion_ids(0) == []


def _check_calls(text: str, grammar: LinkedGrammar) -> str:
    """The calls of an output are tools' with valid arguments, and there are some; what is no call."""
    prose, calls = parse_calls(text, grammar.syntax, lambda name: grammar.units[name].types)
    assert calls
    for name, arguments in calls:
        tool = next(t for t in TOOLS if t.name == name)
        Draft202012Validator(tool.parameters).validate(json.loads(arguments))
    return prose


@settings(max_examples=150)
@given(st.integers(0, len(SCHEMAS) - 1), st.integers(0, 40), st.integers(0, 2**32))
def test_a_json_text_is_complete_within_any_budget(number, extra, seed):
    compiled = _schema(number, BYTES)
    budget = compiled.closer().minimum() + extra
    generation = Generation(compiled, budget, random.Random(seed))
    _check(generation, budget)
    Draft202012Validator(SCHEMAS[number]).validate(json.loads(generation.text))


@settings(max_examples=100)
@given(
    st.sampled_from(sorted(SYNTAXES)),
    st.booleans(),
    st.integers(0, 80),
    st.integers(0, 2**32),
)
def test_calls_are_complete_within_any_budget(syntax, parallel, extra, seed):
    grammar = _toolset(syntax, "required", BYTES, parallel=parallel)
    budget = grammar.closer().minimum() + extra
    generation = Generation(grammar, budget, random.Random(seed))
    _check(generation, budget)
    prose = _check_calls(generation.text, grammar)
    assert SYNTAXES[syntax].messages or not prose


@pytest.mark.parametrize("syntax", sorted(SYNTAXES))
@pytest.mark.parametrize("mode", ["required", "auto"])
@pytest.mark.parametrize(("num_bytes", "num_attempts"), [(0, 0), (150, 2_000), (1 << 18, 2)])
def test_calls_are_complete_however_little_may_be_looked_for(
    syntax, mode, num_bytes, num_attempts, monkeypatch
):
    """What is not looked for is taken not to fit; what was found before is still known."""
    grammar = _toolset(syntax, mode, BYTES)
    monkeypatch.setattr(closing, "_BYTES_WRITING", num_bytes)
    monkeypatch.setattr(closing, "_ATTEMPTS_WRITING", num_attempts)
    minimum = grammar.closer().minimum()
    for seed in range(12):
        budget = minimum + (0, 3, 20, 80)[seed % 4]
        generation = Generation(grammar, budget, random.Random(seed))
        _check(generation, budget)
        if mode == "required":
            _check_calls(generation.text, grammar)


@pytest.mark.parametrize("syntax", ["hermes", "json", "deepseek_v3", "qwen3_coder", "harmony", "glm_4_7"])
def test_in_a_real_vocabulary(syntax, qwen):
    grammar, rng = _toolset(syntax, "required", qwen), random.Random(syntax)
    minimum = grammar.closer().minimum()
    early = []
    for extra in (0, 1, 2, 3, 5, 8, 11, 40, 80):
        generation = Generation(grammar, minimum + extra, rng)
        _check(generation, minimum + extra)
        _check_calls(generation.text, grammar)
        early += [] if generation.early is None else [generation.early]
    assert median(early) <= 8


@pytest.mark.parametrize("mode", ["required", "auto"])
def test_a_thought_is_ended_in_time(mode, qwen):
    grammar, rng = _toolset("hermes+think", mode, qwen), random.Random(mode)
    shortest = grammar.closer().minimum()
    assert grammar.closer(is_thinking=True).minimum() == shortest + 1
    for budget in [*range(shortest + 2, shortest + 12), shortest + 40]:
        generation = Generation(grammar, budget, rng, lead="<think>")
        _check(generation, budget)
        assert generation.text.startswith("<think>")
        if mode == "required":
            _check_calls(generation.text, grammar)


def test_a_framed_thought_is_begun_where_it_can_be_ended():
    """No message but a thought begins as this one does, and the call comes after it."""
    grammar, lead = _toolset("harmony", "required", BYTES), "<|channel|>analysis<|message|>So"
    shortest = grammar.closer().minimum()
    for budget in range(shortest + 57, shortest + 70):
        generation = Generation(grammar, budget, random.Random(budget), lead)
        _check(generation, budget)
        assert generation.text.startswith(lead)
        _check_calls(generation.text, grammar)


@pytest.mark.parametrize("number", range(len(SCHEMAS)))
def test_a_json_text_in_a_real_vocabulary(number, qwen):
    compiled, rng = _schema(number, qwen), random.Random(number)
    minimum = compiled.closer().minimum()
    for extra in [0, 1, 2, 3, 5, 10, 20, 40]:
        generation = Generation(compiled, minimum + extra, rng)
        _check(generation, minimum + extra)
        Draft202012Validator(SCHEMAS[number]).validate(json.loads(generation.text))


@pytest.mark.parametrize("syntax", ["hermes", "json", "llama3", "qwen3_coder", "mistral_v13"])
def test_a_call_in_text_is_begun_only_if_it_can_be_completed(syntax, qwen):
    grammar, row = _toolset(syntax, "auto", qwen), SYNTAXES[syntax]
    assert grammar.closer().minimum() == 0
    lead = row.opening + row.begin
    shortest = _toolset(syntax, "required", qwen).closer().minimum()
    num_calls = 0
    for budget in [1, 2, 3, *range(shortest - 2, shortest + 6), shortest + 30]:
        generation = Generation(grammar, budget, random.Random(budget), lead)
        _check(generation, budget)
        if lead in generation.text:
            num_calls += 1
            _check_calls(generation.text, grammar)
    assert num_calls >= 3


@settings(max_examples=60)
@given(
    st.sampled_from(["hermes", "json", "qwen3_coder", "glm_4_7"]), st.integers(60, 400), st.integers(0, 2**32)
)
def test_a_token_is_admitted_where_the_shortest_completion_after_it_fits(syntax, budget, seed):
    """What the bound on completions answers is what counting the shortest one answers."""
    grammar, rng = _toolset(syntax, "required", BYTES), random.Random(seed)
    matcher, closer, counting = grammar.matcher(), grammar.closer(), grammar.closer()
    for remaining in range(budget, 0, -1):
        token_id = int(rng.choice(allowed_ids(matcher, BYTES)))
        if token_id in BYTES.stop_ids:
            return
        ahead = counting.fork()
        ahead.accepted(token_id)
        fits = ahead.minimum() <= remaining - 1
        assert closer.admits(token_id, remaining) == fits
        if not fits:
            assert len(closer.completion_ids(remaining)) <= remaining
            return
        matcher.accept(token_id)
        closer.accepted(token_id)
        counting = ahead


@pytest.mark.parametrize(
    ("output", "closing"),
    [
        ("", '[{"name": "now", "arguments": {}}]'),
        ('[{"name": "weather", "arguments": {"city": "xxxxxxxx', '"}}]'),
        ('[{"name": "w', 'eather", "arguments": {}}]'),
        (
            '[{"name": "weather_',
            'by_id", "arguments": {"id": {"id": "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"}}}]',
        ),
        ('[{"name": "weather", "arguments": {"days": -', "1}}]"),
        ('[{"name": "now", "arguments": {}', "}]"),
        ('[{"name": "now", "arguments": {}}', "]"),
        ('[{"name": "now", "arguments": {}},', ' {"name": "now", "arguments": {}}]'),
        ('[{"name": "now", "arguments": {}}]', ""),
    ],
)
def test_the_shortest_way_out(output, closing):
    closer = _toolset("json", "required", BYTES).closer()
    for byte in output.encode():
        assert closer.admits(byte, 10_000)
        closer.accepted(byte)
    assert bytes(closer.completion_ids(closer.minimum())).decode() == closing
    assert closer.minimum() == len(closing)
    assert not closer.fits(len(closing) - 1)
    assert closer.fits(len(closing))


def test_a_character_begun_is_finished():
    closer = _schema(3, BYTES).closer()
    for byte in '"😀'.encode()[:2]:
        assert closer.admits(byte, 9)
        closer.accepted(byte)
    assert bytes(closer.completion_ids(closer.minimum())) == '"😀"'.encode()[2:]


@pytest.mark.parametrize("written", ['[{"', '[{"":"', '[{"a":"b"},{"a'])
@pytest.mark.parametrize("num_items", [4, 5])
def test_the_mark_of_a_key_is_never_written(written, num_items):
    """Only grammars read it: after the mark, the guard would see none of the repetitions that follow."""
    items = {"type": "object", "additionalProperties": {"type": "string"}}
    schema = {"type": "array", "uniqueItems": True, "minItems": num_items, "items": items}
    closer = compile_schema(schema).closer()
    for at, byte in enumerate(written.encode()):
        assert closer.admits(byte, 500 - at)
        closer.accepted(byte)
    text = written.encode() + bytes(closer.completion_ids(closer.minimum()))
    assert Judges(schema).faults(text) == []
    assert len(json.loads(text)) == num_items


def test_no_budget_is_too_small_for_no_call():
    closer = _toolset("json", "none", BYTES).closer()
    assert closer.fits(0)
    assert closer.admits(ord("x"), 1)
    assert closer.admits(BYTES.stop_ids[0], 1)


def test_a_vocabulary_that_cannot_spell_the_end_is_refused():
    tokens = [b"" if byte == ord("}") else bytes([byte]) for byte in range(256)]
    vocabulary = Vocabulary.from_tokens([*tokens, b""], stop_ids=[256])
    compiled = compile_schema({"type": "object"}, tokenizer=vocabulary)
    closer = compiled.closer()
    assert not closer.fits(10**6)
    with pytest.raises(UnsupportedGrammar, match="spell"):
        closer.completion_ids(10**6)


def test_a_completion_that_cannot_fit_is_refused_without_counting():
    """A long shortest text costs a few hundred steps of the budget that it does not fit, not its square."""
    closer = compile_schema({"type": "string", "minLength": 32_000}).closer()
    tracemalloc.start()
    try:
        assert not closer.fits(100)
        assert closer.minimum() == 32_002  # a lower bound, which in the vocabulary of bytes is exact
        assert not closer.fits(32_001)
        assert closer.fits(32_002)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * 2**20


def test_a_huge_minimum_under_a_guard_is_not_spelled(monkeypatch):
    """Not even where no completion fits: its bytes are known without it."""
    string = {"type": "string", "minLength": 32_000, "maxLength": 32_700}
    closer = compile_schema({"type": "array", "items": string, "minItems": 64}).closer()

    def spelled(_):
        raise AssertionError("the completion was spelled")

    monkeypatch.setattr(Recogniser, "completion", spelled)
    assert not closer.fits(100)
    assert 0.99 * 64 * 32_003 < closer.minimum() <= 64 * 32_003 + 1


@pytest.mark.parametrize(
    "grammar",
    [
        "root ::= x root | x\nx ::= [a-z]+\n",
        "root ::= x y root | y\nx ::= [a-z]*\ny ::= [a-z]+\n",
    ],
)
def test_a_grammar_with_ever_more_derivations_is_followed_in_bounded_memory(grammar):
    compiled = compile_format(ResponseFormat("grammar", grammar))
    closer, matcher, recogniser = compiled.closer(), compiled.matcher(), Recogniser.of(compiled.network)
    sizes = []
    for _ in range(400):
        assert matcher.accept(ord("a"))
        assert closer.admits(ord("a"), 1000)
        closer.accepted(ord("a"))
        assert recogniser.advance(b"a")
        sizes.append(len(recogniser.state.live))
    assert max(sizes) == max(sizes[:100]) < 50
    assert all(map(matcher.accept, closer.completion_ids(4)))
    assert matcher.is_completed()


def test_wide_choices_are_followed_whole():
    """What tells the alternatives apart comes last, and each is a rule of its own."""
    schemas = [
        {
            "type": "object",
            "properties": {"text": {"type": "string"}, f"only{i}": {"const": i}},
            "required": ["text", f"only{i}"],
            "additionalProperties": False,
        }
        for i in range(60)
    ]
    compiled = compile_schema({"anyOf": schemas})
    for i in (0, 31, 59):
        closer = compiled.closer()
        for byte in f'{{"text": "abc", "only{i}": {i}'.encode():
            assert closer.admits(byte, 100)
            closer.accepted(byte)
        assert bytes(closer.completion_ids(1)) == b"}"
