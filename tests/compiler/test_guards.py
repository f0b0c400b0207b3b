"""Guards: keys and items never repeat, whatever is tried, and there is always something else to write."""

import json
import random

import jsonschema
import jsonschema_rs
import numpy as np
import pytest
from guarded_schemas import GUARDED, POINT, REPEATS, STRINGS
from random_decoding import Generation, allowed_ids, mask_of
from soundness.judges import without_repeats
from vocabularies import BYTES, STOP, named_vocabulary, with_tokens
from writers import Repeating

from compiler import UnsupportedSchema, compile_schema
from compiler.grammar.json_form import grammar_from_json, grammar_to_json
from compiler.guard.cursor import JsonCursor
from compiler.guard.plan import GuardPlan, plan_from_json, plan_to_json
from compiler.guard.tagged_cursor import start_cursor
from compiler.lowering.tagged_arguments import parameter_tags
from compiler.prepared_vocabulary import prepare
from compiler.schema import lower_schema
from compiler.syntaxes import SYNTAXES
from compiler.vocabulary import Vocabulary

SPECIAL = frozenset(b'"\\{}[],:')
"""The bytes that end or escape something in JSON."""


@pytest.fixture(scope="module", params=["bytes", "qwen3"])
def vocabulary(request) -> Vocabulary:
    return named_vocabulary(request.param)


def output(compiled, extra: int, seed: int) -> Generation:
    """An output by a writer that prefers tokens it wrote before."""
    return Generation(compiled, compiled.closer().minimum() + extra, Repeating(seed))


@pytest.mark.parametrize("name", GUARDED)
def test_outputs_never_repeat_never_get_stuck_and_are_closed_in_time(name, vocabulary):
    schema = GUARDED[name]
    compiled = compile_schema(schema, tokenizer=vocabulary)
    for seed, extra in enumerate((0, 9, 60)):
        text = output(compiled, extra, seed).text
        value = json.loads(text, object_pairs_hook=without_repeats)
        assert jsonschema_rs.is_valid(schema, value), text
        assert jsonschema.Draft202012Validator(schema).is_valid(value), text
        assert compiled.accepts(text)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name in REPEATS for text in REPEATS[name]])
def test_repeats_are_refused(name, text, vocabulary):
    compiled = compile_schema(GUARDED[name], tokenizer=vocabulary)
    assert not compiled.accepts(text)
    matcher, index = compiled.matcher(), prepare(vocabulary).index
    for byte in text.encode():
        token_id = index.ids[index.spellings.index(bytes([byte]))][0]
        is_allowed = mask_of(matcher, vocabulary)[token_id]
        assert matcher.accept(token_id) == is_allowed
        if not is_allowed:
            return
    pytest.fail("every byte of it was allowed")


@pytest.mark.parametrize("name", GUARDED)
def test_no_token_of_a_mask_repeats(name):
    """What the mask has is read by the cursor: all tokens that end or escape something, and some of the others."""
    vocabulary = named_vocabulary("qwen3")
    special = {i for i, token in enumerate(vocabulary.tokens) if not SPECIAL.isdisjoint(token)}
    compiled = compile_schema(GUARDED[name], tokenizer=vocabulary)
    assert compiled.guard is not None
    for seed in range(2):
        written = output(compiled, 40, seed).ids
        matcher, cursor, rng = compiled.matcher(), compiled.guard.start, random.Random(seed)
        places = set(rng.sample(range(len(written)), min(3, len(written))))
        for at, token_id in enumerate(written):
            if at in places:
                allowed = set(allowed_ids(matcher, vocabulary).tolist()).difference(vocabulary.stop_ids)
                plain = sorted(allowed - special)
                for other in (allowed & special).union(rng.sample(plain, min(2_000, len(plain)))):
                    assert cursor.advance(vocabulary.tokens[other]) is not None
            assert matcher.accept(token_id)
            cursor = cursor.advance(vocabulary.tokens[token_id])


@pytest.mark.parametrize("key", ["a", '"', "\\", "a\n", 'x"y\\', "\t/", "\x01"])
@pytest.mark.parametrize("is_declared", [False, True])
def test_a_token_may_be_a_whole_key_with_escapes(key, is_declared):
    r"""Qwen 3 has ` "\""`. No mask lets such a token repeat a key."""
    whole = json.dumps(key).encode()
    vocabulary = with_tokens(b" " + whole, whole + b":", b" " + whole + b": ")
    schema = {"properties": {key: {"type": "integer"}} if is_declared else {}}
    compiled = compile_schema({"type": "object", **schema}, tokenizer=vocabulary)
    for before in (b"{", b"{" + whole + b": 1,", b'{"b": 1,'):
        matcher = compiled.matcher()
        assert all(map(matcher.accept, before))
        allowed = mask_of(matcher, vocabulary)
        if not is_declared or before == b"{":  # a declared key comes before undeclared ones
            assert allowed[STOP + 1 :].any() == (whole not in before)
        for token_id in range(STOP + 1, vocabulary.width):
            is_accepted = matcher.accept(token_id)
            assert is_accepted == allowed[token_id], (before, vocabulary.tokens[token_id])
            if is_accepted:
                matcher.rollback(1)


@pytest.mark.parametrize("name", GUARDED)
def test_the_mask_and_accept_agree_and_roll_back(name, vocabulary):
    compiled = compile_schema(GUARDED[name], tokenizer=vocabulary)
    rng, matcher = random.Random(name), compiled.matcher()
    written = output(compiled, 40, 5).ids
    for token_id in written:
        allowed = mask_of(matcher, vocabulary)
        ids = np.flatnonzero(allowed).tolist()
        for other in {*rng.sample(ids, min(5, len(ids))), *written}:
            is_accepted = matcher.accept(other)
            assert is_accepted == allowed[other]
            if is_accepted:
                matcher.rollback(1)
        assert np.array_equal(mask_of(matcher, vocabulary), allowed)
        assert matcher.accept(token_id)


def test_every_repeated_element_is_seen_at_every_split():
    cursor = JsonCursor(GuardPlan())
    for text in (b'{"a":1,"a":2}', b'{"x":{"b":[1,{"c":1}]},"x":1}', b'[{"\\u0061":1,"a":1}]'):
        assert cursor.advance(text) is None
        for at in range(len(text)):
            before = cursor.advance(text[:at])
            assert before is None or before.advance(text[at:]) is None


def test_what_can_be_used_up_may_be_long():
    texts = ["x" * 2_000 + "a", "x" * 2_000 + "b"]
    matcher = compile_schema({**STRINGS, "items": {"enum": texts}}).matcher()
    assert all(map(matcher.accept, json.dumps(texts[:1])[:-1].encode()))
    assert mask_of(matcher, BYTES)[ord(",")]
    assert matcher.accept(ord(","))


PASSWORD = {"type": "string", "pattern": r"^(?=.*[A-Z])(?=.*[a-z])(?=.*\d).{8,12}$"}


@pytest.mark.parametrize("schema", [*GUARDED.values(), PASSWORD], ids=[*GUARDED, "a whole pattern"])
def test_a_guarded_grammar_is_stored_and_read_back(schema):
    grammar = lower_schema(schema).grammar
    stored = grammar_to_json(grammar)
    read = grammar_from_json(stored)
    assert read.plan is not None
    assert (read, read.plan, read.digest) == (grammar, grammar.plan, grammar.digest)
    assert grammar_to_json(read) == stored


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({**STRINGS, "items": {"type": "string", "maxLength": 0}, "minItems": 2}, "uniqueItems"),
        ({**STRINGS, "items": {"$ref": "#"}, "minItems": 1}, ""),
        ({**STRINGS, "items": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}, "minItems": 2}, "uniqueItems"),
        ({"anyOf": [STRINGS, {"const": [1, 1]}]}, "uniqueItems"),
        (
            {"anyOf": [STRINGS, {"type": "array", "contains": {"const": 1}, "minContains": 2}]},
            "uniqueItems",
        ),
        ({**STRINGS, "minItems": 500}, "uniqueItems"),
        (
            {
                "type": "object",
                "patternProperties": {"^[ab]$": {}},
                "additionalProperties": False,
                "minProperties": 3,
            },
            "minProperties",
        ),
    ],
)
def test_what_may_run_out_is_refused(schema, keyword):
    with pytest.raises(UnsupportedSchema) as refusal:
        compile_schema(schema)
    assert keyword in str(refusal.value)


@pytest.mark.parametrize(
    ("items", "pointer"),
    [
        ({}, ""),
        ({"type": "object"}, "/items"),
        ({"type": "array"}, "/items"),
        ({"type": "object", "properties": {"a": {"type": "null"}}}, "/items"),
        (
            {"type": "object", "properties": {"a": {"type": "object"}}, "additionalProperties": False},
            "/items/properties/a",
        ),
        ({"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": False}, None),
        ({"type": "string"}, None),
    ],
)
def test_the_report_says_where_objects_have_one_undeclared_key(items, pointer):
    compiled = compile_schema({"type": "array", "uniqueItems": True, "items": items})
    noted = [entry for entry in compiled.report if "undeclared key" in entry.note]
    assert [entry.pointer for entry in noted] == ([] if pointer is None else [pointer])
    assert all("declare its keys in properties" in entry.note for entry in noted)
    assert not compiled.accepts('[{"b": 1, "c": 2}]')
    declared = {"type": "object", "properties": {"b": {"type": "integer"}, "c": {"type": "integer"}}}
    assert compile_schema({"type": "array", "uniqueItems": True, "items": declared}).accepts(
        '[{"b": 1, "c": 2}]'
    )


def test_a_schema_without_repeats_has_no_guard():
    compiled = compile_schema(POINT)
    assert compiled.grammar.plan is None
    assert compiled.guard is None


def test_tags_of_strings_end_where_they_do():
    vocabulary = named_vocabulary("qwen3")
    listed = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    properties = {"s": {"type": ["string", "array"]}, "m": listed}
    schema = {"type": "object", "properties": properties, "required": ["s", "m"]}
    for name, texts in (("qwen3_coder", ("", "[ ]", "word")), ("deepseek_v3_2", ("", "[ ]", "word"))):
        tags = parameter_tags(SYNTAXES[name], vocabulary)
        plan = lower_schema(schema, only_objects=True, tags=tags).grammar.plan
        for text in texts:
            first = tags.begin + "s" + tags.after_string_key + text + tags.end
            second = tags.begin + "m" + tags.after_key
            begun = start_cursor(plan).advance((first + second).encode())
            assert begun.advance(b"[1,2]") is not None
            assert begun.advance(b"[1,1]") is None


def test_tagged_calls_are_guarded():
    schema = {
        "type": "object",
        "properties": {"tags": GUARDED["all of an enum"], "text": {"type": "string"}, "map": GUARDED["map"]},
        "required": ["tags", "text", "map"],
    }
    vocabulary = named_vocabulary("qwen3")
    syntax = SYNTAXES["qwen3_coder"]
    lowered = lower_schema(schema, only_objects=True, tags=parameter_tags(syntax, vocabulary))
    plan = lowered.grammar.plan
    assert plan is not None
    assert plan_from_json(plan_to_json(plan)) == plan
    head, tail = b"<parameter=tags>\n", b"\n</parameter>\n"
    text = b"<parameter=text>\n[1,1] {\n</parameter>\n<parameter=map>\n"
    begun = start_cursor(plan).advance(head + b'["a",1]' + tail + text)
    assert begun is not None
    assert begun.advance(b'{"a":1,"b":2}' + tail) is not None
    assert begun.advance(b'{"a":1,"a":2}' + tail) is None
    assert start_cursor(plan).advance(head + b'["a","a"]') is None
