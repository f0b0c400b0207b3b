"""Lengths that a guard counts: exact, in code points, whatever the spelling and wherever a token ends."""

import json
import random
from functools import cache

import jsonschema_rs
import numpy as np
import pytest
import xgrammar as xgr
from random_decoding import flags
from vocabularies import named_vocabulary, spelled

from compiler import compile_schema
from compiler.compiled_format import CompiledFormat
from compiler.linker.linker import link
from compiler.lowering.tagged_arguments import parameter_tags
from compiler.matcher import allocate_bitmask
from compiler.prepared_vocabulary import prepare
from compiler.report import Verdict
from compiler.schema import lower_schema
from compiler.syntaxes import SYNTAXES
from compiler.units.unit import compile_unit
from compiler.vocabulary import Vocabulary
from toolspecs.tool import ChoiceMode, ToolChoice

STRING = {"type": "string"}
NAME = {**STRING, "minLength": 2, "maxLength": 9}
SLUG = {**STRING, "pattern": "^[a-z]+(-[a-z]+)*$", "maxLength": 12}
SCHEMAS = {
    "root": {**STRING, "maxLength": 9},
    "few": {**STRING, "minLength": 8, "maxLength": 8},
    "object": {
        "type": "object",
        "properties": {"a": NAME, "b": {"anyOf": [{**STRING, "maxLength": 20}, {"type": "null"}]}, "c": SLUG},
        "required": ["a"],
        "additionalProperties": False,
    },
    "open": {
        "type": "object",
        "properties": {"a": NAME},
        "additionalProperties": {**STRING, "maxLength": 10},
    },
    "array": {"type": "array", "prefixItems": [NAME], "items": {**STRING, "maxLength": 11}, "minItems": 2},
    "pattern": {
        "type": "array",
        "items": {**STRING, "pattern": "^x-[a-zé]*$", "maxLength": 9},
        "minItems": 1,
    },
    "slugs": {"type": "array", "prefixItems": [SLUG], "items": {**STRING, "maxLength": 8}, "minItems": 1},
    "escapes": {
        "type": "array",
        "items": {**STRING, "pattern": '^[\\n"\\\\é😀]*$', "maxLength": 8},
        "minItems": 1,
    },
    "kinds": {
        "type": "object",
        "properties": {
            "text": STRING,
            "two": {**STRING, "minLength": 2},
            "word": {"anyOf": [{"enum": ["a", "abc", "abcd"]}, {**STRING, "maxLength": 30}]},
            "code": {**STRING, "pattern": "^[ab]{3}-?"},
            "any": {},
            "date": {**STRING, "format": "date"},
        },
        "minProperties": 4,
    },
    "recursive": {
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"s": {**STRING, "maxLength": 8}, "next": {"$ref": "#/$defs/node"}},
                "required": ["s"],
                "additionalProperties": False,
            }
        },
        "$ref": "#/$defs/node",
    },
}
HABITS = ("any", "long", "escaped")


@pytest.fixture(scope="module", params=["bytes", "qwen3"])
def vocabulary(request) -> Vocabulary:
    return named_vocabulary(request.param)


@cache
def _compiled(name: str, vocabulary: Vocabulary) -> CompiledFormat:
    return compile_schema(SCHEMAS[name], tokenizer=vocabulary)


def _chosen(ids: np.ndarray, vocabulary: Vocabulary, rng: random.Random, habit: str) -> int:
    """A token; writers of long tokens and of escapes come near the bound differently."""
    sampled = [int(i) for i in rng.choices(ids.tolist(), k=20)]
    if habit == "long":
        return max(sampled, key=lambda i: (b'"' not in vocabulary.tokens[i], len(vocabulary.tokens[i])))
    escaping = [i for i in ids[:5_000].tolist() if b"\\" in vocabulary.tokens[i]]
    if habit == "escaped" and escaping and rng.random() < 0.5:
        return rng.choice(escaping)
    return sampled[0]


def _decode(matcher, vocabulary: Vocabulary, seed: int, habit: str, max_tokens: int = 60) -> list[int]:
    rng = random.Random(seed)
    bitmask = allocate_bitmask(1, vocabulary.width)
    written: list[int] = []
    for _ in range(max_tokens):
        matcher.fill_bitmask(bitmask, 0)
        allowed = flags(bitmask[0], vocabulary.width)
        may_stop = allowed[vocabulary.stop_ids[0]]
        allowed[vocabulary.stop_ids[0]] = False
        ids = np.flatnonzero(allowed)
        assert may_stop or len(ids), "nothing may follow"
        if not len(ids) or (may_stop and rng.random() < 0.3):
            break
        token_id = _chosen(ids, vocabulary, rng, habit)
        assert matcher.accept(token_id), "the mask allowed it"
        written.append(token_id)
    return written


def _is_notable(token: bytes) -> bool:
    return b'"' in token or b"\\" in token or len(token) > 12


@pytest.mark.parametrize("name", SCHEMAS)
def test_what_is_written_is_short_enough(name, vocabulary):
    compiled = _compiled(name, vocabulary)
    assert compiled.guard is not None
    for seed, habit in enumerate(HABITS):
        matcher = compiled.matcher()
        written = _decode(matcher, vocabulary, seed, habit)
        if not matcher.is_completed():
            continue
        text = spelled(written, vocabulary).decode()
        assert jsonschema_rs.is_valid(SCHEMAS[name], json.loads(text)), text
        assert compiled.accepts(text)


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_mask_is_what_the_grammar_allows_and_the_cursor_can_read(name, vocabulary):
    compiled = _compiled(name, vocabulary)
    bitmask = allocate_bitmask(2, vocabulary.width)
    for seed, habit in enumerate(HABITS):
        written = _decode(compiled.matcher(), vocabulary, seed, habit, max_tokens=20)
        matcher, bare, cursor = (
            compiled.matcher(),
            xgr.GrammarMatcher(compiled.compiled),
            compiled.guard.start,
        )
        places = set(random.Random(seed).sample(range(len(written)), min(3, len(written))))
        for at, token_id in enumerate(written):
            matcher.fill_bitmask(bitmask, 0)  # also fills the mask cache
            if at in places:
                bare.fill_next_token_bitmask(bitmask, 1)
                allowed = flags(bitmask[0], vocabulary.width)
                possible = np.flatnonzero(flags(bitmask[1], vocabulary.width)).tolist()
                notable = [i for i in possible if _is_notable(vocabulary.tokens[i] or b"")]
                for other in {*notable, *possible[:: max(1, len(possible) // 3_000)]}:
                    token = vocabulary.tokens[other] or b""
                    assert allowed[other] == (cursor.advance(token) is not None), token
            assert matcher.accept(token_id)
            assert bare.accept_token(token_id)
            cursor = cursor.advance(vocabulary.tokens[token_id])


@pytest.mark.parametrize("name", SCHEMAS)
def test_whatever_is_closed_is_short_enough(name, vocabulary):
    compiled = _compiled(name, vocabulary)
    for budget in (0, 4, 12):
        closer, matcher = compiled.closer(), compiled.matcher()
        remaining = closer.minimum() + budget
        written: list[int] = []
        for token_id in _decode(compiled.matcher(), vocabulary, budget, "long"):
            if not closer.admits(token_id, remaining):
                break
            assert matcher.accept(token_id)
            closer.accepted(token_id)
            written.append(token_id)
            remaining -= 1
        closing = closer.completion_ids(remaining)
        assert len(closing) <= remaining
        assert all(matcher.accept(token_id) for token_id in closing)
        assert matcher.is_completed()
        assert jsonschema_rs.is_valid(SCHEMAS[name], json.loads(spelled(written + closing, vocabulary)))


def test_characters_are_counted_in_any_spelling():
    compiled = compile_schema({**STRING, "maxLength": 8})
    for eight in (
        "12345678",
        "äöüßäöüß",
        "😀" * 8,
        "\\n" * 8,
        "\\u00e4" * 8,
        "\\ud83d\\ude00" * 8,
        'a\\"\\\\' * 2 + "é😀",
    ):
        assert len(json.loads(f'"{eight}"')) == 8
        assert compiled.accepts(f'"{eight}"')
        for more in ("x", "ä", "\\n", "\\u00e4", "\\ud83d\\ude00", '\\"'):
            assert not compiled.accepts(f'"{eight}{more}"')
            assert not compiled.accepts(f'"{more}{eight}"')


def test_any_bound_is_exact():
    compiled = compile_schema({**STRING, "maxLength": 100_000})
    assert [e.verdict for e in compiled.report if e.keyword == "maxLength"] == [Verdict.GUARDED]
    assert compiled.accepts(json.dumps("x" * 100_000))
    assert not compiled.accepts(json.dumps("x" * 100_001))


@pytest.mark.parametrize("syntax", ["hermes", "json"])
def test_linked_calls_keep_to_lengths(syntax):
    vocabulary = named_vocabulary("qwen3")
    unit = compile_unit(
        lower_schema(SCHEMAS["object"], only_objects=True).grammar, SYNTAXES[syntax], prepare(vocabulary)
    )
    linked = link(
        {"t": unit}, SYNTAXES[syntax], prepare(vocabulary), ToolChoice(ChoiceMode.REQUIRED), is_parallel=False
    )
    for seed, habit in enumerate(HABITS):
        matcher = linked.matcher()
        written = _decode(matcher, vocabulary, seed, habit, max_tokens=100)
        if matcher.is_completed():
            text = spelled(written, vocabulary).decode()
            value, _ = json.JSONDecoder().raw_decode(text[text.index('{"a"') :])
            assert jsonschema_rs.is_valid(SCHEMAS["object"], value)


def test_strings_inside_tags_keep_to_lengths():
    vocabulary = named_vocabulary("qwen3")
    schema = {"type": "object", "properties": {"list": SCHEMAS["array"]}, "required": ["list"]}
    tags = parameter_tags(SYNTAXES["qwen3_coder"], vocabulary)
    unit = compile_unit(
        lower_schema(schema, only_objects=True, tags=tags).grammar,
        SYNTAXES["qwen3_coder"],
        prepare(vocabulary),
    )
    assert unit.guard is not None
    head = (tags.begin + "list" + tags.after_key).encode()
    begun = unit.guard.start.advance(head)
    assert begun.advance(b'["ab", "12345678901"]' + tags.end.encode()) is not None
    assert begun.advance(b'["ab", "123456789012"') is None


@pytest.mark.parametrize(
    "item",
    [
        {**STRING, "maxLength": 8},
        {**STRING, "pattern": "^a*$", "maxLength": 8},
        {
            "type": "object",
            "properties": {"k": {**STRING, "pattern": "^a*$", "maxLength": 8}},
            "required": ["k"],
            "additionalProperties": False,
        },
    ],
)
def test_an_item_that_repeats_one_can_still_be_told_apart_within_its_bound(item):
    """Arrays at the path of distinct ones must be distinct too: their strings must keep room to differ."""
    distinct = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    compiled = compile_schema({"anyOf": [distinct, {"type": "array", "items": item}]})
    longest = json.dumps({"k": "a" * 8} if item["type"] == "object" else "a" * 8, separators=(",", ":"))
    bitmask = allocate_bitmask(1, compiled.vocabulary.width)
    matcher, num_written = compiled.matcher(), 0
    for byte in f"[{longest},{longest}".encode():
        matcher.fill_bitmask(bitmask, 0)
        allowed = flags(bitmask[0], compiled.vocabulary.width)
        assert allowed.any(), "nothing may follow"
        assert matcher.accept(byte) == allowed[byte]
        num_written += bool(allowed[byte])
    assert num_written > len(longest)


def test_a_token_inside_an_escape_may_add_more_than_any_outside_of_one():
    tokens = [*Vocabulary.of_bytes().tokens[:256], b'"aaaaaaaaa', b""]
    vocabulary = Vocabulary.from_tokens(tokens, stop_ids=(257,))
    matcher = compile_schema({**STRING, "maxLength": 9}, tokenizer=vocabulary).matcher()
    assert all(map(matcher.accept, b'"\\'))
    bitmask = allocate_bitmask(1, vocabulary.width)
    matcher.fill_bitmask(bitmask, 0)
    assert not flags(bitmask[0], vocabulary.width)[256]
    assert not matcher.accept(256)


def test_a_token_may_open_a_string_that_holds_quotes():
    tokens = [*Vocabulary.of_bytes().tokens[:256], b'"aaaa\\"aaaaa', b""]
    vocabulary = Vocabulary.from_tokens(tokens, stop_ids=(257,))
    matcher = compile_schema({**STRING, "maxLength": 9}, tokenizer=vocabulary).matcher()
    bitmask = allocate_bitmask(1, vocabulary.width)
    matcher.fill_bitmask(bitmask, 0)
    assert not flags(bitmask[0], vocabulary.width)[256]
    assert not matcher.accept(256)


def test_keys_that_a_model_makes_up_are_not_kept():
    compiled = compile_schema({"type": "object", "additionalProperties": {**STRING, "maxLength": 9}})
    for number in range(50):
        assert compiled.accepts(json.dumps({f"key {number}": "x"}))
    assert len(compiled.grammar.plan._inside) < 5
