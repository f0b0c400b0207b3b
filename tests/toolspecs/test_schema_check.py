"""Schemas against their metaschema: what is wrong, where, and hostile ones refused before recursion."""

import json
import sys

import pytest
from corpus import corpus, json_lines

from toolspecs import Limits
from toolspecs.json_pointer import shown_pointer
from toolspecs.json_value import find_flaw
from toolspecs.schemas.schema_check import check_schema

LIMITS = Limits()
DRAFT_4, DRAFT_6, DRAFT_7 = (f"http://json-schema.org/draft-0{number}/schema#" for number in (4, 6, 7))
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def check(schema, limits=LIMITS):
    """The flaws as rows: pointer, keyword."""
    flaws = check_schema(schema, limits)
    for flaw in flaws:
        assert 0 < len(flaw.message) < 400
    return [(shown_pointer("", flaw.path), flaw.keyword) for flaw in flaws]


@pytest.mark.parametrize(
    ("pattern", "suggested"),
    [
        ("(?P<year>[0-9]{4})", "(?<name>…)"),
        ("(?i)^yes$", "classes such as [aA]"),
        (r"\Ayes\Z", "^ for the start and $ for the end"),
        ("a{,2}", "counts such as {0,2}"),
    ],
)
def test_a_pattern_of_python_is_told_what_to_write(pattern, suggested):
    [flaw] = check_schema({"pattern": pattern}, LIMITS)
    assert suggested in flaw.suggestion


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, []),
        ({"type": "object", "properties": {"type": {"type": "string"}, "required": {}}}, []),
        ({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": True}}, []),
        ({"type": "dict"}, [("/type", "type")]),
        ({"type": ["object", "nul"]}, [("/type/1", "type")]),
        ({"properties": {"a": 5}}, [("/properties/a", "properties")]),
        ({"properties": {"type": {"type": 1}}}, [("/properties/type/type", "type")]),
        ({"properties": {"a/b~": {"minLength": -1}}}, [("/properties/a~1b~0/minLength", "minLength")]),
        ({"required": True}, [("/required", "required")]),
        ({"required": ["a", 1]}, [("/required/1", "required")]),
        ({"required": ["a", "a"]}, [("/required", "required")]),
        ({"enum": 5}, [("/enum", "enum")]),
        ({"properties": {"p": {"pattern": "("}}}, [("/properties/p/pattern", "pattern")]),
        ({"anyOf": []}, [("/anyOf", "anyOf")]),
        ({"anyOf": [{}, {"items": 5}]}, [("/anyOf/1/items", "items")]),
        ({"$defs": {"d": {"not": 5}}}, [("/$defs/d/not", "not")]),
        ({"properties": {"a": {"multipleOf": 0}}}, [("/properties/a/multipleOf", "multipleOf")]),
        ({"properties": {"a": {"exclusiveMinimum": True}}}, [("/properties/a/exclusiveMinimum",) * 2]),
        (True, [("", "")]),
        (None, [("", "")]),
        ([], [("", "")]),
        ({"type": "array"}, [("/type", "type")]),
        ({"type": []}, [("/type", "type")]),
    ],
)
def test_what_is_wrong_and_where(schema, expected):
    expected = [(place, keyword.rsplit("/", 1)[-1]) for place, keyword in expected]
    assert check(schema) == expected


def test_every_flaw_is_told_once_and_in_no_more_than_the_limit():
    schema = {"properties": {f"p{index}": {"type": "strin", "minLength": -1} for index in range(5)}}
    rows = check(schema)
    assert len(rows) == len(set(rows)) == 10
    assert len(check(schema, Limits(num_faults_per_tool=3))) == 3


@pytest.mark.parametrize(
    ("draft", "schema", "is_valid"),
    [
        (DRAFT_4, {"minimum": 0, "exclusiveMinimum": True}, True),
        (DRAFT_6, {"minimum": 0, "exclusiveMinimum": True}, False),
        (DRAFT_7, {"exclusiveMinimum": 0}, True),
        (DRAFT_4, {"exclusiveMinimum": 0}, False),
        (DRAFT_7, {"items": [{}, {}]}, True),
        (DRAFT_2019, {"items": [{}, {}]}, True),
        (DRAFT_2020, {"items": [{}, {}]}, False),
        (None, {"items": [{}, {}]}, True),
        (None, {"minimum": 0, "exclusiveMinimum": True}, True),
        (None, {"items": [{}, {}], "prefixItems": [{}]}, False),
        (None, {"minimum": 0, "exclusiveMinimum": True, "properties": {"a": {"const": 1}}}, False),
        (
            None,
            {"minimum": 0, "exclusiveMinimum": True, "properties": {"const": {"enum": [{"if": 1}]}}},
            True,
        ),
        (
            None,
            {
                "exclusiveMinimum": True,
                "definitions": {"a": {}},
                "not": {"$ref": "#/definitions/a", "enum": [1]},
            },
            False,
        ),
        (None, {"minimum": 0, "exclusiveMinimum": True, "exclusiveMaximum": 5}, False),
        (
            "https://spec.openapis.org/oas/3.0/schema/2021-09-28",
            {"minimum": 0, "exclusiveMinimum": True},
            True,
        ),
        ("https://spec.openapis.org/oas/3.0/schema", {"exclusiveMinimum": 0}, False),
        (DRAFT_4, {"properties": {"a": True}}, False),
        (DRAFT_6, {"properties": {"a": True}}, True),
        (DRAFT_7, {"if": 5}, False),
        (DRAFT_6, {"if": 5}, True),
    ],
)
def test_the_schema_names_its_draft(draft, schema, is_valid):
    if draft is None:
        assert (check(schema) == []) is is_valid
        return
    for spelling in (draft, draft.removesuffix("#"), draft.removesuffix("#") + "#"):
        assert (check({"$schema": spelling, **schema}) == []) is is_valid


@pytest.mark.parametrize(
    "draft",
    [
        "",
        5,
        None,
        {},
        "draft-07",
        "http://json-schema.org/draft-03/schema#",
        "http://127.0.0.1:1/schema",
        "file:///etc/passwd",
        "http://json-schema.org/draft-07/schema#/definitions/x",
        "x" * 10_000,
    ],
)
def test_an_unknown_draft_is_refused_without_looking_it_up(draft):
    (flaw,) = check_schema({"$schema": draft, "type": "object"}, LIMITS)
    assert (flaw.path, flaw.keyword) == (("$schema",), "$schema")
    assert "2020-12" in flaw.suggestion
    assert len(flaw.message) < 200


@pytest.mark.parametrize(
    ("schema", "suggestion"),
    [
        ({"type": "dict"}, "'object'"),
        ({"type": "Dict"}, "'object'"),
        ({"type": "HashMap"}, "'object'"),
        ({"type": "str"}, "'string'"),
        ({"type": "strng"}, "'string'"),
        ({"type": "float"}, "'number'"),
        ({"type": "tuple"}, "'array'"),
        ({"type": "any"}, "leave 'type' out"),
        ({"type": "xyzzy"}, "use one of object"),
        ({"properties": {"a": {"required": True}}}, "list the names"),
        ({"properties": {"a": {"items": [{}], "$dynamicRef": "#"}}}, "prefixItems"),
        ({"properties": {"a": {"exclusiveMaximum": True}}}, "draft-04"),
        (True, "for a tool without arguments"),
        ('{"type": "object"}', "not as JSON text"),
    ],
)
def test_common_mistakes_get_a_way_out(schema, suggestion):
    assert suggestion in check_schema(schema, LIMITS)[0].suggestion


def nested(depth, wrap):
    value = {}
    for _ in range(depth):
        value = wrap(value)
    return value


WRAPS = {
    "not": lambda inner: {"not": inner},
    "properties": lambda inner: {"properties": {"a": inner}},
    "anyOf": lambda inner: {"anyOf": [inner]},
    "const": lambda inner: {"const": inner},
    "lists": lambda inner: {"enum": [[inner]]},
}


@pytest.mark.parametrize("depth", [101, 2000, 100_000])
@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_depth_is_refused_before_anything_recursive(depth, wrap):
    assert depth > LIMITS.depth
    (flaw,) = check_schema(nested(depth, wrap), LIMITS)
    assert "100 deep" in flaw.message
    assert len(flaw.path) == LIMITS.depth


def test_depth_at_the_limit_is_fine_all_the_way():
    schema = nested(LIMITS.depth - 1, WRAPS["not"])
    assert check(schema) == []
    assert check(nested(LIMITS.depth, WRAPS["not"])) != []
    assert json.loads(json.dumps(schema)) == schema


def test_a_cycle_and_a_doubling_end():
    cycle = {}
    cycle["not"] = cycle
    assert "deep" in check_schema(cycle, LIMITS)[0].message
    doubling = nested(40, lambda inner: {"allOf": [inner, inner]})
    assert "larger" in check_schema(doubling, LIMITS)[0].message


@pytest.mark.parametrize(
    "schema",
    [
        {"description": "x" * 2_000_000},
        {"x" * 2_000_000: 1},
        {"properties": {f"p{index}": {} for index in range(200_000)}},
        {"enum": ["é" * 600_000]},
        {"const": [[]] * 600_000},
        {"const": 10 ** (10**5)},
    ],
    ids=["text", "key", "properties", "bytes", "list", "number"],
)
def test_schemas_beyond_the_limits_are_refused(schema):
    assert check_schema(schema, LIMITS)


def test_the_enum_limit_counts_values_and_not_properties_of_that_name():
    limits = Limits(num_enum_values=3)
    assert check({"enum": [1, 2, 3, 4]}, limits) == [("/enum", "enum")]
    assert check({"enum": [1, 2, 3]}, limits) == []
    assert check({"properties": {"enum": {}}}, limits) == []


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), -float("inf"), 2**1024, -(2**1024), "\ud800", "a\udfff", {"\ud800": 1}],
)
def test_what_json_cannot_hold_is_refused(value):
    (flaw,) = check_schema({"const": value}, LIMITS)
    assert flaw.path == ("const",)


@pytest.mark.parametrize("value", [(), set(), b"", object(), 1j, {1: 2}, {None: 2}])
def test_what_is_not_json_is_refused(value):
    assert check_schema({"const": value}, LIMITS)


@pytest.mark.parametrize("value", [2**1023, 1e308, 5e-324, -0.0, "\x00", "\U0010ffff", "😀", "", None, True])
def test_odd_json_is_json(value):
    assert find_flaw({"const": value}, LIMITS) is None


def test_the_stack_is_left_alone():
    """The whole check of hostile depth runs in a few dozen frames."""
    before = sys.getrecursionlimit()
    deep = nested(50_000, WRAPS["anyOf"])
    sys.setrecursionlimit(200)
    try:
        assert check_schema(deep, LIMITS)
    finally:
        sys.setrecursionlimit(before)


def test_real_schemas_fit_the_limits_and_most_are_schemas():
    """A sample of JSONSchemaBench: no limit is met, and nothing but the metaschema refuses."""
    num_checked = num_flawed = 0
    for path in sorted(corpus("jsonschemabench").glob("*.jsonl.gz")):
        for index, item in enumerate(json_lines(path)):
            if index % 5:
                continue
            schema = item["schema"]
            assert find_flaw(schema, LIMITS) is None, item["name"]
            if isinstance(schema, dict):
                flaws = [
                    flaw for flaw in check_schema(schema, LIMITS) if "always an object" not in flaw.message
                ]
                num_flawed += bool(flaws)
                num_checked += 1
    assert num_checked > 1000
    assert num_flawed < num_checked / 100, f"{num_flawed} of {num_checked}"
