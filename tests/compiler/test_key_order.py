"""Declared keys in any order: every order of a valid object is admitted, and nothing else."""

import json
import random
from itertools import permutations, product

import pytest
from linked import call_of
from monolith import tagged
from random_decoding import Generation, allowed_ids
from soundness.judges import Judges
from test_dependent_keys import KEYS, made_up
from vocabularies import BYTES, named_vocabulary
from whole_outputs import admits, parse_calls

from compiler import compile_schema, compile_toolset
from compiler.errors import UnsupportedSchema
from compiler.lowering.any_order import MAX_KEYS
from compiler.lowering.tagged_arguments import parameter_tags
from compiler.recogniser.recogniser import Recogniser
from compiler.report import Verdict
from compiler.schema import lower_schema
from compiler.syntaxes import SYNTAXES
from toolspecs.tool import Tool

INTEGER = {"type": "integer"}
TEXT = {"type": "string"}


def closed(*required, **properties):
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def in_any_order(schema, **options):
    return compile_schema(schema, key_order="any", **options)


def texts(keys, longest):
    """Objects whose keys are any of these, also repeated ones, each with its keys."""
    for length in range(longest + 1):
        for chosen in product(keys, repeat=length):
            yield chosen, "{" + ", ".join(f'"{key}": 1' for key in chosen) + "}"


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("mode", ["schema", "closed"])
def test_every_order_of_a_valid_object_is_admitted_and_nothing_else(seed, mode):
    """The made-up objects have required keys, keys that need others, bounds of their number, listed values."""
    schema = made_up(random.Random(seed))
    judges = Judges(schema)
    is_inside = "in" in schema["properties"]
    body = schema["properties"]["in"] if is_inside else schema
    try:
        compiled = in_any_order(schema, objects=mode)
    except UnsupportedSchema:
        with pytest.raises(UnsupportedSchema):
            compile_schema(schema, objects=mode)
        return
    for keys, written in texts(KEYS[:4], 4):
        text = f'{{"in": {written}}}' if is_inside else written
        is_valid = len(set(keys)) == len(keys) and not judges.faults(text.encode())
        assert is_valid or not compiled.accepts(text), text
        if is_valid and set(keys) <= set(body["properties"]) and "enum" not in body:
            assert compiled.accepts(text), text


@pytest.mark.parametrize("mode", ["schema", "closed"])
@pytest.mark.parametrize(
    ("schema", "others"),
    [
        (closed("b", a=INTEGER, b=INTEGER, c=INTEGER), []),
        ({**closed("b", a=INTEGER, b=INTEGER, c=INTEGER), "additionalProperties": INTEGER}, ["z"]),
        (
            {**closed("b", a=INTEGER, b=INTEGER), "additionalProperties": INTEGER, "minProperties": 3},
            ["y", "z"],
        ),
        (
            {**closed(a=INTEGER, b=INTEGER), "patternProperties": {"^z": INTEGER}, "maxProperties": 2},
            ["z", "zz"],
        ),
        ({"properties": {"a": INTEGER, "b": INTEGER}, "propertyNames": {"enum": ["a", "b", "c"]}}, ["c"]),
        (
            {
                "properties": {"a": INTEGER, "b": {}, "c": {}},
                "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
            [],
        ),
        ({"allOf": [{"properties": {"a": INTEGER}}, {"properties": {"b": INTEGER}, "required": ["a"]}]}, []),
    ],
)
def test_objects_with_undeclared_keys_and_combined_ones(schema, others, mode):
    judges, compiled = Judges(schema), in_any_order(schema, objects=mode)
    declared = [key for key in "abc" if repr(key) in str(schema)]
    num_admitted = 0
    for keys, text in texts([*declared, *others], 4):
        is_valid = len(set(keys)) == len(keys) and not judges.faults(text.encode())
        is_admitted = compiled.accepts(text)
        assert is_valid or not is_admitted, text
        num_admitted += is_admitted
        if is_valid and set(keys) <= set(declared):
            assert is_admitted, text
    assert num_admitted > 2


NESTED = closed(
    "id",
    "to",
    id=INTEGER,
    to=closed("name", name=TEXT, mail=TEXT, **{'a "q"': INTEGER}),
    note={"type": "string", "maxLength": 40},
    tags={"type": "array", "items": closed("k", k={"enum": ["x", "xy"]}, v=INTEGER), "maxItems": 2},
)


@pytest.mark.parametrize("name", ["bytes", "qwen3", "mistral-v3"])
def test_a_mask_has_the_tokens_that_the_rules_read_byte_by_byte(name):
    """Also tokens that end a value, an object, or both, and begin the next key."""
    vocabulary = named_vocabulary(name)
    compiled = in_any_order(NESTED, tokenizer=vocabulary)
    rng = random.Random(name)
    stops, markers = frozenset(vocabulary.stop_ids), frozenset(vocabulary.marker_ids)
    structural = [i for i, token in enumerate(vocabulary.tokens) if token and set(token) & set(b'"{}[],:')]
    structural = [i for i in structural if i not in stops | markers]
    for _ in range(2):
        matcher, recogniser = compiled.matcher(), Recogniser.of(compiled.network)
        for _ in range(25):
            allowed = set(allowed_ids(matcher, vocabulary).tolist())
            sample = rng.sample(structural, min(len(structural), 60))
            for token_id in {
                *sample,
                *list(allowed.intersection(structural))[:60],
                *list(allowed - stops)[:20],
            }:
                is_read = recogniser.fork().advance(vocabulary.tokens[token_id])
                assert (token_id in allowed) == is_read, vocabulary.tokens[token_id]
            assert recogniser.is_complete == bool(allowed & stops)
            short = [i for i in allowed if i in stops or set(vocabulary.tokens[i]) & set(b'"}],:')]
            token_id = rng.choice(sorted(short if rng.random() < 0.7 and short else allowed))
            if token_id in stops:
                break
            assert matcher.accept(token_id)
            assert recogniser.advance(vocabulary.tokens[token_id])


@pytest.mark.parametrize("name", ["bytes", "qwen3"])
def test_within_any_budget_an_output_is_whole(name):
    compiled, judges, rng = (
        in_any_order(NESTED, tokenizer=named_vocabulary(name)),
        Judges(NESTED),
        random.Random(3),
    )
    minimum = compiled.closer().minimum()
    assert minimum == compile_schema(NESTED, tokenizer=named_vocabulary(name)).closer().minimum()
    orders = set()
    for budget in [*range(minimum, minimum + 25), *range(minimum + 30, minimum + 90, 10)]:
        generation = Generation(compiled, budget, rng)
        assert len(generation.ids) <= budget
        assert judges.faults(generation.spelled) == []
        orders.add(tuple(json.loads(generation.text)))
    assert len(orders) > 3


def test_a_key_that_alone_is_left_is_forced():
    matcher = in_any_order(closed("a", "b", a=INTEGER, b=INTEGER)).matcher()
    assert matcher.read(b'{"')
    assert matcher.forced_text() == b""
    assert matcher.read(b'b": 1, ')
    assert matcher.forced_text() == b'"a":'


@pytest.mark.parametrize("syntax", ["hermes", "mistral", "llama3", "qwen3_coder", "glm_4_5"])
def test_a_tool_in_any_syntax(syntax):
    parameters = closed("city", "days", city=TEXT, days=INTEGER, unit={"enum": ["c", "f"]})
    grammar = compile_toolset([Tool("f", "", parameters, key_order="any")], syntax=syntax)
    row = grammar.syntax
    values = {"city": "Oslo", "days": 3, "unit": "c"}
    for size in range(4):
        for keys in permutations(values, size):
            call = {key: values[key] for key in keys}
            arguments = tagged(call, row) if row.tags else json.dumps(call)
            text = call_of(arguments, row)
            assert admits(grammar, text) == ({"city", "days"} <= set(keys)), text
            if {"city", "days"} <= set(keys):
                _, [(_, read)] = parse_calls(text, row, lambda name: grammar.units[name].types)
                assert list(json.loads(read).items()) == list(call.items())
    rng, minimum = random.Random(syntax), grammar.closer().minimum()
    for budget in range(minimum, minimum + 40, 3):
        _, calls = parse_calls(
            Generation(grammar, budget, rng).text, row, lambda name: grammar.units[name].types
        )
        assert all(not Judges(parameters).faults(arguments.encode()) for _, arguments in calls)
        assert calls


@pytest.mark.parametrize("num_required", [2, 5, 8])
def test_required_parameters_take_a_rule_for_each_set_of_them(num_required):
    """In every order, nine of them would make a grammar that is too large."""
    keys = [f"k{number}" for number in range(num_required)]
    schema = closed(*keys, **dict.fromkeys(keys, INTEGER))
    tags = parameter_tags(SYNTAXES["qwen3_coder"], BYTES)
    grammar = lower_schema(schema, tags=tags, key_order="any").grammar
    assert len(grammar.rules) <= 2**num_required + num_required + 4
    assert len(grammar.ebnf) < 200 * 2**num_required + 500


def notes(compiled):
    """The notes on orders, by pointer."""
    return {entry.pointer: entry.note for entry in compiled.report if "order" in entry.note}


def test_the_report_says_where_keys_stay_in_order():
    many = closed(**{f"k{number}": INTEGER for number in range(MAX_KEYS + 1)})
    inner = closed("a", a=INTEGER, b=INTEGER)
    schema = closed(
        free=inner,
        many=many,
        distinct={"type": "array", "items": inner, "uniqueItems": True},
        listed={"enum": [{"a": 1, "b": 2}]},
    )
    found = notes(in_any_order(schema))
    assert found == {
        "/properties/many": f"keys in their declared order: any order is for {MAX_KEYS} keys at most",
        "/properties/distinct/items": "keys in their declared order: equal items need one text",
        "/properties/listed": "keys in one order",
    }
    assert set(notes(compile_schema(schema)).values()) == {
        "keys in their declared order",
        "keys in one order",
    }
    compiled = in_any_order(schema)
    assert compiled.accepts('{"distinct": [], "free": {"b": 1, "a": 1}}')
    assert not compiled.accepts('{"distinct": [{"b": 1, "a": 1}]}')
    assert not compiled.accepts('{"many": {"k1": 1, "k0": 1}}')


def test_the_outer_objects_come_first_where_there_are_too_many():
    wide = {f"k{number}": INTEGER for number in range(MAX_KEYS - 1)}
    schema = {f"o{number}": closed(**wide, last={"const": number}) for number in range(MAX_KEYS)}
    found = notes(in_any_order(closed(**schema)))
    assert "" not in found
    assert 1 < len(found) < MAX_KEYS
    assert set(found.values()) == {
        "keys in their declared order: too many objects of this schema have their keys in any order"
    }


def test_a_plain_object_is_exact():
    report = in_any_order(closed("a", a={"const": 1}, b={"type": "boolean"})).report
    assert {entry.verdict for entry in report} == {Verdict.EXACT}


FEW_OTHERS = {
    "type": "object",
    "properties": {"a": INTEGER, "b": INTEGER, "c": INTEGER},
    "patternProperties": {"^[xy]$": INTEGER},
    "additionalProperties": False,
    "minProperties": 4,
}


@pytest.mark.parametrize("order", ["any", "declared"])
def test_undeclared_keys_begin_only_where_there_are_enough_of_them(order):
    compiled = compile_schema(FEW_OTHERS, key_order=order, tokenizer=named_vocabulary("bytes"))
    notes = [entry.note for entry in compiled.report if entry.keyword == "minProperties"]
    assert notes == ["at least 2 declared keys: few others are known"]
    assert compiled.accepts('{"a": 1, "b": 1, "x": 1, "y": 1}')
    vocabulary, judges, rng = compiled.vocabulary, Judges(FEW_OTHERS), random.Random(order)
    stops = frozenset(vocabulary.stop_ids)
    for _ in range(60):
        matcher, spelled, is_over = compiled.matcher(), b"", False
        while not is_over:
            allowed = allowed_ids(matcher, vocabulary).tolist()  # raises where there are none
            digits = [token_id for token_id in allowed if vocabulary.tokens[token_id].isdigit()]
            token_id = rng.choice(sorted(set(allowed).difference(digits)) or digits)
            assert matcher.accept(token_id)
            is_over = token_id in stops
            spelled += b"" if is_over else vocabulary.tokens[token_id]
        assert judges.faults(spelled) == []
