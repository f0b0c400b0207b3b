"""Keys that must be written with others: dozens of them, wherever they stand, in every dialect."""

import json
import random
from itertools import combinations

import pytest
from soundness.judges import Judges
from soundness.schemas import DIALECTS

from compiler.errors import UnsupportedSchema
from compiler.frontend.containment import covers
from compiler.frontend.dependent_keys import MIN_TAKEN, NO_DEPENDENCIES, take_dependent_keys
from compiler.report import Verdict
from compiler.schema import compile_schema
from compiler.toolset_compiler import compile_toolset
from toolspecs.tool import Tool

KEYS = ("a", "b", "c", "d", "e", "f")
INTEGER = {"type": "integer"}


def objects(keys):
    """Every object over some keys in their order, one value for each."""
    for size in range(len(keys) + 1):
        for chosen in combinations(keys, size):
            yield dict.fromkeys(chosen, 1)


def made_up(rng):
    """A schema in which keys need others."""
    keys = list(KEYS[: rng.randint(3, 6)])
    rng.shuffle(keys)
    needed = {key: rng.sample(KEYS, rng.randint(1, 2)) for key in rng.sample(KEYS, rng.randint(3, 5))}
    year = rng.choice((4, 6, 7, 2019, 2020))
    keyword = "dependentRequired" if year >= 2019 and rng.random() < 0.8 else "dependencies"
    schema = {"$schema": DIALECTS[year], "type": "object", "properties": dict.fromkeys(keys, INTEGER)}
    if rng.random() < 0.5:
        schema[keyword] = needed
    else:
        half = dict(list(needed.items())[:2])
        rest = {key: listed for key, listed in needed.items() if key not in half}
        schema |= {"allOf": [{keyword: half}, {keyword: rest}]}
    if rng.random() < 0.4:
        schema["required"] = rng.sample(keys, rng.randint(1, 2))
    if rng.random() < 0.3:
        schema["minProperties"] = rng.randint(1, 3)
    if rng.random() < 0.3:
        schema["maxProperties"] = rng.randint(2, 5)
    if rng.random() < 0.5:
        schema["additionalProperties"] = False
    if rng.random() < 0.3:
        schema["properties"][keys[0]] = False if year >= 6 else {"not": {}}
    if rng.random() < 0.2:
        schema["enum"] = rng.sample(list(objects(KEYS)), 8)
    if rng.random() < 0.2:
        schema["anyOf"] = [{"required": [keys[0]]}, {"maxProperties": 3}]
    if rng.random() < 0.2:
        return {"$schema": schema.pop("$schema"), "properties": {"in": schema}, "required": ["in"]}
    return schema


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("mode", ["schema", "closed"])
def test_no_key_is_written_without_those_that_it_needs(seed, mode):
    schema = made_up(random.Random(seed))
    judges = Judges(schema)
    is_inside = "in" in schema["properties"]
    body = schema["properties"]["in"] if is_inside else schema
    order = [*body["properties"], *(key for key in KEYS if key not in body["properties"])]
    values = [{"in": value} if is_inside else value for value in objects(order)]
    valid = [not judges.faults(json.dumps(value).encode()) for value in values]
    try:
        compiled = compile_schema(schema, objects=mode)
    except UnsupportedSchema:
        compiled = None
    if compiled is None:
        assert not any(valid)
        return
    for value, is_valid in zip(values, valid, strict=True):
        text = json.dumps(value)
        assert is_valid or not compiled.accepts(text), text
        is_declared = set(value.get("in", value)) <= set(body["properties"])
        if is_valid and is_declared and "enum" not in body:
            assert compiled.accepts(text), text


def pairs(num_pairs, *, is_crossing=False, keyword="dependentRequired", **others):
    """Each key `a…` needs the key `b…`."""
    names = [(f"a{number}", f"b{number}") for number in range(num_pairs)]
    keys = [key for pair in names for key in pair]
    if is_crossing:
        keys = [first for first, _ in names] + [second for _, second in names]
    return {
        "type": "object",
        "properties": dict.fromkeys(keys, INTEGER),
        keyword: {first: [second] for first, second in names},
        **others,
    }


MANY = {
    "beside": pairs(40),
    "draft 7": pairs(40, keyword="dependencies", **{"$schema": DIALECTS[7]}),
    "draft 7, mixed": pairs(40, keyword="dependencies", **{"$schema": DIALECTS[7]}),
    "crossing": pairs(40, is_crossing=True),
    "counted": pairs(40, maxProperties=4),
}
MANY["draft 7, mixed"]["dependencies"]["a1"] = {"required": ["b1"], "properties": {"b2": {"minimum": 5}}}


@pytest.mark.parametrize("name", MANY)
def test_forty_keys_may_need_others(name):
    compiled = compile_schema(MANY[name])
    judges = Judges(MANY[name])
    for value in (
        {},
        {"b1": 1},
        {"a1": 1, "b1": 1},
        {"a7": 1, "b7": 1, "a9": 1, "b9": 1},
        {"b3": 1, "b5": 1},
    ):
        assert judges.faults(json.dumps(value).encode()) == []
        assert compiled.accepts(json.dumps(value)), value
    for value in ({"a1": 1}, {"a1": 1, "b2": 1}, {"a7": 1, "b7": 1, "a9": 1}):
        assert not compiled.accepts(json.dumps(value)), value


def test_crossing_keys_are_reordered_and_the_report_says_so():
    found = [
        entry for entry in compile_schema(MANY["crossing"]).report if entry.keyword == "dependentRequired"
    ]
    assert [entry.verdict for entry in found] == [Verdict.NARROWED]
    assert "not in their declared order" in found[0].note
    compiled = compile_schema(pairs(6, is_crossing=True))
    assert compiled.accepts('{"a1": 1, "a2": 1, "b1": 1, "b2": 1}')


@pytest.mark.parametrize("syntax", ["hermes", "qwen3_coder", "glm_4_5"])
@pytest.mark.parametrize("name", ["beside", "crossing"])
def test_a_tool_in_any_syntax(syntax, name):
    grammar = compile_toolset([Tool("t", "", {**MANY[name], "required": ["a1"]})], syntax=syntax)
    output = bytes(grammar.closer().completion_ids(500)).decode()
    assert "b1" in output
    assert "b2" not in output


@pytest.mark.parametrize(
    ("schema", "draft"),
    [
        (pairs(MIN_TAKEN - 1), 20),
        ({**pairs(9), "properties": {"a": {"$ref": "#"}}}, 20),
        ({**pairs(9), "properties": {"a": {"$ref": "#/properties/b"}, "b": pairs(9)}}, 20),
        ({**pairs(9), "$id": "https://example.com/s", "items": {"$ref": "https://example.com/s"}}, 20),
        ({**pairs(9), "$anchor": "s", "items": {"$ref": "#s"}}, 20),
        (pairs(9), 7),
        ({**pairs(9, keyword="dependencies"), "$ref": "#/definitions/a"}, 7),
        ({"not": pairs(9)}, 20),
        ({"anyOf": [pairs(9), {}]}, 20),
        ({"patternProperties": {"a": pairs(9)}}, 20),
    ],
)
def test_dependencies_stay_where_they_may_not_apply_to_every_instance(schema, draft):
    assert take_dependent_keys(schema, {}, draft) == (schema, NO_DEPENDENCIES)


def test_references_to_definitions_are_no_obstacle():
    schema = {**pairs(9), "allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"required": ["b1"]}}}
    rest, taken = take_dependent_keys(schema, {}, 20)
    assert rest["dependentRequired"] == {}
    assert taken.admits({"a1": 1, "b1": 1})
    assert not taken.admits({"a1": 1})
    assert not compile_schema(schema).accepts('{"b1": 1, "a2": 1}')


def test_schemas_with_many_dependencies_are_compared():
    less = pairs(40, maxProperties=4)
    assert covers((pairs(40), {}), (less, {}))
    assert not covers((less, {}), (pairs(40), {}))
    assert covers((pairs(39), {}), (pairs(40), {}))
    assert not covers((pairs(40), {}), (pairs(39), {}))
    fewer = {**pairs(4), "dependentRequired": pairs(3)["dependentRequired"], "required": ["b3"]}
    assert covers((pairs(4), {}), (fewer, {}))
