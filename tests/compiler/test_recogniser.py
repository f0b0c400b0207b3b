"""The recogniser agrees with the mask, and what it says completes a text does."""

import math
import random
from functools import cache
from unittest.mock import patch

import pytest
from corpus import corpus, json_lines
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_decoding import decode_randomly
from vocabularies import BYTES

from compiler import UnsupportedSchema, compile_schema
from compiler.grammar.ebnf import ebnf_grammar
from compiler.grammar.grammar import CharClass, Choice, Concatenation, Grammar, Literal, Repeat, Rule, RuleRef
from compiler.grammar.shortest import NEVER, ShortestSentences
from compiler.recogniser.network import Network, StateSet
from compiler.recogniser.parser_state import StackFrame, _settle_costs, initial_state
from compiler.recogniser.recogniser import Recogniser
from compiler.recogniser.search_budget import SearchBudget

SHORTEST = [
    (True, "0"),
    ({"type": "string"}, '""'),
    ({"type": "string", "minLength": 3}, '"aaa"'),
    ({"enum": ["größer", "groß"]}, '"groß"'),
    ({"type": "integer", "minimum": 120}, "120"),
    ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, "[true,true]"),
    ({"type": "object"}, "{}"),
    (
        {"properties": {"a": {"type": "null"}, "b": {"const": "x"}}, "required": ["b"], "type": "object"},
        '{"b":"x"}',
    ),
    ({"anyOf": [{"type": "object", "required": ["k"]}, {"const": [1, 2]}]}, "[1,2]"),
    (
        {
            "$defs": {"list": {"anyOf": [{"$ref": "#/$defs/pair"}, {"const": "nil"}]}, "pair": {
                "type": "array", "prefixItems": [{"const": 1}, {"$ref": "#/$defs/list"}], "minItems": 2,
                "items": False}},
            "$ref": "#/$defs/pair",
        },
        '[1,"nil"]',
    ),
    ({"type": "string", "minLength": 70, "maxLength": 90}, f'"{"a" * 70}"'),
    ({"type": "array", "items": {"type": "string", "minLength": 40}, "minItems": 2, "uniqueItems": True},
     f'["{"a" * 40}"," {"a" * 39}"]'),
    ({"type": "string", "pattern": r"^(?=.*[A-Z])(?=.*\\)(?=.*é)[^a]{8,}$"}, r'"00000A\\é"'),
]  # fmt: skip


@cache
def _compiled(number: int):
    return compile_schema(SHORTEST[number][0])


def _recogniser(number: int) -> Recogniser:
    return Recogniser.of(_compiled(number).network)


@pytest.mark.parametrize("number", range(len(SHORTEST)), ids=lambda n: SHORTEST[n][1])
def test_the_completion_of_nothing_is_the_shortest_sentence(number):
    recogniser = _recogniser(number)
    assert recogniser.completion() == SHORTEST[number][1].encode()
    assert recogniser.advance(recogniser.completion())
    assert recogniser.is_complete


@settings(max_examples=150)
@given(st.integers(0, len(SHORTEST) - 1), st.integers(0, 2**32), st.data())
def test_agrees_with_the_mask_on_random_outputs_and_their_mutations(number, seed, data):
    compiled = _compiled(number)
    text = decode_randomly(compiled.matcher(), BYTES, random.Random(seed), max_tokens=120) or b"{"
    characters = list(text.decode())
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(characters)))
        characters[at : at + data.draw(st.integers(0, 1))] = data.draw(
            st.text('aß0.-"\\[]{},: nul€😀', max_size=2)
        )
    text = "".join(characters)
    recogniser = _recogniser(number)
    assert (recogniser.advance(text.encode()) and recogniser.is_complete) == compiled.accepts(text)


@settings(max_examples=100)
@given(st.integers(0, len(SHORTEST) - 1), st.integers(0, 2**32))
def test_from_everywhere_in_an_output_there_is_a_completion_within_its_bound(number, seed):
    compiled = _compiled(number)
    text = decode_randomly(compiled.matcher(), BYTES, random.Random(seed), max_tokens=60, bias=0.2) or b""
    recogniser = _recogniser(number)
    for at in range(len(text)):
        assert recogniser.advance(text[at : at + 1])
        completion = recogniser.completion()
        assert compiled.accepts((text[: at + 1] + completion).decode())
        assert recogniser.min_completion_bytes() <= len(completion) <= recogniser.max_completion_bytes()


def test_a_character_that_is_begun_is_finished():
    grammar = Grammar({"root": Rule(Concatenation((CharClass.of("ß", "é", "€"), Literal("😀"))))})
    for begun, completion in [("ß", b"\x9f"), ("é", b"\xa9"), ("€", b"\x82\xac")]:
        recogniser = Recogniser.of(Network(grammar))
        head = begun.encode()[: -len(completion)]
        assert recogniser.advance(head)
        assert not recogniser.is_complete
        assert recogniser.completion()[len(completion) :] == "😀".encode()
        assert recogniser.advance(completion + "😀".encode())
        assert recogniser.is_complete
    assert not Recogniser.of(Network(grammar)).advance(b"\xd0")


def test_a_fork_goes_its_own_way():
    recogniser = _recogniser(3)
    twin = recogniser.fork()
    assert twin.advance('"größ'.encode())
    assert twin.completion() == b'er"'
    assert recogniser.completion() == '"groß"'.encode()


def test_repetition_comes_back_to_the_same_state():
    network = compile_schema({"type": "array"}).network
    recogniser = Recogniser.of(network)
    assert recogniser.advance(b'["')
    sizes = set()
    for _ in range(3):
        assert recogniser.advance(b"abc" * 500 + b'", "')
        sizes.add(len(network._states))
    assert len(sizes) == 1


def test_a_bounded_repetition_accepts_no_other_counts():
    grammar = Grammar({"root": Rule(Concatenation((Repeat(CharClass.of("a"), 2, 4), Literal("b"))))})
    for text, fits, completion in [
        ("", True, "aab"), ("a", True, "ab"), ("aaaa", True, "b"), ("aaaaa", False, None), ("ab", False, None)
    ]:  # fmt: skip
        recogniser = Recogniser.of(Network(grammar))
        assert recogniser.advance(text.encode()) == fits
        assert not fits or recogniser.completion() == completion.encode()


def test_no_states_are_made_inside_of_a_long_literal_that_is_read_at_once():
    """A listed text of 15 kB would take 10 MB and 0.2 s, and the same again for each array that it stands in."""
    literal, letters = Literal("x" * 20_000 + "y"), Repeat(CharClass.of("a", "b", "c"), 3, 3)
    network = Network(Grammar({"root": Rule(Concatenation((literal, letters)))}))
    with patch.object(StateSet, "__init__", autospec=True, side_effect=StateSet.__init__) as made:
        recogniser = Recogniser.of(network)
        assert recogniser.advance(b"x" * 19_000)
        assert recogniser.completion() == b"x" * 1_000 + b"yaaa"
        assert not recogniser.fork().advance(b"x" * 1_001)
        assert not recogniser.fork().advance(b"x" * 500 + b"y")
        assert recogniser.advance(b"x" * 1_000 + b"yabc")
    assert recogniser.is_complete
    assert made.call_count < 1_000


def test_a_rule_without_a_sentence_is_never_the_way():
    loop = Concatenation((Literal("["), RuleRef("loop")))
    grammar = Grammar({"root": Rule(Choice((RuleRef("loop"), Literal("[[ok")))), "loop": Rule(loop)})
    shortest = ShortestSentences(grammar)
    assert shortest.length(RuleRef("loop")) == NEVER
    recogniser = Recogniser.of(Network(grammar))
    assert recogniser.advance(b"[")
    assert recogniser.completion() == b"[ok"


def test_left_recursion_and_ambiguity_are_followed():
    left = Choice((Concatenation((RuleRef("root"), RuleRef("root"))), Literal("a"), Literal("bc")))
    recogniser = Recogniser.of(Network(Grammar({"root": Rule(left)})))
    assert recogniser.advance(b"a" * 60 + b"b")
    assert recogniser.completion() == b"c"


def test_real_schemas_complete_from_everywhere():
    rng = random.Random(4)
    lines = list(json_lines(corpus("jsonschemabench", "Github_easy.jsonl.gz")))
    num_outputs = 0
    for line in rng.sample(lines, min(40, len(lines))):
        try:
            compiled = compile_schema(line["schema"])
        except UnsupportedSchema:
            continue
        text = decode_randomly(compiled.matcher(), BYTES, rng, max_tokens=150, bias=0.2)
        if text is None:
            continue
        num_outputs += 1
        recogniser = Recogniser.of(compiled.network)
        for start in range(0, len(text), 7):
            assert recogniser.advance(text[start : start + 7])
            completed = text[: start + 7] + recogniser.completion()
            assert compiled.accepts(completed.decode())
    assert num_outputs >= 5


@pytest.mark.parametrize(
    "inner",
    [
        {"minItems": 3},
        {"minItems": 3, "items": {"type": "integer"}},
        {
            "minItems": 3,
            "items": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 8}},
        },
        {"minItems": 4, "items": {"enum": [None, True, 1, "a"]}},
    ],
)
@pytest.mark.parametrize("text", [b'["a', b"[[0,1"])
@pytest.mark.timeout(60)
def test_a_number_that_a_bracket_ends_is_what_repeats(inner, text):
    """Not the array that the bracket ends: no other array before it avoids the repetition."""
    compiled = compile_schema(
        {"type": "array", "contains": {"type": "array", "uniqueItems": True, **inner}}, tokenizer=BYTES
    )
    recogniser = Recogniser.of(compiled.network)
    if recogniser.advance(text):
        completed = text + recogniser.completion()
        assert compiled.accepts(completed.decode())


@pytest.mark.parametrize(
    "schema",
    [
        {"contains": {"enum": ["a", "b", "c"]}, "minContains": 3},
        {"contains": {"enum": ["aa", "bbb", "c", 1, True]}, "minContains": 4},
        {"contains": {"enum": ["a longer text, with blanks", "another one", "x"]}, "minContains": 3},
        {"items": {"type": "string"}, "contains": {"enum": [f"n{i}" for i in range(12)]}, "minContains": 12},
        {"contains": {"required": ["k"], "properties": {"k": {"enum": [1, 2, 3]}}, "type": "object",
                      "additionalProperties": False}, "minContains": 3},
    ],
)  # fmt: skip
def test_what_contains_demands_is_found_among_distinct_items_that_it_does_not(schema):
    """Any item may stand before one that is demanded: a search must not look for ever more of those."""
    compiled = compile_schema({"type": "array", "uniqueItems": True, **schema}, tokenizer=BYTES)
    for text in [b"", b"[", b'["', b"[1", b'["other', b'["other",', b'["other","another', b'["other",17,']:
        recogniser = Recogniser.of(compiled.network)
        if recogniser.advance(text):
            completed = text + recogniser.completion(SearchBudget(300))
            assert compiled.accepts(completed.decode())


@pytest.mark.parametrize(
    ("listed", "text"),
    [
        (["a", "b", "c"], b'["a","a'),
        (["a", "b", "c"], b'["a","b","a'),
        (["aa", "bbb", "c", 1, True], b"[1,1"),
        (["a longer text, with blanks", "another one", "x"], b'["x","x'),
        ([f"n{i}" for i in range(12)], b'["n1","n2","n2'),
    ],
)
def test_an_item_that_has_begun_like_one_before_need_not_be_demanded(listed, text):
    """The shortest ending of such an item repeats; what else ends it brings the end of the output no nearer."""
    schema = {"type": "array", "uniqueItems": True, "contains": {"enum": listed}, "minContains": len(listed)}
    compiled = compile_schema(schema, tokenizer=BYTES)
    recogniser = Recogniser.of(compiled.network)
    assert recogniser.advance(text)
    assert compiled.accepts((text + recogniser.completion(SearchBudget(300))).decode())


@given(st.data())
def test_costs_of_frames_are_those_of_paths(data):
    """Whatever the order in which frames were opened, and whichever call each other in a circle."""
    outer = StackFrame()
    outer.cost, outer.max_cost = data.draw(st.integers(0, 5)), data.draw(st.integers(5, 9))
    frames = [StackFrame() for _ in range(data.draw(st.integers(1, 6)))]
    for frame in frames:
        for caller in data.draw(st.lists(st.sampled_from([outer, *frames]), min_size=1, max_size=3)):
            cost = data.draw(st.integers(0, 3))
            frame.callers[_After(cost, cost + data.draw(st.integers(0, 1))), caller] = None
    called = {outer}
    for _ in frames:
        called |= {frame for frame in frames if any(caller in called for _, caller in frame.callers)}
    assume(called >= set(frames))
    _settle_costs(frames)
    settled = [(frame.cost, frame.max_cost) for frame in frames]
    for frame in frames:
        frame.cost, frame.max_cost = math.inf, 0.0
    for _ in range(400):  # beyond the sum of all costs, only a circle grows
        for frame in frames:
            frame.update_costs()
    assert settled == [(f.cost, f.max_cost if f.max_cost < 40 else math.inf) for f in frames]


class _After:
    """What a frame reads of the states after a call."""

    def __init__(self, cost, max_cost):
        self.cost, self.max_cost = cost, max_cost


@pytest.mark.parametrize("circle", ['L ::= L "q" | "w"', 'L ::= "w"'])
def test_a_byte_that_opens_many_rules_does_not_go_over_them_once_for_each(circle, monkeypatch):
    """A rule that begins with itself, and a chain of rules in the wrong order."""
    updated = []
    update_costs = StackFrame.update_costs
    monkeypatch.setattr(
        StackFrame, "update_costs", lambda frame: updated.append(frame) or update_costs(frame)
    )
    chain = [f'r{i} ::= "a{i}" | r{i - 1} "+"' for i in range(1, 200)]
    items = " | ".join(f'r{i} "!" | r{i} "?"' for i in range(200))
    rules = ['root ::= item root | "z"', circle, f'item ::= L "%" | " " | {items}', 'r0 ::= "a0"', *chain]
    state = initial_state(Network(ebnf_grammar("\n".join(rules))))
    updated.clear()
    assert state.advance(b" " * 8) is not None
    assert len(updated) < 8 * 4 * 210
