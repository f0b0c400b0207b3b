"""What `compile_schema` accepts and rejects, as tables; the report."""

import json

import pytest

from compiler.errors import UnsupportedSchema
from compiler.frontend import final_report
from compiler.report import ReportEntry, Verdict
from compiler.schema import compile_schema, lower_schema

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
OBJECT = {"type": "object"}
TREE = {
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "v": INTEGER}}},
    "$ref": "#/$defs/node",
}

CASES = [
    pytest.param({"type": "object", "properties": {"b": STRING, "a": INTEGER}, "required": ["b"]},
        ['{"b":"x","a":3}', '{"b": "x"}', '{"b":"x", "other":[1,{"k":null}]}'],
        ['{"a":3}', "{}", '{"b":1}', '{"b":"x","b":1}', '{"b":"x",}', '{"b":"x"', "[]"], id="object"),
    pytest.param({"type": "object", "properties": {"a": INTEGER, "b": INTEGER}, "additionalProperties": False},
        ["{}", '{"a":1}', '{"b":1}', '{"a":1,"b":2}'], ['{"c":1}', '{"a":1,"a":1}', '{,"a":1}'], id="all optional"),
    pytest.param({"type": "object", "properties": {"a": INTEGER, "b": INTEGER}, "maxProperties": 1},
        ["{}", '{"a":1}', '{"b":1}', '{"q":1}'], ['{"a":1,"b":1}', '{"q":1,"r":1}'], id="maxProperties"),
    pytest.param({"type": "object", "properties": {"a": INTEGER, "b": INTEGER, "c": INTEGER}, "minProperties": 2,
         "additionalProperties": False},
        ['{"a":1,"b":1}', '{"a":1,"c":1}', '{"b":1,"c":1}', '{"a":1,"b":1,"c":1}'], ["{}", '{"c":1}'], id="minProperties"),
    pytest.param({"type": "object", "patternProperties": {"^x": INTEGER}, "additionalProperties": STRING},
        ['{"x":1,"y":"s"}', "{}"], ['{"x":"s"}', '{"y":1}'], id="patternProperties"),
    pytest.param({"type": "object", "properties": {"a": {"type": "integer"}, "b": False}, "required": ["a"]},
        ['{"a":1}'], ['{"a":1,"b":1}'], id="forbidden key"),
    pytest.param({"type": "object", "additionalProperties": INTEGER}, ["{}", '{"k":1,"l":2}'], ['{"k":"s"}'], id="map"),
    pytest.param({"type": "object", "propertyNames": {"enum": ["p", "q"]}}, ["{}", '{"p":1,"q":[]}'], ['{"r":1}'],
        id="propertyNames"),
    pytest.param({"type": "object", "properties": {"a": STRING, "b": STRING}, "dependentRequired": {"a": ["b"]},
         "additionalProperties": False},
        ["{}", '{"b":"s"}', '{"a":"s","b":"s"}'], ['{"a":"s"}'], id="dependentRequired"),
    pytest.param({"type": "array", "items": INTEGER, "minItems": 2, "maxItems": 3},
        ["[1,2]", "[1, 2, 3]"], ["[]", "[1]", "[1,2,3,4]", '[1,"s"]', "[1,2,]"], id="array bounds"),
    pytest.param({"type": "array", "prefixItems": [STRING, INTEGER], "items": {"type": "null"}},
        ["[]", '["s"]', '["s",1,null,null]'], ["[1]", '["s","s"]', '["s",1,2]'], id="prefixItems"),
    pytest.param({"type": "array", "contains": INTEGER, "minContains": 2, "maxContains": 3},
        ["[1,2]", '["a",1,2,3,"b"]'], ["[]", "[1]", "[1,2,3,4]"], id="contains"),
    pytest.param({"type": "array", "uniqueItems": True, "items": {"enum": ["a", "b", "c"]}},
        ["[]", '["b","a"]', '["c","a","b"]'], ['["a","a"]', '["a","b","a"]'], id="uniqueItems of an enum"),
    pytest.param(TREE, ["{}", '{"next":{"next":{"v":1}},"v":3}'], ['{"next":1}', '{"next":{"v":"s"}}'], id="recursion"),
    pytest.param({**TREE, "properties": {"v": {"minimum": 3}}}, ['{"v":3}', '{"next":{"v":1},"v":3}'],
        ['{"v":2}', '{"next":{"v":1},"v":2}'], id="recursion and a sibling"),
    pytest.param({"oneOf": [{**INTEGER, "multipleOf": 3}, {**INTEGER, "multipleOf": 5}]}, ["3", "5", "10"],
        ["15", "7", "30"], id="oneOf"),
    pytest.param({"not": STRING}, ["1", "null", "[]", "{}"], ['"s"'], id="not"),
    pytest.param({"type": "array", "not": {"enum": [[False], [1, "a"]]}},
        ["[]", "[1]", "[false,false]", '[1,"b"]', "[0]"], ["[false]", '[1,"a"]', "{}"], id="not an array"),
    pytest.param({"type": "object", "not": {"const": {"a": 1}}}, ["{}", '{"a":2}', '{"b":1}'], ['{"a":1}'],
        id="not an object"),
    pytest.param({"type": "object", "not": {"patternProperties": {"^x": INTEGER}}, "properties": {"xa": {}}},
        ['{"xa":"s"}', '{"xb":"s"}', '{"xa":1,"xb":"s"}'], ["{}", '{"xa":1}', '{"a":"s"}', '{"xa":1,"b":"s"}'],
        id="a value must fail"),
    pytest.param({"type": "object", "not": {"propertyNames": {"pattern": "^x"}}}, ['{"a":1}'], ["{}", '{"x":1}'],
        id="a name must fail"),
    pytest.param({"type": "object", "not": {"properties": {"a": {}}, "additionalProperties": INTEGER}},
        ['{"b":"s"}'], ["{}", '{"a":"s"}', '{"b":1}'], id="an undeclared value must fail"),
    pytest.param({"type": "object", "additionalProperties": False,
         "patternProperties": {f"^{c}": {"const": c} for c in "abcdefgh"}},
        ["{}", '{"ax":"a","bx":"b"}'], ['{"ax":"b"}', '{"x":1}'], id="many patterns"),
    pytest.param({"properties": {"a": {"$schema": "http://json-schema.org/draft-04/schema#", **INTEGER}}},
        ['{"a":1}'], ['{"a":"s"}'], id="an inner dialect"),
    pytest.param({"$defs": {"name": {"pattern": "^x"}}, "type": "object", "propertyNames": {"$ref": "#/$defs/name"}},
        ['{"xy":1}', "{}"], ['{"y":1}'], id="names by reference"),
    pytest.param({"oneOf": [STRING, {**STRING, "format": "date"}]}, ['"s"'], ['"2024-02-29"'], id="no date"),
    pytest.param({"if": {"properties": {"k": {"const": "x"}}, "required": ["k"]},
         "then": {"properties": {"v": INTEGER}}, "else": {"properties": {"v": STRING}},
         "type": "object", "properties": {"k": {"enum": ["x", "y"]}, "v": {}}},
        ['{"k":"x","v":1}', '{"k":"y","v":"s"}', '{"v":"s"}'], ['{"k":"x","v":"s"}', '{"k":"y","v":1}', '{"v":1}'],
        id="if then else"),
    pytest.param({"enum": [1, "a", None, {"b": [1, 2], "a": 1}]}, ["1", '"a"', "null", '{"b":[1, 2],"a":1}'],
        ["2", '"b"', "{}"], id="enum"),
    pytest.param(True, ["1", '"x"', "[]", '{"a":[1,{"b":{}}]}', "-1.5", "true"], ["", "{", "x", "01", "[1]]"], id="true"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "accepted", "rejected"), CASES)
def test_a_schema_accepts_these_texts_and_rejects_those(schema, accepted, rejected):
    compiled = compile_schema(schema)
    assert [text for text in accepted if not compiled.accepts(text)] == []
    assert [text for text in rejected if compiled.accepts(text)] == []


def test_declared_order_is_kept_and_not_the_alphabet():
    keys = ["thought", "zeta", "alpha", "mid"]
    schema = {"type": "object", "properties": {key: {} if key == "zeta" else STRING for key in keys},
              "required": keys}  # fmt: skip
    compiled = compile_schema(schema, objects="closed")
    assert compiled.accepts(json.dumps(dict.fromkeys(keys, "s")))
    assert not compiled.accepts(json.dumps(dict.fromkeys(sorted(keys), "s")))


def test_declared_order_survives_combinations():
    schema = {
        "type": "object",
        "properties": {"z": STRING},
        "allOf": [{"$ref": "#/$defs/base"}, {"properties": {"b": STRING}, "required": ["b"]}],
        "$defs": {"base": {"properties": {"y": STRING, "a": STRING}, "required": ["a", "y"]}},
    }
    compiled = compile_schema(schema, objects="closed")
    assert compiled.accepts('{"z":"s","y":"s","a":"s","b":"s"}')
    assert not compiled.accepts('{"a":"s","b":"s","y":"s"}')


@pytest.mark.parametrize(
    "reference", ["http://example.com/n#", "http://example.com/n", "#", "http://example.com/n#/$defs/n"]
)
def test_declared_order_survives_a_reference_by_the_documents_own_name(reference):
    node = {"type": "object", "properties": {"z": INTEGER, "a": {"$ref": reference}}}
    compiled = compile_schema(
        {"$id": "http://example.com/n#", **node, "$defs": {"n": node}}, objects="closed"
    )
    assert compiled.accepts('{"z":1,"a":{"z":2,"a":{"z":3}}}')
    assert not compiled.accepts('{"a":{"a":{},"z":1}}')


def test_keys_of_equal_values_share_one_rule_of_the_separator():
    properties = {f"key{n}": STRING for n in range(20)}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    assert lower_schema(schema).grammar.ebnf.count('(": " | ":")') == 1


def test_a_closed_object_that_needs_undeclared_keys_is_refused_with_the_way_to_allow_them():
    needing = {"type": "object", "properties": {"a": STRING}, "minProperties": 2}
    schema = {"type": "object", "properties": {"inner": needing}, "required": ["inner"]}
    with pytest.raises(UnsupportedSchema, match="`additionalProperties: true`") as caught:
        compile_schema(schema, objects="closed")
    assert caught.value.pointer == "/properties/inner"
    needing["additionalProperties"] = True
    assert compile_schema(schema, objects="closed").accepts('{"inner":{"a":"s","b":1}}')


def test_keys_and_values_of_patterns_stand_in_the_order_of_the_document():
    schema = {
        "type": "object",
        "patternProperties": {"^(zeta|beta)$": STRING, "^(alpha|omega)$": INTEGER},
        "additionalProperties": False,
    }
    compiled = compile_schema(schema)
    assert compiled.accepts('{"zeta":"s","beta":"s","alpha":1,"omega":2}')
    assert not compiled.accepts('{"alpha":1,"beta":"s"}')
    values = {"z": {"properties": {"z": INTEGER, "b": INTEGER}}, ".": {"properties": {"a": INTEGER}}}
    compiled = compile_schema({"type": "object", "patternProperties": values}, objects="closed")
    assert compiled.accepts('{"z1":{"z":1,"b":2,"a":3}}')
    assert not compiled.accepts('{"z1":{"a":1,"z":2}}')


CLOSED = [
    pytest.param({"type": "object", "properties": {"a": {}}}, ["{}", '{"a":1}'], ['{"b":1}'], id="declared"),
    pytest.param({"type": "object"}, ["{}", '{"b":1}'], [], id="nothing declared"),
    pytest.param({"type": "object", "properties": {}}, ["{}"], ['{"b":1}'], id="no arguments"),
    pytest.param({"type": "object", "properties": {}, "minProperties": 1}, ['{"b":1}'], ["{}"], id="one argument of any name"),
    pytest.param({"type": "object", "properties": {}, "required": ["b"]}, ['{"b":1}'], ["{}", '{"b":1,"c":1}'],
        id="required, not declared"),
    pytest.param({"type": "object", "properties": {"a": {"type": "object", "properties": {}}}},
        ['{"a":{"b":1}}'], ['{"b":1}'], id="a map further in"),
    pytest.param({"type": "object", "properties": {"a": {}}, "additionalProperties": True},
        ['{"a":1,"b":1}'], [], id="opened in so many words"),
    pytest.param({"type": "object", "properties": {"a": {"type": "object", "properties": {"x": STRING}}}},
        ['{"a":{"x":"s"}}'], ['{"a":{"y":1}}'], id="nested"),
    pytest.param({"type": "array", "items": {"anyOf": [{"type": "object", "properties": {"x": STRING}}, STRING]}},
        ['[{"x":"s"},"s"]'], ['[{"y":1}]'], id="in a union"),
    pytest.param({"type": "object", "patternProperties": {"^[a-z]{2}$": INTEGER}},
        ["{}", '{"ab":1,"cd":2}'], ['{"abc":1}', '{"ab":1,"c":"s"}'], id="keys of a pattern"),
    pytest.param({"type": "object", "properties": {"a": INTEGER}, "patternProperties": {"^x-": STRING}},
        ['{"a":1,"x-b":"s"}'], ['{"a":1,"b":"s"}'], id="declared, and keys of a pattern"),
    pytest.param({"type": "object", "patternProperties": {"^x-": STRING}, "additionalProperties": INTEGER},
        ['{"x-a":"s","b":1}'], ['{"b":"s"}'], id="keys of a pattern, and others in so many words"),
    pytest.param({"type": "object", "patternProperties": {"^x-": False}}, ['{"a":1}'], ['{"x-a":1}'], id="no keys of a pattern"),
    pytest.param({"type": "object", "patternProperties": {"^x-": {}}}, ['{"x-a":1}'], [], id="a pattern that admits any value"),
    pytest.param({"type": "object", "patternProperties": {"^(a|b)[cd]$": INTEGER}, "minProperties": 5},
        ['{"ac":1,"bc":1,"ad":1,"bd":1,"e":1}'], ['{"ac":1}'], id="a pattern of too few keys"),
    pytest.param({"type": "object", "patternProperties": {"^x": {"$ref": "#"}}, "minProperties": 1},
        ['{"x":{"a":1}}'], ["{}", '{"x":{}}'], id="values of a pattern that would never end"),
    pytest.param({"type": "object", "properties": {"a": INTEGER}, "patternProperties": {"^x": {"$ref": "#"}}, "required": ["a"]},
        ['{"a":1}', '{"a":1,"x":{"a":1}}'], ['{"a":1,"b":1}'], id="values of a pattern that end in a required key"),
    pytest.param({"type": "object", "properties": {"a": INTEGER}, "patternProperties": {"^x[12]$": INTEGER}, "required": ["a"],
        "minProperties": 3}, ['{"a":1,"x1":1,"x2":1}'], ['{"a":1,"x1":1,"b":1}'], id="a pattern of just enough keys"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "accepted", "rejected"), CLOSED)
def test_a_schema_of_closed_objects_accepts_these_texts_and_rejects_those(schema, accepted, rejected):
    compiled = compile_schema(schema, objects="closed")
    assert [text for text in accepted if not compiled.accepts(text)] == []
    assert [text for text in rejected if compiled.accepts(text)] == []


TREES = {
    "http://example.com/tree.json": {
        "type": "object",
        "properties": {"value": INTEGER, "next": {"$ref": "#"}, "kind": {"$ref": "kinds.json#/$defs/kind"}},
        "required": ["value"],
    },
    "http://example.com/kinds.json": {"$defs": {"kind": {"enum": ["leaf", "node"]}}},
}


def test_other_documents_are_registered_and_never_fetched():
    schema = {"properties": {"tree": {"$ref": "http://example.com/tree.json"}}, "required": ["tree"]}
    compiled = compile_schema(schema, documents=TREES, objects="closed")
    assert compiled.accepts('{"tree":{"value":1,"next":{"value":2},"kind":"leaf"}}')
    for text in (
        "{}",
        '{"tree":{}}',
        '{"tree":{"value":1,"kind":"x"}}',
        '{"tree":{"next":{"value":2},"value":1}}',
    ):
        assert not compiled.accepts(text), text
    with pytest.raises(UnsupportedSchema, match=r"tree\.json"):
        compile_schema(schema)
    with pytest.raises(UnsupportedSchema, match=r"kinds\.json"):
        compile_schema(
            schema, documents={"http://example.com/tree.json": TREES["http://example.com/tree.json"]}
        )


def test_every_alternative_keeps_its_own_order():
    alert = {"type": "object", "properties": {"alert": STRING, "expr": STRING, "for": STRING},
             "required": ["alert", "expr"], "additionalProperties": False}  # fmt: skip
    record = {"type": "object", "properties": {"expr": STRING, "record": STRING, "for": STRING},
              "required": ["record", "expr"], "additionalProperties": False}  # fmt: skip
    compiled = compile_schema({"oneOf": [record, alert]})
    assert compiled.accepts('{"expr":"s","record":"s","for":"s"}')
    assert compiled.accepts('{"alert":"s","expr":"s","for":"s"}')
    assert not compiled.accepts('{"expr":"s","alert":"s"}')


def test_a_listed_value_is_not_taken_for_another_type():
    compiled = compile_schema({"enum": [[0], [False]], "type": "array", "items": {"type": "boolean"}})
    assert compiled.accepts("[false]")
    assert not compiled.accepts("[0]")
    integer = {"type": "object", "properties": {"a": INTEGER}, "enum": [{"a": True}, {"a": 1}]}
    assert not compile_schema(integer).accepts('{"a": true}')


@pytest.mark.parametrize(
    ("beside", "verdict"),
    [
        ({}, Verdict.NARROWED),
        ({"additionalProperties": False}, Verdict.EXACT),
        ({"unevaluatedProperties": False}, Verdict.EXACT),
        ({"propertyNames": {"pattern": "^x-"}}, Verdict.EXACT),
    ],
)
def test_the_report_says_that_keys_of_no_pattern_are_left_out_only_if_there_are_any(beside, verdict):
    schema = {"type": "object", "patternProperties": {"^x-": {"type": "boolean"}}, **beside}
    report = compile_schema(schema, objects="closed").report
    assert {entry.verdict for entry in report} == {verdict, Verdict.EXACT}


def test_report_names_every_keyword():
    schema = {
        "type": "object",
        "title": "T",
        "properties": {"b": {"type": "string", "minLength": 1, "x-note": 1}, "a": {"type": "boolean"}},
        "required": ["b"],
    }
    report = compile_schema(schema, objects="closed").report
    found = {(entry.pointer, entry.keyword): entry for entry in report}
    assert set(found) == {
        ("", "type"),
        ("", "properties"),
        ("", "required"),
        ("/properties/b", "type"),
        ("/properties/b", "minLength"),
        ("/properties/b", "x-note"),
        ("/properties/a", "type"),
    }
    assert found["", "properties"].verdict is Verdict.NARROWED
    assert "undeclared keys never" in found["", "properties"].note
    assert found["/properties/b", "minLength"].verdict is Verdict.EXACT
    assert found["/properties/b", "x-note"].verdict is Verdict.ANNOTATION


@pytest.mark.parametrize(
    ("keyword", "value", "note"),
    [
        ("propertes", {}, "unknown keyword, ignored; did you mean 'properties'?"),
        ("requierd", ["a"], "unknown keyword, ignored; did you mean 'required'?"),
        ("enums", ["a"], "unknown keyword, ignored; did you mean 'enum'?"),
        ("format", "e-mail", "unknown format 'e-mail', ignored; did you mean 'email'?"),
        ("format", "secret", "unknown format 'secret', ignored"),
        (
            "discriminator",
            {"propertyName": "kind"},
            (
                "ignored, since JSON Schema does not have it: "
                "let each alternative require the property, and list its values"
            ),
        ),
        ("contentEncoding", "base64", ""),
        ("x-note", 1, ""),
    ],
)
def test_what_is_ignored_is_told(keyword, value, note):
    report = compile_schema({"properties": {"a": {keyword: value}}}).report
    [entry] = [entry for entry in report if entry.keyword == keyword]
    assert entry == ReportEntry("/properties/a", keyword, Verdict.ANNOTATION, note)


@pytest.mark.parametrize(
    ("schema", "key", "meant"),
    [
        ({"properties": {"days": {}, "city": {}}, "required": ["city", "dayz"]}, "dayz", "days"),
        ({"properties": {"user_id": {}}, "required": ["userId"]}, "userId", "user_id"),
        ({"properties": {"days": {}, "dayz": {}}, "required": ["dayz"]}, None, None),
        ({"properties": {"item1": {}}, "required": ["item1", "item2"]}, None, None),
        ({"properties": {"days": {}}, "required": ["unit"]}, None, None),
        ({"required": ["dayz"]}, None, None),
        ({"properties": {"days": {}}, "required": ["dayz"], "additionalProperties": INTEGER}, None, None),
        (
            {"properties": {"days": {}}, "required": ["dayz"], "patternProperties": {"^d": INTEGER}},
            None,
            None,
        ),
        (
            {"properties": {"days": {}}, "required": ["dayz"], "allOf": [{"properties": {"dayz": {}}}]},
            None,
            None,
        ),
    ],
)
def test_a_required_key_that_is_probably_misspelled_is_told(schema, key, meant):
    """The model has to write it, and any value under it."""
    warnings = [(entry.keyword, entry.note) for entry in compile_schema(schema).report.warnings]
    note = f"no schema declares {key!r}, so any value is written for it; did you mean {meant!r}?"
    assert [(keyword, note in told) for keyword, told in warnings] == ([("required", True)] if key else [])


def test_few_required_keys_are_compared_with_declared_ones(monkeypatch):
    """Each takes 2 ms beside hundreds: 1,000 took 2 s of the 3 s that a schema may be lowered."""
    compared = []
    monkeypatch.setattr(final_report, "near_matches", lambda *args: compared.append(args) or ())
    required = [f"other{n}" for n in range(50)]
    lower_schema({"properties": {f"key{n}": {} for n in range(50)}, "required": required})
    assert 0 < len(compared) < 10


@pytest.mark.parametrize(
    ("required", "suggestion"),
    [
        ("dayz", "Declare it in `properties`; did you mean 'days'?"),
        ("unit", "Declare it in `properties`."),
    ],
)
def test_a_required_key_that_a_closed_object_forbids_is_named(required, suggestion):
    inner = {"properties": {"days": {}}, "required": ["days", required], "additionalProperties": False}
    with pytest.raises(UnsupportedSchema) as caught:
        compile_schema(OBJECT | {"properties": {"when": OBJECT | inner}, "required": ["when"]})
    assert (caught.value.pointer, caught.value.keyword) == ("/properties/when/required", "required")
    assert caught.value.reason == f"lists {required!r}, which `additionalProperties` forbids"
    assert caught.value.suggestion == suggestion


def test_the_report_names_what_is_referred_to_in_any_place():
    """Schemas made from OpenAPI documents have their definitions under `components`."""
    size = {"type": "integer", "minimun": 1}
    schema = {
        "properties": {"a": {"$ref": "#/components/schemas/A"}},
        "components": {
            "schemas": {"A": {"properties": {"size": {"$ref": "#/parts/0"}}}, "B": {"type": "null"}}
        },
        "parts": [size],
    }
    entries = {
        (entry.pointer, entry.keyword): entry for entry in compile_schema(schema, objects="closed").report
    }
    assert entries["/components/schemas/A", "properties"].verdict is Verdict.NARROWED
    assert entries["/parts/0", "type"].verdict is Verdict.NARROWED
    assert "'minimum'" in entries["/parts/0", "minimun"].note
    assert not any(pointer.startswith("/components/schemas/B") for pointer, _ in entries)


DOUBLE = 1.7976931348623157e308


@pytest.mark.parametrize(
    ("schema", "accepted", "rejected"),
    [
        ({"minimum": -DOUBLE, "maximum": DOUBLE}, ["1", "-2.5", "3e90"], []),
        ({"exclusiveMinimum": -DOUBLE, "exclusiveMaximum": DOUBLE}, ["1", "-2.5", "3e90"], []),
        ({"minimum": 5, "maximum": DOUBLE}, ["5", "6.25"], ["4"]),
        ({"minimum": 5, "maximum": 1e50}, ["5", "6.25"], ["4", "9" * 51]),
        ({"type": "integer", "minimum": 10**38, "maximum": 2 * 10**40}, ["9" * 40], ["1", "9" * 41]),
        ({"type": "integer", "minimum": 10**39, "maximum": 10**50}, ["9" * 40, "9" * 41], ["1", "9" * 51]),
        ({"type": "integer", "minimum": 10**39, "maximum": 10**40}, ["9" * 39 + "0"], ["1", "9" * 41]),
        ({"type": "integer", "minimum": -1e60, "maximum": 1e300, "multipleOf": 3}, ["6", "-3"], ["4"]),
    ],
)
def test_bounds_out_of_reach_are_no_obstacle(schema, accepted, rejected):
    """Schema generators write the largest double where they mean any number."""
    compiled = compile_schema({"type": "number"} | schema)
    assert [text for text in accepted if not compiled.accepts(text)] == []
    assert [text for text in rejected if compiled.accepts(text)] == []
    assert any(entry.verdict is Verdict.NARROWED for entry in compiled.report)


@pytest.mark.parametrize(
    "names", [{"format": "unknown"}, {"format": ""}, {"minLength": 1, "format": "unknown"}]
)
@pytest.mark.parametrize(
    "said", [{"properties": {"a": {"type": "integer"}}}, {"patternProperties": {"^a$": {"type": "integer"}}}]
)
def test_a_key_that_names_may_not_admit_is_no_undeclared_key(names, said):
    """If `a` were left out of the declared keys, any value would be admitted under it."""
    compiled = compile_schema({"type": "object", "propertyNames": names, **said})
    assert not compiled.accepts('{"a": "x"}')
    assert compiled.accepts('{"b": "x"}')
    if "properties" in said:
        assert any("are never written: a" in entry.note for entry in compiled.report)
