"""What a guard keeps for rollbacks grows with the text, and forked matchers do not see each other's texts."""

import tracemalloc
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vocabularies import with_tokens

from compiler import compile_schema, compile_toolset
from compiler.compiled_format import CompiledFormat
from compiler.guard.growing_text import GrowingText
from compiler.linker.linker import LinkedGrammar
from compiler.matcher import Matcher
from toolspecs.tool import ChoiceMode, Tool, ToolChoice

VOCABULARY = with_tokens("word" * 12, "\n" * 48, markers=("<think>", "</think>"))
WORD, LINES = VOCABULARY.width - 2, VOCABULARY.width - 1
OPEN = {"type": "object"}
MARKED = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": True}
STRINGS = {"type": "array", "uniqueItems": True, "items": {"type": "string"}}
ARRAYS = {"type": "array", "uniqueItems": True, "items": {"type": "array", "items": {"type": "string"}}}
NESTED = {"type": "array", "uniqueItems": True, "items": {"$ref": "#"}}
NESTED_ITEMS = {
    "type": "array",
    "uniqueItems": True,
    "items": {"$ref": "#/$defs/item"},
    "$defs": {"item": {"type": "array", "items": {"$ref": "#/$defs/item"}}},
}


LONG = {
    "key": (OPEN, b'{"', [WORD]),
    "key beside a declared one": (MARKED, b'{"a": 1, "', [WORD]),
    "key of a tag": ("qwen3_coder", b"<tool_call>\n<function=f>\n<parameter=", [WORD]),
    "string": (STRINGS, b'["', [WORD]),
    "second string": (STRINGS, b'["a", "', [WORD]),
    "string in an array": (ARRAYS, b'[["a", "', [WORD]),
    "array": (ARRAYS, b"[[", b'"a",'),
    "nested arrays": (NESTED, b"", b"["),
    "line breaks": ("hermes+think", b"", [LINES]),
}


def compiled(subject: Any) -> CompiledFormat | LinkedGrammar:
    """A schema; or, in a syntax, a tool with a parameter that has a long name."""
    if not isinstance(subject, str):
        return compile_schema(subject, tokenizer=VOCABULARY)
    name, choice = "word" * 6_000, ChoiceMode.AUTO if "think" in subject else ChoiceMode.REQUIRED
    tools = [Tool("f", "", {"type": "object", "properties": {name: STRINGS}, "required": [name]})]
    return compile_toolset(tools, tokenizer=VOCABULARY, syntax=subject, tool_choice=ToolChoice(choice))


def held_bytes(matcher: Matcher, token_ids: Iterable[int]) -> int:
    """What a matcher holds more in Python's memory once it has accepted some tokens."""
    tracemalloc.start()
    assert all(map(matcher.accept, token_ids))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return held


def num_accepted(matcher: Matcher, token_ids: Iterable[int]) -> int:
    """How many of some tokens a matcher accepts; no change."""
    number = 0
    for token_id in token_ids:
        if not matcher.accept(token_id):
            break
        number += 1
    matcher.rollback(number)
    return number


@pytest.mark.parametrize("name", LONG)
def test_a_text_takes_memory_as_it_is_long(name):
    """With a copy of all that was written in each state, a key of 30,000 tokens would take 1.8 GB."""
    subject, begin, piece = LONG[name]
    grammar = compiled(subject)
    held_bytes(grammar.matcher(), [*begin, *piece])  # what is made once
    once, twice = (held_bytes(grammar.matcher(), [*begin, *piece * number]) for number in (200, 400))
    assert twice < 2.7 * once


def test_arrays_that_close_inside_a_distinct_item_share_its_text():
    """Each array that closes is a part of the text of the item, and not a text of its own."""
    grammar = compiled(NESTED_ITEMS)
    once, twice = (
        held_bytes(grammar.matcher(), b"[" * depth + b"]" * (depth - 1)) for depth in (1_000, 2_000)
    )
    assert twice < 2.7 * once


def test_drafts_that_are_rolled_back_take_no_memory():
    """With a copy of all items before each, 4,000 such drafts would take 340 MB."""
    grammar = compiled(STRINGS)

    def held_after(num_items: int) -> int:
        matcher = grammar.matcher()
        tracemalloc.start()
        assert matcher.accept(ord("["))
        for number in range(num_items):
            draft = b'"d%d","e%d",' % (number, number)
            assert num_accepted(matcher, draft) == len(draft)
            assert all(map(matcher.accept, b'"%05d",' % number))
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return held

    assert held_after(200) < 2.7 * held_after(100)


def test_forked_matchers_that_go_on_differently_do_not_see_each_other():
    first = compiled(OPEN).matcher()
    assert all(map(first.accept, [*b'{"', *[WORD] * 20]))
    second = first.fork()
    own = {b"a": first, b"b": second, b"": second.fork()}
    for end, matcher in own.items():
        assert all(map(matcher.accept, [*end, *b'":1,"', *[WORD] * 20]))
    for end, matcher in own.items():
        for other in own:
            rest = other + b'":2'
            assert (num_accepted(matcher, rest) < len(rest)) == (other == end)


def test_a_matcher_that_is_rolled_back_knows_what_it_knew():
    matcher = compiled(ARRAYS).matcher()
    assert all(map(matcher.accept, b'[["'))
    for end in (b'x","y"]', b'y"]'):
        assert all(map(matcher.accept, [WORD, *end, ord(",")]))
        for other in (b'x","y"]', b'y"]'):
            again = [*b'["', WORD, *other]
            assert (num_accepted(matcher, again) < len(again)) == (other == end)
        matcher.rollback(len(end) + 2)


def test_line_breaks_before_no_thought_are_text():
    matcher = compiled("hermes+think").matcher()
    assert all(map(matcher.accept, [ord("\n"), LINES, ord("\n")]))
    assert [part.text for part in matcher.pending_parts()] == [b"\n" * 50]
    assert matcher.accept(ord("a"))
    assert b"".join(part.text for part in matcher.parts()) == b"\n" * 50 + b"a"
    matcher.rollback(2)
    assert matcher.accept(ord("b"))
    assert b"".join(part.text for part in matcher.parts()) == b"\n" * 49 + b"b"


@given(
    st.lists(st.tuples(st.integers(0, 20), st.binary(max_size=40)), max_size=20),
    st.binary(max_size=3),
    st.integers(0, 30),
)
def test_a_growing_text_is_the_bytes_that_were_added(steps, other, begin):
    """Texts grow from any earlier one, as after a rollback."""
    texts = [(GrowingText(), b"")]
    for number, more in steps:
        text, expected = texts[number % len(texts)]
        texts.append((text + more, expected + more))
    for text, expected in texts:
        assert bytes(text) == expected
        assert len(text) == len(expected)
        assert text.since(begin) == expected[begin:]
        for part in (other, expected[:begin], expected[begin:], expected + b"x"):
            assert text.startswith(part) == expected.startswith(part)
            assert text.endswith(part) == expected.endswith(part)
            assert text.endswith(part, begin) == expected.endswith(part, begin)
        for another, expected_of_it in texts:
            assert (text == another) == (expected == expected_of_it)
        assert hash(text) == hash(GrowingText() + expected)
        assert text == GrowingText() + expected
        assert text != expected
