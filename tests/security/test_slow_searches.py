"""The search for what completes an output is bounded, and what it found is known as long as it is followed."""

import json
import random
from unittest.mock import patch

import numpy as np
import pytest

from compiler import compile_schema, compile_toolset
from compiler.cache_entry import CacheEntry
from compiler.closing import closer as closing
from compiler.closing.segmentation import Segmentation
from compiler.errors import MatchingTooSlow, UnsupportedGrammar, UnsupportedSchema
from compiler.guard import dead_ends
from compiler.guard.candidate_tokens import CandidateTokens
from compiler.guard.cursor import JsonCursor
from compiler.guard.seen_values import SeenValues
from compiler.matcher import allocate_bitmask
from compiler.prepared_vocabulary import prepare
from compiler.recogniser.guarded_completion import Attempt
from compiler.recogniser.parser_state import ParserState
from compiler.recogniser.recogniser import Recogniser
from compiler.recogniser.search_budget import SearchBudget
from compiler.syntaxes import find_syntax
from compiler.vocabulary import Vocabulary
from toolspecs.tool import Tool

VOCABULARY = prepare(Vocabulary.of_bytes())
INNER = {
    "type": "array",
    "uniqueItems": True,
    "maxItems": 4,
    "items": {"enum": [[], [[]], [[], []], [[[]]], {}]},
}
HARD = {"type": "array", "uniqueItems": True, "minItems": 60, "items": INNER}
"""So few distinct arrays of so few distinct values that a search for sixty of them would take hours."""


def test_the_search_for_a_completion_ends(monkeypatch):
    """Else two requests of 300 bytes would hold the threads that begin a client's answers for minutes."""
    closer = compile_schema(HARD, tokenizer=VOCABULARY).closer()
    monkeypatch.setattr(closer._budget, "num_left", 500)
    with pytest.raises(UnsupportedGrammar, match="no arguments or answer without repeated"):
        closer.minimum()


@pytest.mark.parametrize(
    ("before", "behind", "num_attempts"),
    [("", "", 264), ("x" * 500, "", 87), ([[]] * 50, "", 46), ("", "x" * 50_000, 70)],
)
def test_attempts_that_read_or_spell_more_count_more(before, behind, num_attempts):
    """Else each of 40,000 attempts could read 120 kB: a schema of 4 kB would hold a thread for a minute."""
    padded = {"properties": {"pad": {"const": before}, "of": INNER}, "required": ["pad", "of"]}
    hard = {**HARD, "items": {"type": "object", **padded, "additionalProperties": False}}
    schema = {"type": "array", "prefixItems": [hard, {"const": behind}], "minItems": 2}
    recogniser, budget = (
        Recogniser.of(compile_schema(schema, tokenizer=VOCABULARY).network),
        SearchBudget(300),
    )
    with patch.object(Attempt, "begun", autospec=True, side_effect=Attempt.begun) as begun:
        assert not list(recogniser.completions(budget))
    assert begun.call_count == pytest.approx(num_attempts, rel=0.3)


def test_an_answer_is_not_begun_where_its_end_would_take_long_to_find():
    """A search of 30,000 attempts would hold the engine, with the answers of all clients, for 7 s of a token."""
    compiled = compile_schema({"anyOf": [{"const": "a"}, HARD]}, tokenizer=VOCABULARY)
    closer = compiled.closer()
    assert closer.fits(400)
    with patch.object(Attempt, "begun", autospec=True, side_effect=Attempt.begun) as begun:
        assert not closer.admits(ord("["), 400)
    assert 1_000 < begun.call_count <= closing._ATTEMPTS_WRITING + 1
    assert bytes(closer.completion_ids(400)) == b'"a"'


def test_what_has_many_distinct_keys_can_always_be_ended():
    """Any completion fits the budget, but it has to be found when it is needed."""
    item = {"type": "object", "minProperties": 4, "additionalProperties": {"type": "integer"}}
    schema = {"type": "array", "minItems": 60, "maxItems": 62, "items": item}
    closer = compile_schema(schema, tokenizer=VOCABULARY).closer()
    remaining = closer.minimum() + 100
    assert closer.fits(remaining)
    for byte in b'[{"' + 200 * b"x":
        if not closer.admits(byte, remaining):
            break
        closer.accepted(byte)
        remaining -= 1
    assert len(closer.completion_ids(remaining)) <= remaining


def test_a_tool_of_which_no_call_is_found_is_refused(monkeypatch):
    """Else a model that begins to call it would have to call another one."""
    monkeypatch.setattr("compiler.cache_entry.SearchBudget", lambda: SearchBudget(100))
    tool = Tool("hard", "", {"type": "object", "properties": {"a": HARD}, "required": ["a"]})
    prepared = prepare(VOCABULARY)
    with pytest.raises(UnsupportedSchema, match="no text is found that has as many distinct"):
        CacheEntry.of_tool(tool, find_syntax("hermes"), prepared)


def test_a_tool_of_many_long_distinct_texts_is_taken():
    lines = {"type": "array", "items": {"type": "string", "minLength": 16, "maxLength": 24}}
    lines |= {"minItems": 60, "maxItems": 64, "uniqueItems": True}
    tool = Tool("long", "", {"type": "object", "properties": {"lines": lines}, "required": ["lines"]})
    entry = CacheEntry.of_tool(tool, find_syntax("hermes"), prepare(VOCABULARY))
    assert entry.compile_ms > 0


def test_what_completes_an_output_is_known_as_long_as_it_is_followed():
    """The search before the output is the long one. What it found is not searched for again at each token."""
    schema = {
        "type": "array",
        "uniqueItems": True,
        "minItems": 60,
        "items": {"enum": [f"k{number}" for number in range(60)]},
    }
    closer = compile_schema(schema, tokenizer=VOCABULARY).closer()
    assert closer.fits(400)
    with patch.object(Attempt, "begun", autospec=True, side_effect=Attempt.begun) as begun:
        for token_id in closer.completion_ids(400)[:-1]:
            assert closer.admits(token_id, 400)
            closer.accepted(token_id)
    assert not begun.called


def test_a_ranking_in_another_order_needs_no_search():
    """Of forty names, 2,000 attempts would find no end after the first letter."""
    values = [f"{first} {second} {third}" for first in "kilo" for second in "mike" for third in "lima"]
    schema = {"type": "array", "uniqueItems": True, "minItems": 64, "items": {"enum": values}}
    closer = compile_schema(schema, tokenizer=VOCABULARY).closer()
    assert closer.fits(2_000)
    ranking = random.Random(5).sample(values, 64)
    text = json.dumps(ranking, separators=(",", ":")).encode()
    with patch.object(Attempt, "begun", autospec=True, side_effect=Attempt.begun) as begun:
        for number, byte in enumerate(text):
            assert closer.admits(byte, 2_000 - number)
            closer.accepted(byte)
            if number % 100 == 50:
                whole = text[: number + 1] + bytes(closer.completion_ids(1_000))
                assert sorted(json.loads(whole)) == sorted(values)
    assert not begun.called


def test_other_objects_than_were_planned_need_no_search():
    """A blank before a text, or within an object, could cost 2,000 attempts."""
    row = {"name": {"type": "string"}, "quantity": {"type": "integer", "minimum": 1, "maximum": 99}}
    items = {"type": "object", "properties": row, "required": list(row), "additionalProperties": False}
    schema = {"type": "array", "uniqueItems": True, "minItems": 64, "items": items}
    closer = compile_schema(schema, tokenizer=VOCABULARY).closer()
    assert closer.fits(20_000)
    rows = [{"name": f"part {number}", "quantity": 99 - number} for number in range(64)]
    text = json.dumps(rows[:8]).encode()[:-1]
    with patch.object(Attempt, "begun", autospec=True, side_effect=Attempt.begun) as begun:
        for number, byte in enumerate(text):
            assert closer.admits(byte, 20_000 - number)
            closer.accepted(byte)
        whole = text + bytes(closer.completion_ids(20_000))
    assert not begun.called
    assert json.loads(whole)[:8] == rows[:8]
    assert len({json.dumps(row) for row in json.loads(whole)}) == 64


def test_an_exchanged_item_in_deeply_nested_arrays_takes_linear_time(monkeypatch):
    """To count all arrays around at each bracket would take half a second for a token inside of 800."""
    nested = {"anyOf": [{"type": "array", "uniqueItems": True, "items": {"$ref": "#"}}, {"enum": ["a", "b"]}]}
    recogniser = Recogniser.of(compile_schema(nested, tokenizer=VOCABULARY).network)
    assert recogniser.advance(b"[" * 300)
    assert list(recogniser.completions(SearchBudget())) == [b"]" * 300]
    assert recogniser.advance(b"[")
    visited, containers = [], JsonCursor.containers.fget

    def counted(cursor):
        for container in containers(cursor):
            visited.append(container)
            yield container

    monkeypatch.setattr(JsonCursor, "containers", property(counted))
    assert next(recogniser.completions(SearchBudget())) == b"]" * 301
    assert 0 < len(visited) < 20 * 300


@pytest.mark.parametrize("text", [{"minLength": 2_000}, {"minLength": 2_000, "pattern": "^[a-z]*$"}])
def test_deviations_from_a_long_text_are_made_when_they_are_tried(text):
    """To note all letters in the place of each of 2,000 would take 2.3 s for each token."""
    schema = {"type": "array", "uniqueItems": True, "minItems": 2, "items": {"type": "string", **text}}
    closer = compile_schema(schema, tokenizer=VOCABULARY).closer()
    with patch.object(Attempt, "__init__", autospec=True, side_effect=Attempt.__init__) as made:
        assert closer.minimum() == 4_007
    assert made.call_count < 100


def test_a_token_after_very_many_items_does_not_look_for_the_tokens_of_each():
    """To compare all of 800 with all would take the engine 8 ms for each item, and 2 s for the mask after."""
    values = [f"{first}{second}" for first in "abcdefghijkl" for second in "mnopqrstuvwx"]
    schema = {"type": "array", "uniqueItems": True, "items": {"enum": values}}
    matcher = compile_schema(schema, tokenizer=VOCABULARY).matcher()
    for byte in json.dumps(values[12:], separators=(",", ":"))[:-1].encode() + b",":
        assert matcher.accept(byte)
    with (
        patch.object(CandidateTokens, "_writing_part", autospec=True, return_value=()) as writing,
        patch.object(
            SeenValues, "beginning_with", autospec=True, side_effect=SeenValues.beginning_with
        ) as seen,
    ):
        assert matcher.accept(ord('"'))
    assert not writing.called
    assert seen.call_count < 10


def test_a_completion_with_very_many_marked_keys_is_read_once():
    """To spell the rest anew for each key would take 20 s for a token beside 1,000 keys."""
    keys = [f"k{number}" for number in range(60)]
    optional = {"type": "object", "properties": {key: {"type": "integer"} for key in keys}}
    required = {"type": "object", "properties": {key: {"type": "string"} for key in keys}, "required": keys}
    closer = compile_schema({"anyOf": [optional, required]}, tokenizer=VOCABULARY).closer()
    for byte in b'{"k0":"':
        assert closer.admits(byte, 4_000)
        closer.accepted(byte)
    with patch.object(
        ParserState, "completion", autospec=True, side_effect=ParserState.completion
    ) as spelled:
        text = b'{"k0":"' + bytes(closer.completion_ids(4_000))
    assert json.loads(text) == dict.fromkeys(keys, "")
    assert spelled.call_count < 5


def tools_with_long_calls(vocabulary, num_tools, num_bytes):
    """A toolset with a tool for each number, whose shortest call is long, and another with a short one."""
    tools = [
        Tool(f"t{n}", "", {"properties": {"a": {"const": f"{n}" + "y" * num_bytes}}, "required": ["a"]})
        for n in range(num_tools)
    ]
    tools.append(Tool("now", "", {}))
    return compile_toolset(tools, tokenizer=vocabulary, syntax="hermes", tool_choice="required")


def begin_a_call(closer, remaining):
    for token_id in b'<tool_call>\n{"name": "':
        assert closer.admits(token_id, remaining)
        closer.accepted(token_id)


def test_a_token_inside_a_tools_name_finds_the_shortest_calls_of_few_tools():
    """To find those of 300 tools would take the engine 7 s for one token."""
    closer = tools_with_long_calls(VOCABULARY, 20, 500).closer()
    assert closer.fits(100)
    begin_a_call(closer, 100)
    with patch.object(Recogniser, "of", side_effect=Recogniser.of) as read:
        assert not closer.admits(ord("t"), 100)
        assert read.call_count <= 4
        assert closer.admits(ord("n"), 100)
    assert bytes(closer.completion_ids(100)).startswith(b'now"')


def test_a_token_inside_a_tools_name_counts_the_tokens_of_few_calls(monkeypatch):
    """To count those of all tools would take 2 microseconds a byte."""
    pairs = prepare(Vocabulary.from_tokens([*(bytes([byte]) for byte in range(256)), b"xx"], stop_ids=[]))
    closer = tools_with_long_calls(pairs, 20, 1_000).closer()
    counted = []
    count = Segmentation.count
    monkeypatch.setattr(
        Segmentation, "count", lambda own, text, limit: counted.append(len(text)) or count(own, text, limit)
    )
    monkeypatch.setattr(closing, "_BYTES_WRITING", 1 << 20)
    assert closer.fits(900)
    begin_a_call(closer, 900)
    assert not closer.admits(ord("t"), 900)
    assert sum(counted) > 20 * 1_000
    counted.clear()
    monkeypatch.setattr(closing, "_BYTES_WRITING", 5_000)
    assert not closer.admits(ord("t"), 900)
    assert 3_000 < sum(counted) <= 5_000
    assert closer.admits(ord("n"), 900)


NESTED = {"type": "array", "uniqueItems": True, "items": {"$ref": "#"}}


def test_the_search_for_dead_ends_is_bounded_for_each_mask_and_token(monkeypatch):
    """A thousand masks below up to 500 arrays in one another could take many minutes."""
    matcher = compile_schema(NESTED, tokenizer=VOCABULARY).matcher()
    assert matcher.read(b"[" * 20 + b"]")
    bitmask, again = (allocate_bitmask(1, VOCABULARY.vocabulary.width) for _ in range(2))
    matcher.fill_bitmask(bitmask, 0)
    comma, bracket = (VOCABULARY.vocabulary.tokens.index(token) for token in (b",", b"["))
    assert matcher.accept(comma)
    monkeypatch.setattr(dead_ends, "MAX_SEARCH_S", -1.0)
    with pytest.raises(MatchingTooSlow):
        matcher.fill_bitmask(again, 0)
    with pytest.raises(MatchingTooSlow):
        matcher.accept(bracket)
    matcher.rollback(1)
    monkeypatch.undo()
    matcher.fill_bitmask(again, 0)
    assert np.array_equal(bitmask, again)
    assert matcher.accept(comma)
    assert matcher.accept(bracket)
