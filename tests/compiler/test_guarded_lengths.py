"""Lengths that a guard counts: exact, in code points, whatever the spelling and wherever a token ends."""

import json
import random
from functools import cache

import jsonschema_rs
import numpy as np
import pytest
import xgrammar as xgr
from random_decoding import Generation, flags, mask_of
from vocabularies import STOP, named_vocabulary, with_tokens
from writers import Writer

from compiler import compile_schema
from compiler.compiled_format import CompiledFormat
from compiler.lowering.tagged_arguments import parameter_tags
from compiler.matcher import allocate_bitmask
from compiler.prepared_vocabulary import prepare
from compiler.report import Verdict
from compiler.schema import lower_schema
from compiler.syntaxes import SYNTAXES
from compiler.units.unit import compile_unit
from compiler.vocabulary import Vocabulary

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


@pytest.fixture(scope="module", params=["bytes", "qwen3"])
def vocabulary(request) -> Vocabulary:
    return named_vocabulary(request.param)


@cache
def _compiled(name: str, vocabulary: Vocabulary) -> CompiledFormat:
    return compile_schema(SCHEMAS[name], tokenizer=vocabulary)


def output(compiled: CompiledFormat, extra: int, seed: int) -> Generation:
    """An output that comes near its bounds."""
    minimum = compiled.closer().minimum()
    return Generation(compiled, minimum + extra, Writer(seed, compiled.vocabulary))


def _is_notable(token: bytes) -> bool:
    return b'"' in token or b"\\" in token or len(token) > 12


@pytest.mark.parametrize("name", SCHEMAS)
def test_what_is_written_and_closed_is_short_enough(name, vocabulary):
    compiled = _compiled(name, vocabulary)
    assert compiled.guard is not None
    for seed, extra in enumerate((0, 4, 12, 30, 60)):
        text = output(compiled, extra, seed).text
        assert jsonschema_rs.is_valid(SCHEMAS[name], json.loads(text)), text
        assert compiled.accepts(text)


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_mask_is_what_the_grammar_allows_and_the_cursor_can_read(name, vocabulary):
    compiled = _compiled(name, vocabulary)
    for seed in range(3):
        written = output(compiled, 20, seed).ids
        matcher, bare = compiled.matcher(), xgr.GrammarMatcher(compiled.compiled)
        cursor = compiled.guard.start
        places = set(random.Random(seed).sample(range(len(written)), min(3, len(written))))
        for at, token_id in enumerate(written):
            allowed = mask_of(matcher, vocabulary)  # also fills the mask cache
            if at in places:
                possible = allowed_by_xgrammar(bare, vocabulary)
                notable = [i for i in possible if _is_notable(vocabulary.tokens[i] or b"")]
                for other in {*notable, *possible[:: max(1, len(possible) // 3_000)]}:
                    token = vocabulary.tokens[other] or b""
                    assert allowed[other] == (cursor.advance(token) is not None), token
            assert matcher.accept(token_id)
            assert bare.accept_token(token_id)
            cursor = cursor.advance(vocabulary.tokens[token_id])


def allowed_by_xgrammar(matcher: xgr.GrammarMatcher, vocabulary: Vocabulary) -> list[int]:
    bitmask = allocate_bitmask(1, vocabulary.width)
    matcher.fill_next_token_bitmask(bitmask, 0)
    return np.flatnonzero(flags(bitmask[0], vocabulary.width)).tolist()


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
    matcher, num_written = compiled.matcher(), 0
    for byte in f"[{longest},{longest}".encode():
        allowed = mask_of(matcher, compiled.vocabulary)
        assert allowed.any(), "nothing may follow"
        assert matcher.accept(byte) == allowed[byte]
        num_written += bool(allowed[byte])
    assert num_written > len(longest)


@pytest.mark.parametrize(
    ("begun", "token"),
    [
        pytest.param(
            b'"\\', '"aaaaaaaaa', id="a token inside an escape adds more characters than outside of one"
        ),
        pytest.param(b"", '"aaaa\\"aaaaa', id="a token opens a string and has a quote in it"),
    ],
)
def test_a_token_that_leads_beyond_the_bound_is_not_allowed(begun, token):
    vocabulary = with_tokens(token)
    matcher = compile_schema({**STRING, "maxLength": 9}, tokenizer=vocabulary).matcher()
    assert all(map(matcher.accept, begun))
    assert not mask_of(matcher, vocabulary)[STOP + 1]
    assert not matcher.accept(STOP + 1)


def test_keys_that_a_model_makes_up_are_not_kept():
    compiled = compile_schema({"type": "object", "additionalProperties": {**STRING, "maxLength": 9}})
    for number in range(50):
        assert compiled.accepts(json.dumps({f"key {number}": "x"}))
    assert len(compiled.grammar.plan._inside) < 5
