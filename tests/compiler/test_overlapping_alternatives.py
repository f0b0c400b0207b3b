"""`oneOf` of objects without a discriminator: written exactly while the cases are few, narrowed from there on."""

import json
from itertools import product

import pytest
from jsonschema_rs import canonical
from soundness.judges import Judges

from compiler.frontend import case_subtraction, expansion, single_form
from compiler.report import Verdict
from compiler.schema import compile_schema


def alternatives(num_alternatives, *, is_required):
    return {
        "oneOf": [
            {
                "type": "object",
                "properties": {f"a{number}": {"type": "string"}, f"b{number}": {"type": "integer"}},
                **({"required": [f"a{number}"]} if is_required else {}),
            }
            for number in range(num_alternatives)
        ]
    }


@pytest.mark.parametrize("is_required", [True, False])
@pytest.mark.parametrize("num_alternatives", [2, 4, 6, 20])
def test_exactly_one_alternative_applies(num_alternatives, is_required):
    schema = alternatives(num_alternatives, is_required=is_required)
    compiled, judges = compile_schema(schema), Judges(schema)
    for first, second, third in product((None, "x", 1), repeat=3):
        members = {"a0": first, "a1": second, "b1": third}
        text = json.dumps({key: value for key, value in members.items() if value is not None})
        assert not compiled.accepts(text) or judges.faults(text.encode()) == [], text
    if is_required:
        assert compiled.accepts('{"a1": "x", "b1": 1}')


def test_few_alternatives_are_exact_and_many_are_told_to_be_narrowed():
    note = "only values that are known to fail the schemas which must fail"
    told = {
        number: [
            entry.verdict
            for entry in compile_schema(alternatives(number, is_required=True)).report
            if entry.keyword == "oneOf" and note in entry.note
        ]
        for number in (3, 8)
    }
    assert told == {3: [], 8: [Verdict.NARROWED]}


def test_few_alternatives_admit_what_fails_another_one_by_a_value():
    assert compile_schema(alternatives(3, is_required=True)).accepts('{"a0": "x", "a1": 5}')


def test_what_is_left_out_of_a_narrowed_alternative_is_not_admitted_beside_it(monkeypatch):
    """A value of a narrowed `oneOf` that is not written is still one of its values, so it fails the outer `oneOf`."""
    monkeypatch.setattr(expansion, "MAX_EXACT", 1)
    monkeypatch.setattr(single_form, "MAX_ALTERNATIVES", 0)
    inner = alternatives(3, is_required=True)
    schema = {"oneOf": [inner, {"type": "object", "required": ["a0"]}]}
    compiled, judges, num_accepted = compile_schema(schema), Judges(schema), 0
    for first, second, third in product((None, "x", 1), repeat=3):
        members = {"a0": first, "a1": second, "a2": third}
        text = json.dumps({key: value for key, value in members.items() if value is not None})
        if compiled.accepts(text):
            num_accepted += 1
            assert judges.faults(text.encode()) == [], text
    assert num_accepted > 2


def test_what_fails_too_many_alternatives_is_written_in_part(monkeypatch):
    def has_no_form(*_):
        raise canonical.UnsupportedResult("too large")

    monkeypatch.setattr(expansion, "MAX_CASES", 3)
    monkeypatch.setattr(case_subtraction, "MAX_CASES", 3)
    monkeypatch.setattr(expansion, "single_form", has_no_form)
    kinds = ("cat", "dog", "cow")
    alternatives = [
        {
            "type": "object",
            "properties": {"kind": {"const": kind}, "next": {"$ref": "#/$defs/node"}, kind: {"type": "null"}},
            "required": ["kind"],
            "additionalProperties": False,
        }
        for kind in kinds
    ]
    schema = {
        "$defs": {
            "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}},
            "kinds": {"anyOf": alternatives},
        },
        "allOf": [{"$ref": "#/$defs/node"}, {"not": {"$ref": "#/$defs/kinds"}}],
    }
    compiled, judges, num_accepted = compile_schema(schema), Judges(schema), 0
    for kind, following, cat in product(("", *kinds, 1), ("", {}, {"next": 1}), ("", None, 1)):
        members = {"next": following, "kind": kind, "cat": cat}
        text = json.dumps({key: value for key, value in members.items() if value != ""})
        if compiled.accepts(text):
            num_accepted += 1
            assert judges.faults(text.encode()) == [], text
    assert num_accepted
    assert any("known to fail" in entry.note for entry in compiled.report)


def test_of_many_choices_which_keys_fail_some_are_written_and_told():
    listed = (["1", "3"], ["2", "7", "9"], ["2", "3", "8"], ["2", "4", "5"], ["1", "2", "5"])
    schema = {
        "type": "object",
        "patternProperties": {"^[0-9]$": {"type": "null"}},
        "additionalProperties": False,
        "not": {"anyOf": [{"propertyNames": {"not": {"enum": names}}} for names in listed]},
        "maxProperties": 3,
    }
    compiled, judges = compile_schema(schema), Judges(schema)
    keys = [tuple(filter(None, chosen)) for chosen in product(("", "1", "3"), ("", "2"), ("", "4", "7"))]
    accepted = [text for text in (json.dumps(dict.fromkeys(each)) for each in keys) if compiled.accepts(text)]
    assert accepted
    assert [judges.faults(text.encode()) for text in accepted] == [[]] * len(accepted)
    told = [entry for entry in compiled.report if "24 of the many choices" in entry.note]
    assert [(entry.keyword, entry.verdict) for entry in told] == [("not", Verdict.NARROWED)]


def test_a_large_object_with_alternatives_in_a_property_is_not_subtracted_as_a_whole(monkeypatch):
    nodes = {
        "n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}},
        "m": {"type": "object", "properties": {"m": {"type": "integer"}}, "required": ["m"]},
    }
    one_of = {"oneOf": [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/m"}]}
    objects = [
        {"type": "object", "properties": {"x": one_of, "y": {"type": "integer"}}},
        {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "boolean"}}},
    ]
    schema = {"$defs": nodes, "oneOf": objects}
    members = product((None, "x", {}, {"m": 1}, {"n": {}}), (None, 1, True))
    texts = [
        json.dumps({key: v for key, v in zip("xy", pair, strict=True) if v is not None}) for pair in members
    ]
    judges = Judges(schema)
    valid = {text for text in texts if judges.faults(text.encode()) == []}
    assert {text for text in texts if compile_schema(schema).accepts(text)} == valid
    monkeypatch.setattr(single_form, "MAX_NEGATED", 0)
    in_cases = compile_schema(schema)
    assert {text for text in texts if in_cases.accepts(text)} < valid
