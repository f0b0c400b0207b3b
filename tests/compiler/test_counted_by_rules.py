"""String lengths that rules count, because a guard could not tell which of several strings it reads."""

import pytest
from guarded_patterns import PATTERNS, STRING, bounds_of, in_array, in_object

from compiler import compile_schema
from compiler.lowering.schema_lowering import SchemaLowering
from compiler.schema import lower_schema

AMBIGUOUS = {
    "two bounds": (
        {
            "anyOf": [
                {**STRING, "pattern": "^a", "maxLength": 9},
                {**STRING, "pattern": "^b", "maxLength": 20},
            ]
        },
        ['"aaaaaaaaa"', '"bbbbbbbbbbbbbbbbbbbb"'],
        ['"aaaaaaaaaa"', '"bbbbbbbbbbbbbbbbbbbbb"'],
    ),
    "under one key": (
        {
            "type": "object",
            "anyOf": [
                {"properties": {"k": {"const": 1}, "s": {**STRING, "maxLength": 8}}, "required": ["k", "s"]},
                {"properties": {"k": {"const": 2}, "s": {**STRING, "maxLength": 12}}, "required": ["k", "s"]},
            ],
        },
        ['{"k":1,"s":"12345678"}', '{"k":2,"s":"123456789012"}'],
        ['{"k":1,"s":"123456789"}', '{"k":2,"s":"1234567890123"}'],
    ),
    "a listed one": (
        {"anyOf": [{**STRING, "maxLength": 8}, {"enum": ["a long string"]}]},
        ['"12345678"', '"a long string"'],
        ['"123456789"', '"a long strin"'],
    ),
    "beside undeclared keys": (
        {
            "type": "object",
            "properties": {"a": {**STRING, "maxLength": 8}},
            "patternProperties": {"^x": {**STRING, "maxLength": 10}},
        },
        ['{"a":"12345678","x":"1234567890","y":"12345678901234"}'],
        ['{"a":"123456789"}', '{"x":"12345678901"}'],
    ),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_strings_that_others_stand_in_for_are_counted_exactly(name):
    schema, valid, invalid = AMBIGUOUS[name]
    compiled = compile_schema(schema)
    assert all(map(compiled.accepts, valid))
    assert not any(map(compiled.accepts, invalid))


@pytest.mark.parametrize(("high", "most"), [(32_768, 32_768), (40_000, 32_768)])
def test_rules_count_so_far_and_no_further(high, most):
    kinds = [
        {"properties": {"k": {"const": kind}, "s": {**STRING, **bounds}}, "required": ["k", "s"]}
        for kind, bounds in ((1, {"maxLength": high}), (2, {}))
    ]
    compiled = compile_schema({"type": "object", "anyOf": kinds})
    lengths = (most - 1, most, most + 1, high + 1)
    assert [n for n in lengths if compiled.accepts(f'{{"k":1,"s":"{"x" * n}"}}')] == [most - 1, most]
    assert compiled.accepts(f'{{"k":2,"s":"{"x" * 50_000}"}}')
    (entry,) = [entry for entry in compiled.report if entry.keyword == "maxLength"]
    assert (str(most) in entry.note) == (most < high)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        *((0, 48), (0, 79), (0, 399), (31, 400), (32, 400), (33, 1000), (399, 400), (500, 500), (0, 5000)),
        *((48, None), (64, None), (85, None), (256, None), (1_000, None)),
    ],
)
def test_blocks_are_counted_exactly_by_few_rules(low, high):
    bounds = {"minLength": low} if high is None else {"minLength": low, "maxLength": high}
    kinds = [
        {"properties": {"k": {"const": kind}, "s": {**STRING, **of_kind}}, "required": ["k", "s"]}
        for kind, of_kind in ((1, bounds), (2, {}))
    ]
    compiled = compile_schema({"type": "object", "anyOf": kinds})
    most = low + 100 if high is None else high
    lengths = {low - 1, low, low + 1, 47, 48, most // 2, most - 33, most - 1, most, most + 1} - {-1}
    written = {n for n in lengths if compiled.accepts(f'{{"k":1,"s":"{"x" * n}"}}')}
    assert written == {n for n in lengths if low <= n and (high is None or n <= high)}
    assert (
        len([name for name in compiled.grammar.rules if name.startswith("blocks")]) <= 5 * most.bit_length()
    )
    assert not any(name.endswith("_22_or_more") for name in compiled.grammar.rules)


def test_bounds_that_turn_out_ambiguous_one_after_another_cost_one_more_lowering(monkeypatch):
    nodes = {
        f"n{i}": {
            "type": "object",
            "properties": {
                "x": {**STRING, "pattern": f"^[a-{chr(98 + i)}]*$", "maxLength": 10 if i == 0 else 9},
                "r": {"$ref": f"#/$defs/n{i}"},
            },
            "required": ["x"],
        }
        for i in range(11)
    }
    pairs = {
        f"k{i}": {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"k": {"const": j}, "v": {"$ref": f"#/$defs/n{i + j}"}},
                    "required": ["k", "v"],
                }
                for j in (0, 1)
            ]
        }
        for i in range(10)
    }
    calls = []
    grammar = SchemaLowering.grammar
    monkeypatch.setattr(
        SchemaLowering, "grammar", lambda self, *rest: calls.append(1) or grammar(self, *rest)
    )
    lower_schema({"$defs": nodes, "type": "object", "properties": pairs})
    assert len(calls) == 2


@pytest.mark.parametrize(
    "pattern",
    [
        "^(?:-é)+$",  # the fewest characters are not the fewest bytes
        r"^(?:[a-z]|\n--|\x01)*$",  # nor in an escape
        "^(?:a|[b-z]{9}-)+$",  # the first characters are at risk already
    ],
)
def test_what_a_guard_cannot_count_is_left_to_rules(pattern):
    compiled = compile_schema({**STRING, "pattern": pattern, "maxLength": 11})
    assert not bounds_of(compiled)


def test_a_pattern_beside_values_of_which_nothing_is_known_is_left_to_rules():
    string = {**STRING, "pattern": PATTERNS["slug"], "maxLength": 10}
    known = {"properties": {"k": {"const": 1}, "v": in_array(in_object(string))}, "required": ["k", "v"]}
    unknown = {"properties": {"k": {"const": 2}, "v": {"type": "array"}}, "required": ["k", "v"]}
    compiled = compile_schema({"type": "object", "anyOf": [known, unknown]})
    assert not any(bound.automaton for bound in bounds_of(compiled))
    assert compiled.accepts('{"k":2,"v":[{"k":"any text \\u00e9 at all"}]}')
    assert compiled.accepts('{"k":1,"v":[{"k":"abcdefgh-i"}]}')
    assert not compiled.accepts('{"k":1,"v":[{"k":"abcdefgh-ij"}]}')


def test_two_patterns_at_one_place_are_left_to_rules():
    """Two of one length are one automaton, which a guard keeps; here their lengths differ."""
    named = (("slug", 12), ("steps", 11))
    ways = [{**STRING, "pattern": PATTERNS[name], "maxLength": high} for name, high in named]
    compiled = compile_schema(in_array({"anyOf": ways}))
    assert not any(bound.automaton for bound in bounds_of(compiled))
    assert compiled.accepts('["abcdefghij-k","abbbcabbbc"]')
    assert not compiled.accepts('["abcdefghij-kl"]')


@pytest.mark.parametrize("other", ["array", "string", "null"])
def test_a_guard_counts_beside_other_types_of_which_nothing_is_known(other):
    """An array has no keys: what is under a key is in an object whose schema is known."""
    string = {**STRING, "format": "email", "maxLength": 30}
    value = {"type": ["object", other], "properties": {"k": string}, "required": ["k"]}
    compiled = compile_schema({"type": "object", "properties": {"v": value}, "required": ["v"]})
    assert bounds_of(compiled)
    assert compiled.accepts('{"v":{"k":"abc@example.com"}}')
    assert not compiled.accepts('{"v":{"k":"abcdefghijklmnopqrs@example.com"}}')


def test_rules_count_beside_objects_of_which_nothing_is_known():
    string = {**STRING, "format": "email", "maxLength": 30}
    known = {"properties": {"k": {"const": 1}, "v": in_object(string)}, "required": ["k", "v"]}
    unknown = {"properties": {"k": {"const": 2}, "v": {"type": "object"}}, "required": ["k", "v"]}
    compiled = compile_schema({"type": "object", "anyOf": [known, unknown]})
    assert compiled.accepts('{"k":2,"v":{"k":"any text \\u00e9 at all"}}')
    assert compiled.accepts('{"k":1,"v":{"k":"abc@example.com"}}')
    assert not compiled.accepts('{"k":1,"v":{"k":"abcdefghijklmnopqrs@example.com"}}')
