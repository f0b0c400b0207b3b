"""The grammar of an output's rest, in GBNF: what the matcher allows at a place is what that grammar begins with."""

import random

import pytest
import xgrammar as xgr
from gbnf_matcher import GbnfMatcher
from linked import AUTO, MARKED, REQUIRED, linked, written
from monolith import TOOLS
from random_decoding import allowed_ids, decode_randomly
from vocabularies import BYTES, ids_of, with_tokens

from compiler.grammar.gbnf import MAX_COUNT, to_gbnf, token_choice
from compiler.grammar.grammar import CharClass, Grammar, Literal, Prose, Repeat, Rule, RuleRef, concat
from compiler.prepared_vocabulary import prepare
from compiler.schema import compile_schema
from compiler.syntaxes import SYNTAXES, find_syntax
from compiler.toolset_compiler import compile_toolset
from compiler.units.compiled_grammar import GuardedMatcher
from toolspecs.tool import Tool, ToolChoice

THINKING = find_syntax("hermes+think")
MARKED_THOUGHTS = with_tokens(markers=("<tool_call>", "</tool_call>", "<think>", "</think>"))


def rest_after(grammar, token_ids, *, is_thinking=False):
    """The matcher and the grammar of the rest after some tokens, as an engine reads it."""
    matcher, closer = grammar.matcher(is_thinking=is_thinking), grammar.closer(is_thinking=is_thinking)
    for token_id in token_ids:
        assert matcher.accept(token_id)
        closer.accepted(token_id)
    rest = closer.rest_grammar()
    prepared = grammar.prepared
    return matcher, None if rest is None else GbnfMatcher(to_gbnf(rest, prepared.vocabulary), prepared)


def is_inside_character(grammar, token_ids):
    text = b"".join(grammar.prepared.vocabulary.tokens[i] for i in token_ids)
    return "\ufffd" in text.decode(errors="replace")


NO_CHARACTER = {*range(0x80, 0xC2), *range(0xF5, 0x100)}
"""Bytes that begin no character: ours allows them in text, and engines that read characters do not."""


def ids_allowed(matcher, grammar):
    allowed = set(allowed_ids(matcher, grammar.prepared.vocabulary)) - set(
        grammar.prepared.vocabulary.stop_ids
    )
    return allowed - NO_CHARACTER if 0 in allowed else allowed


def assert_same_masks(grammar, token_ids, *, every=1, is_thinking=False, is_wider=False):
    """After `every` beginning of an output, and three tokens on, an engine's masks are those of our matcher."""
    for start in range(0, len(token_ids) + 1, every):
        matcher, engine = rest_after(grammar, token_ids[:start], is_thinking=is_thinking)
        if engine is None:
            assert is_inside_character(grammar, token_ids[:start])
            continue
        for end in range(start, min(start + 4, len(token_ids) + 1)):
            if end > start:
                assert matcher.accept(token_ids[end - 1])
                assert engine.accept(token_ids[end - 1])
            if is_inside_character(grammar, token_ids[:end]):
                continue
            ours, theirs = ids_allowed(matcher, grammar), ids_allowed_by(engine, grammar)
            assert ours <= theirs
            assert is_wider or ours == theirs
            assert engine.is_completed() == matcher.is_completed()


def ids_allowed_by(engine, grammar):
    try:
        return ids_allowed(engine, grammar)
    except AssertionError:  # an empty mask: nothing follows
        return set()


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("vocabulary", [BYTES, MARKED])
def test_the_rest_of_a_call_is_what_its_matcher_allows(name, vocabulary):
    grammar = linked(ToolChoice.named(name), vocabulary=vocabulary, parallel=False, names=(name,))
    assert_same_masks(grammar, ids_of(written(name), vocabulary))


@pytest.mark.parametrize("syntax", sorted(set(SYNTAXES) - {"harmony"}))
def test_the_rest_of_a_call_in_every_syntax(syntax):
    """Strings without quotes contain no tag; after the beginning of one, the rest forgets that it was there."""
    row = SYNTAXES[syntax]
    grammar = linked(ToolChoice.named("pay"), syntax=row, parallel=False, names=("pay",))
    assert_same_masks(grammar, ids_of(written("pay", syntax=row)), every=3, is_wider=row.tags is not None)


@pytest.mark.parametrize("choice", [REQUIRED, AUTO])
def test_where_tools_can_be_chosen_the_rest_ends_behind_the_header(choice):
    grammar = linked(choice, vocabulary=MARKED)
    said = "" if choice is REQUIRED else "Hello "
    header = said + '<tool_call>\n{"name": "pay_all", "arguments": '
    _, engine = rest_after(grammar, ids_of(said, MARKED))
    assert all(map(engine.accept, ids_of(header.removeprefix(said), MARKED)))
    assert engine.is_completed()
    assert not ids_allowed_by(engine, grammar)


def test_text_begins_no_call_but_with_the_trigger():
    grammar = linked(AUTO)
    for text in ("Hello <tool", "<tool<tool_"):
        _, engine = rest_after(grammar, ids_of(text))
        assert engine.is_completed()
    _, engine = rest_after(grammar, [])
    assert all(map(engine.accept, b"Hello <tool_call>\n"))
    assert ids_allowed_by(engine, grammar) == {ord("{")}


def test_behind_a_call_comes_another_or_the_end():
    grammar = linked(REQUIRED)
    _, engine = rest_after(grammar, ids_of(written("pay")))
    assert engine.is_completed()
    assert all(map(engine.accept, ids_of('\n<tool_call>\n{"name": "p", "arguments": ')))
    assert engine.is_completed()


def test_a_thought_goes_before_the_call():
    grammar = linked(
        ToolChoice.named("p"), vocabulary=MARKED_THOUGHTS, syntax=THINKING, parallel=False, names=("p",)
    )
    output = ids_of("a < b</think>" + written("p"), MARKED_THOUGHTS)
    assert_same_masks(grammar, output, is_thinking=True, is_wider=True)
    assert_same_masks(grammar, ids_of("<think>", MARKED_THOUGHTS) + output, is_wider=True)


SCHEMAS = {
    "nested": {
        "properties": {"a": {"type": "array", "items": {"$ref": "#"}}, "b": {"type": ["number", "null"]}},
        "required": ["b"],
    },
    "pattern": {"properties": {"p": {"pattern": "^[a-f0-9]{8}(-[a-f0-9]{4}){3}$"}}},
    "unicode": {"properties": {"größe": {"enum": ["öl", "ön", "日本", "日光"]}}, "required": ["größe"]},
    "any": {},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_rest_of_an_answer_is_what_its_matcher_allows(name):
    compiled = compile_schema(SCHEMAS[name])
    rng = random.Random(1)
    for _ in range(4):
        text = decode_randomly(compiled.matcher(), compiled.vocabulary, rng, max_tokens=30)
        if text is not None:
            assert_same_masks(compiled, list(text), is_wider=compiled.guard is not None)


GUARDED = {
    "type": "object",
    "properties": {
        "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True},
        "line": {"type": "string", "maxLength": 300, "pattern": "^([a-z]+ ?)*$"},
    },
    "required": ["tags", "line"],
    "additionalProperties": {"type": "integer"},
}


def test_what_a_guard_forbids_the_rest_allows():
    grammar = compile_toolset([Tool("t", "", GUARDED)], parallel=False)
    rng = random.Random(2)
    for _ in range(3):
        text = decode_randomly(grammar.matcher(), grammar.vocabulary, rng, max_tokens=60)
        if text is not None:
            assert_same_masks(grammar, list(text), is_wider=True)
    start = b'<tool_call>\n{"name": "t", "arguments": {"tags": ["a", "'
    matcher, engine = rest_after(grammar, start)
    assert not matcher.accept(ord("a"))
    assert engine.accept(ord("a"))


def test_large_counts_become_any_number():
    digits = CharClass.of((0x30, 0x39))
    for low, high, written_count in (
        (0, MAX_COUNT, "{0,100}"),
        (3, 101, "{3,}"),
        (500, 500, "{100,}"),
        (0, 101, "*"),
    ):
        grammar = Grammar({"root": Rule(Repeat(digits, low, high))})
        assert to_gbnf(grammar, BYTES) == f"root ::= [0-9]{written_count}\n"


def test_prose_contains_none_of_its_texts():
    rules = {"root": Rule(concat(RuleRef("a_text"), RuleRef("end"))), "a_text": Rule(Prose(("aab", "c-")))}
    gbnf = to_gbnf(Grammar({**rules, "end": Rule(Literal("!"))}), BYTES)
    for text, expected in (
        ("aaa!", True),
        ("aac!", True),
        ("aab", False),
        ("caaab", False),
        ("c-", False),
        ("-c!", True),
    ):
        matcher = GbnfMatcher(gbnf, prepare(BYTES))
        assert all(map(matcher.accept, text.encode())) is expected


def test_one_token_of_some():
    matcher = GbnfMatcher(token_choice([260, 257]), prepare(MARKED))
    assert matcher.accept(260)
    assert matcher.is_completed()


@pytest.mark.parametrize("text", ["Straße", "éa", "\x1f0", "日e"])
def test_a_digit_behind_an_escape_is_no_part_of_it(text):
    """It would be in xgrammar 0.2.8, which writes the rules out and reads them again."""
    grammar = Grammar({"root": Rule(Literal(text))})
    compiled = prepare(BYTES).backend.compile_grammar(grammar)
    matcher = GuardedMatcher(xgr.GrammarMatcher(compiled), None, BYTES)
    assert matcher.read(text.encode())
    assert matcher.is_completed()
