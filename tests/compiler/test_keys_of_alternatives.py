"""Alternatives that a constant tells apart: an object has only the keys of its own alternative."""

import json
from itertools import permutations, product

import pytest

from compiler.frontend.source_map import SourceMap
from compiler.schema import compile_schema

OWN = [{"kind": "a", "x": "1"}, {"kind": "a", "x": "1", "z": 1}, {"kind": "b", "y": 2}, {"kind": "b"}]
FOREIGN = [{"kind": "a", "x": "1", "y": 2}, {"kind": "a", "x": "1", "y": "?"}, {"kind": "b", "x": "1"}]


def alternative(kind, required=(), **properties):
    return {"properties": {"kind": kind, **properties}, "required": ["kind", *required]}


A = alternative({"const": "a"}, ["x"], x={"type": "string"}, z={})
B = alternative({"enum": ["b", "c"]}, y={"type": "integer"})
CHAIN = {"d0": A} | {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i - 1}"}]} for i in range(1, 9)}
BASE = {"properties": {"kind": {"type": "string"}}, "required": ["kind"]}


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"anyOf": [A, B]}, id="anyOf"),
        pytest.param({"type": "object", "oneOf": [A, B]}, id="oneOf"),
        pytest.param({"$defs": {"A": A}, "oneOf": [{"$ref": "#/$defs/A"}, B]}, id="a reference"),
        pytest.param({"$defs": CHAIN, "anyOf": [B, {"$ref": "#/$defs/d8"}]}, id="a chain of references"),
        pytest.param({**BASE, "oneOf": [A, {"allOf": [{}, B]}]}, id="beside other keywords"),
        pytest.param({"anyOf": [{"anyOf": [A, B]}, {"type": "null"}]}, id="alternatives of an alternative"),
    ],
)
def test_an_object_has_no_keys_of_another_alternative(schema):
    compiled = compile_schema(schema, objects="closed")
    assert [value for value in OWN if not compiled.accepts(json.dumps(value))] == []
    assert [value for value in FOREIGN if compiled.accepts(json.dumps(value))] == []


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize("required", [[], ["x"]])
@pytest.mark.parametrize("with_references", [False, True])
def test_an_alternative_without_keys_of_its_own_has_none(keyword, required, with_references):
    """Canonicalization adds its constant to the others, since it would admit their keys, too."""
    parts = {
        "click": alternative({"const": "click"}, required, x={"type": "integer"}),
        "type": alternative({"const": "type"}, text={"type": "string"}),
        "wait": alternative({"enum": ["wait", "stop"]}),
    }
    alternatives = [{"$ref": f"#/$defs/{name}"} for name in parts] if with_references else [*parts.values()]
    schema = {"$defs": parts if with_references else {}, "type": "object", keyword: alternatives}
    compiled = compile_schema(schema, objects="closed")
    for text in (
        '{"kind": "wait"}',
        '{"kind": "stop"}',
        '{"kind": "click", "x": 1}',
        '{"kind": "type", "text": ""}',
    ):
        assert compiled.accepts(text), text
    for text in ('{"kind": "wait", "x": 1}', '{"kind": "stop", "text": ""}', '{"kind": "type", "x": 1}'):
        assert not compiled.accepts(text), text


@pytest.mark.parametrize(
    ("first", "second"), [(1, 2), (True, False), (1.5, True), (1, True), (None, "a"), ("a", None)]
)
def test_constants_of_any_type_are_not_added_to_other_alternatives(first, second):
    alternatives = [alternative({"const": first}, ["x"], x={}), alternative({"const": second})]
    compiled = compile_schema({"anyOf": alternatives}, objects="closed")
    assert compiled.accepts(json.dumps({"kind": first, "x": 0}))
    assert compiled.accepts(json.dumps({"kind": second}))
    assert not compiled.accepts(json.dumps({"kind": second, "x": 0}))


def test_an_alternative_that_admits_more_under_the_same_key_has_no_keys_of_the_others():
    first = alternative({"const": "a"}, ["x", "y"], x={"type": "string"}, y={"type": "integer"})
    second = alternative({"const": "b"}, x={"type": ["string", "null"]})
    compiled = compile_schema({"anyOf": [first, second]}, objects="closed")
    assert compiled.accepts('{"kind": "a", "x": "", "y": 1}')
    assert compiled.accepts('{"kind": "b", "x": null}')
    assert not compiled.accepts('{"kind": "b", "x": "", "y": 1}')


def test_only_the_alternative_that_admits_undeclared_keys_has_them():
    compiled = compile_schema({"anyOf": [A, {**B, "additionalProperties": True}]}, objects="closed")
    assert compiled.accepts('{"kind": "b", "other": 1}')
    assert not compiled.accepts('{"kind": "a", "x": "1", "other": 1}')


@pytest.mark.parametrize(
    ("first", "second", "are_apart"),
    [
        (True, False, True),
        (1, True, True),
        (None, "null", True),
        (2, 2.0, False),
        (1e40, "a", True),
        ({"k": 1}, {"k": 2}, False),
    ],
)
def test_constants_tell_alternatives_apart_as_json_schema_compares_them(first, second, are_apart):
    alternatives = [
        alternative({"const": first}, x={"type": "null"}),
        alternative({"const": second}, y={"type": "null"}),
    ]
    compiled = compile_schema({"anyOf": alternatives}, objects="closed")
    kind = json.dumps(first)
    assert compiled.accepts(f'{{"kind": {kind}, "x": null}}')
    assert compiled.accepts(f'{{"kind": {kind}, "y": null}}') is not are_apart


def test_a_constant_that_may_be_absent_tells_nothing_apart():
    """An object without it satisfies both, and so has the keys of both."""
    alternatives = [{key: value for key, value in part.items() if key != "required"} for part in (A, B)]
    compiled = compile_schema({"anyOf": alternatives}, objects="closed")
    assert compiled.accepts('{"x": "1", "y": 2}')


def test_equal_objects_of_two_alternatives_have_one_text_where_items_are_distinct():
    """A guard compares texts. The first declares y before x, and is excluded by one of the others only."""
    first = alternative({"const": "b"}, ["z"], y={}, x={}, z={})
    second = alternative({"const": "a"}, ["x"], x={"type": "integer"}, y={})
    third = alternative({"enum": ["a", "b"]}, ["y"], x={}, y={"type": "integer"})
    compiled = compile_schema({"uniqueItems": True, "items": {"anyOf": [first, second, third]}})
    texts = [json.dumps(dict(members)) for members in permutations({"kind": "a", "x": 7, "y": 7}.items())]
    written = [text for text in texts if compiled.accepts(f"[{text}]")]
    assert written
    assert [text for text in product(written, repeat=2) if compiled.accepts(f"[{', '.join(text)}]")] == []


@pytest.mark.parametrize(
    "written",
    [
        lambda constant, name: ({"$ref": f"#/$defs/{name}"}, {name: constant}),
        lambda constant, name: ({"allOf": [{"$ref": f"#/$defs/{name}"}], "title": name}, {name: constant}),
        lambda constant, name: (
            {"$ref": f"#/$defs/{name}"},
            {name: {"$ref": f"#/$defs/_{name}"}, f"_{name}": constant},
        ),
    ],
)
def test_a_constant_that_is_referred_to_tells_alternatives_apart(written):
    """Pydantic writes a member of an enumeration with one member like that."""
    kinds, definitions = [], {}
    for name in "AB":
        kind, defined = written({"enum": [name.lower()]}, name)
        kinds.append(kind)
        definitions |= defined
    alternatives = [
        alternative(kinds[0], x={"type": "string"}),
        alternative(kinds[1], y={"type": "integer"}, z={"type": "null"}),
    ]
    for objects in ("schema", "closed"):
        compiled = compile_schema({"anyOf": alternatives, "$defs": definitions}, objects=objects)
        assert compiled.accepts('{"kind": "b", "y": 1, "z": null}')
        assert compiled.accepts('{"kind": "b", "y": "1"}') is False
        assert compiled.accepts('{"kind": "a", "x": "1"}')
        assert compiled.accepts('{"kind": "a", "y": 1}') is (objects == "schema")


def test_what_a_key_refers_to_is_read_once():
    chain = {f"d{i}": {"allOf": 9 * [{"$ref": f"#/$defs/d{i + 1}"}]} for i in range(30)}
    source_map = SourceMap({"properties": {"kind": {"$ref": "#/$defs/d0"}}, "$defs": {**chain, "d30": {}}})
    assert source_map.listed_by_key("") == {}
