"""Marked keys: the rules take an undeclared key for any string, and the guard tells declared ones apart."""

import json
import random
from collections.abc import Iterator
from contextlib import suppress

import jsonschema_rs
import numpy as np
import pytest
from guarded_patterns import lowered_with
from guarded_schemas import AB, AMBIGUOUS_KEYS, INTEGER, NULL, STRING
from hypothesis import given, settings
from hypothesis import strategies as st
from random_decoding import RandomDecoder, mask_of
from soundness.judges import without_repeats
from vocabularies import BYTES, STOP, with_tokens

from compiler import compile_schema, compile_toolset
from compiler.compiled_format import CompiledFormat
from compiler.errors import UnsupportedSchema
from compiler.guard.ambiguities import Ambiguities
from compiler.linker.linker import link
from compiler.lowering.json_text import SPACED
from compiler.prepared_vocabulary import prepare
from compiler.recogniser.recogniser import Recogniser
from compiler.schema import lower_schema
from compiler.syntaxes import SYNTAXES
from compiler.units.unit import compile_unit
from compiler.vocabulary import KEY_MARK, Vocabulary
from toolspecs.tool import ChoiceMode, Tool, ToolChoice

MARKED = {
    "optional": {"type": "object", "properties": AB},
    "required last": {"type": "object", "properties": AB, "required": ["b"]},
    "required": {"type": "object", "properties": AB, "required": ["a", "b"]},
    "typed": {"type": "object", "properties": {**AB, "name": NULL}, "additionalProperties": INTEGER},
    "never": {"type": "object", "properties": {**AB, "ab": False}},
    "nested": {
        "type": "object",
        "properties": {"a": {"type": "object", "properties": {"b": INTEGER}}, "b": {"items": {"$ref": "#"}}},
    },
    "counted": {"type": "object", "properties": AB, "minProperties": 2, "maxProperties": 3},
    "few": {"type": "object", "properties": AB, "maxProperties": 1},
    "beside items": {
        "type": "object",
        "properties": {
            "a": {"type": "string", "maxLength": 9},
            "b": {"type": "array", "uniqueItems": True, "items": {"enum": ["a", "ab", "b"]}},
        },
    },
    "strange": {"type": "object", "properties": {"é": INTEGER, '"': STRING, "": INTEGER}},
}
"""Rules need not tell the keys of these apart."""
TEXTS = """
    {" " ": ": ":" "," , " , " ":{" ":[ {"a {"a" {"a": {"a":1 "a" "a": ,"a": , "a": " "a":
    a": na na" ab" b": b":" "b": "b":null} a":1," ":1," ":1,"b": ":1} }} "] ": [{" \\u0061 \\u006 aa ab
"""
OVERLAPPING = [*TEXTS.split(), '": ', ', "', '": "', '": 1, "a": ', '{"b": {"a']


@pytest.fixture(scope="module", params=["bytes", "overlapping"])
def vocabulary(request) -> Vocabulary:
    return BYTES if request.param == "bytes" else with_tokens(*dict.fromkeys(OVERLAPPING))


class _Everywhere(frozenset[str]):
    def __contains__(self, pointer: object) -> bool:
        return True


def _told_apart_by_rules(schema, vocabulary) -> CompiledFormat:
    compiled = lowered_with(Ambiguities(separated=_Everywhere()), schema, vocabulary)
    assert compiled.grammar.plan is None or not compiled.grammar.plan.marks_keys
    return compiled


@pytest.mark.parametrize("name", [*MARKED, *AMBIGUOUS_KEYS])
def test_masks_are_those_of_rules_that_tell_the_keys_apart(name, vocabulary):
    _compare_masks({**MARKED, **AMBIGUOUS_KEYS}[name], vocabulary, random.Random(name))


VALUES = st.sampled_from([INTEGER, STRING, NULL, False])
SCHEMAS_OF_OBJECTS = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(st.sampled_from(["a", "ab", "b", "c"]), VALUES, max_size=3),
            "required": st.lists(st.sampled_from(["a", "b"]), unique=True, max_size=2),
            "additionalProperties": VALUES,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), VALUES, max_size=1),
            "maxProperties": st.just(2),
        },
    ),
    st.just({"const": {"a": 1, "c": "x"}}),
    st.just({"type": ["array", "object"]}),
    st.just({}),
)


@settings(max_examples=60)
@given(st.lists(SCHEMAS_OF_OBJECTS, min_size=2, max_size=3), st.randoms(use_true_random=False))
def test_masks_of_alternatives_are_those_of_rules_that_tell_the_keys_apart(alternatives, rng):
    schema = {"type": "object", "properties": {"x": {"anyOf": alternatives}}, "required": ["x"]}
    with suppress(UnsupportedSchema):  # no alternative admits anything
        _compare_masks(schema, BYTES, rng, num_texts=2)


def _compare_masks(schema, vocabulary: Vocabulary, rng: random.Random, num_texts: int = 4) -> None:
    """But for escapes: rules and guards let a key escape only what must be, where it could be a declared one."""
    guarded = compile_schema(schema, tokenizer=vocabulary)
    by_rules = _told_apart_by_rules(schema, vocabulary)
    tokens = vocabulary.tokens
    for _ in range(num_texts):
        ours, theirs = guarded.matcher(), by_rules.matcher()
        for _ in range(30):
            allowed, expected = mask_of(ours, vocabulary), mask_of(theirs, vocabulary)
            different = [tokens[i] for i in np.flatnonzero(allowed != expected)]
            assert all(b"\\" in token for token in different)
            ids = [int(i) for i in np.flatnonzero(expected) if b"\\" not in tokens[i]]
            likely = [i for i in ids if len(tokens[i]) > 1 or tokens[i] in b'"ab:,{}']
            token_id = rng.choice(likely if likely and rng.random() < 0.9 else ids)
            assert ours.accept(token_id)
            assert theirs.accept(token_id)
            if ours.is_terminated():
                break
            if rng.random() < 0.1:
                ours.rollback(1)
                theirs.rollback(1)


@pytest.mark.parametrize("name", MARKED)
def test_random_outputs_are_valid_whatever_is_escaped(name, vocabulary):
    schema = MARKED[name]
    compiled = compile_schema(schema, tokenizer=vocabulary)
    assert compiled.grammar.plan.marks_keys == (name != "required")
    decoder = RandomDecoder(vocabulary)
    for seed in range(6):
        written = decoder.decode(compiled.matcher(), random.Random(seed), max_tokens=60, bias=0.2)
        assert KEY_MARK.encode() not in written
        assert compiled.accepts(written.decode())
        assert jsonschema_rs.is_valid(schema, json.loads(written, object_pairs_hook=without_repeats)), written


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ('{"a": 1, "b": "x", "c": null}', True),
        ('{"b": "x"}', True),
        ('{"aa": null, "\\u0061b": []}', True),
        ('{"b": 1}', False),
        ('{"c": 1, "b": 1}', False),
        ('{"c": 1, "\\u0062": 1}', False),
        ('{"\\u0061": null}', False),
        ('{"b": "x", "a": null}', False),
    ],
)
def test_an_undeclared_key_is_never_a_declared_one(text, is_valid):
    compiled = compile_schema(MARKED["optional"])
    assert compiled.accepts(text) == is_valid
    assert compiled.fits(text.encode()) == is_valid


def test_no_text_with_a_mark_is_accepted():
    compiled = compile_schema(MARKED["optional"])
    assert compiled.accepts('{"c": {"a": 1}}')
    assert not compiled.accepts(f'{{"c": {{"a"{KEY_MARK}: 1}}}}'), (
        "the grammar reads it, but no token writes it"
    )


@pytest.mark.parametrize(
    "text",
    [
        ':{"x": 1}',
        '}"x": 1}',
        ',"x": 1}',
        '{"\\u0x": 1}',
        '{"\x00": 1}',
        '{["x"]',
        '"',
        '{"\\ud800": 1}',
    ],
)
def test_what_is_no_json_is_not_accepted(text):
    compiled = compile_schema(MARKED["nested"])
    assert not compiled.accepts(text)
    recogniser = Recogniser.of(compiled.network)
    assert not recogniser.advance(text.encode())
    assert recogniser.advance(b'{"a')


def test_a_token_behind_a_header_need_not_be_json():
    vocabulary = with_tokens(' ,"', ': ,"', ': }"', ': {["', ': {"\\u0x"', '": :"')
    grammar, prepared = lower_schema(MARKED["nested"], only_objects=True).grammar, prepare(vocabulary)
    for name in ("hermes", "json"):
        row = SYNTAXES[name]
        units = {"tag": compile_unit(grammar, row, prepared)}
        linked = link(units, row, prepared, ToolChoice(ChoiceMode.REQUIRED), is_parallel=False)
        text = RandomDecoder(vocabulary).decode(linked.matcher(), random.Random(1), max_tokens=80, bias=0.2)
        assert b'"arguments"' in text


def _prefixes(text: str) -> Iterator[bytes]:
    data = text.encode()
    return (data[:end] for end in range(len(data) + 1))


@pytest.mark.parametrize("text", ['{"name": "0123456789", "nam": 1}', '{"x": 1, "\\u006eame2": {"name": 1}}'])
def test_what_is_closed_inside_a_key_is_valid(text):
    schema = {
        "type": "object",
        "properties": {"na": NULL, "name": {"type": "string", "minLength": 10}, "names": False},
    }
    compiled = compile_schema(schema)
    for begun in _prefixes(text):
        recogniser = Recogniser.of(compiled.network)
        assert recogniser.advance(begun)
        completion = recogniser.completion()
        assert len(completion) <= recogniser.max_completion_bytes()
        whole = (begun + completion).decode()
        assert compiled.accepts(whole), whole
        assert jsonschema_rs.is_valid(schema, json.loads(whole, object_pairs_hook=without_repeats))


LONG = {"type": "string", "minLength": 200}
EMPTY_KEY = {
    "long": {"": LONG, "a": INTEGER},
    "recursive": {"": {"$ref": "#"}, "a": {"items": {"$ref": "#"}}},
    "never": {"": False},
}


@pytest.mark.parametrize("name", EMPTY_KEY)
def test_no_declared_key_is_written_where_another_is_shorter(name):
    """The shortest undeclared key is the empty one; what follows a declared one can be long, or contain it again."""
    inner = {"type": "object", "properties": EMPTY_KEY[name], "minProperties": 2}
    schema = {"type": "object", "properties": {"b": inner}, "required": ["b"]}
    compiled = compile_schema(schema)
    for begun in _prefixes('{"b":{"":{"b":{"c":1,"' if name == "recursive" else '{"b":{"a":1,"c'):
        recogniser = Recogniser.of(compiled.network)
        assert recogniser.advance(begun)
        completion = recogniser.completion()
        assert recogniser.min_completion_bytes() <= len(completion) <= 30
        assert len(completion) <= recogniser.max_completion_bytes()
        whole = (begun + completion).decode()
        assert compiled.accepts(whole), whole
        assert jsonschema_rs.is_valid(schema, json.loads(whole, object_pairs_hook=without_repeats))


def test_what_follows_a_marked_key_is_forced():
    schema = {"properties": {"first": {"const": 1}, "last": NULL}, "type": "object", "required": ["last"]}
    matcher = compile_schema(schema, formatting=SPACED).matcher()
    assert matcher.read(b'{"f')
    assert matcher.forced_text() == b'irst": 1, "last": null'


def test_a_token_that_leads_into_a_tag_may_complete_a_marked_key():
    vocabulary = with_tokens('>{"b": 1', '>{"b": "', '>{"c": 1')
    schema = {"type": "object", "properties": {"x": MARKED["typed"]}, "required": ["x"]}
    grammar = compile_toolset(
        [Tool("f", "", schema)], tokenizer=vocabulary, syntax="glm_4_5", tool_choice="required"
    )
    matcher = grammar.matcher()
    for byte in b"<tool_call>f\n<arg_key>x</arg_key>\n<arg_value":
        assert matcher.accept(byte)
    assert mask_of(matcher, vocabulary)[STOP + 1 :].tolist() == [False, True, True]
