"""Dialect-dependent keywords: outputs are valid under both readings, or the schema is refused."""

import json

import pytest
from soundness.judges import Judges
from soundness.schemas import DIALECTS

from compiler.errors import UnsupportedSchema
from compiler.report import Verdict
from compiler.schema import compile_schema

NEEDS = {"dependencies": {"b": ["c"]}}
BRIEF = {"format": "time", "minLength": 2, "maxLength": 7}
INSTANCES = (
    1,
    "ab",
    "a",
    "abcdefgh",
    "12:00:00Z",
    "aGk=",
    {},
    {"b": 1},
    {"c": 1},
    {"b": 1, "c": 1},
    [{"b": 1}],
)


def placed(schema):
    """The schema under keywords where asserting more admits more, and under others."""
    yield {"not": schema}
    yield {"oneOf": [schema, {"required": ["b"]}]}
    yield {"oneOf": [schema, {"minLength": 1}]}
    yield {"if": schema, "then": {"minProperties": 5, "minLength": 2}}
    yield {"if": schema, "else": {"minProperties": 1}}
    yield {"contains": schema, "maxContains": 0}
    yield {"allOf": [{"not": {"$ref": "#/definitions/inner"}}], "definitions": {"inner": schema}}
    yield {"properties": {"b": schema}, "not": {"required": ["c"]}}
    yield {"allOf": [schema]}


@pytest.mark.parametrize("draft", DIALECTS)
@pytest.mark.parametrize(
    "keyword", [NEEDS, BRIEF, {"contentEncoding": "base64"}], ids=lambda k: next(iter(k))
)
def test_what_is_written_is_valid_under_either_reading(draft, keyword):
    num_written = 0
    for schema in placed(keyword):
        dated = {"$schema": DIALECTS[draft], **schema}
        try:
            compiled = compile_schema(dated)
        except UnsupportedSchema:
            continue
        judges = Judges(dated)
        for instance in INSTANCES:
            text = json.dumps(instance)
            if compiled.accepts(text):
                num_written += 1
                assert judges.faults(text.encode()) == [], (dated, text)
    assert num_written > 20


def test_the_report_names_it():
    compiled = compile_schema({"type": "object", "oneOf": [NEEDS, {"required": ["b"]}]})
    (entry,) = [entry for entry in compiled.report.entries if entry.keyword == "dependencies"]
    assert entry.verdict is Verdict.NARROWED
    assert "not all validators" in entry.note


def test_where_it_cannot_be_resolved_the_refusal_names_it():
    tree = {"properties": {"next": {"$ref": "#"}}, "not": {"required": ["x"], **NEEDS}}
    with pytest.raises(UnsupportedSchema) as refusal:
        compile_schema(tree)
    assert (refusal.value.pointer, refusal.value.keyword) == ("/not/dependencies", "dependencies")
    assert "dependentRequired" in refusal.value.suggestion


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"é": {}}, "patternProperties": {r"^\w{1,3}$": False}},
        {"properties": {"é": {"type": "integer"}}, "patternProperties": {r"^\w$": {"type": "string"}}},
        {"required": ["é"], "patternProperties": {r"^\w$": {"type": "string"}}},
        {"properties": {"é": {}}, "propertyNames": {"pattern": r"^\W+$"}},
        {"properties": {"é": {}}, "propertyNames": {"not": {"pattern": r"^\w+$"}}},
        {"propertyNames": {"enum": ["é", "e"], "pattern": r"^\W$"}},
        {"enum": ["é", "e"], "pattern": r"^\W$"},
        {"const": {"é": 1}, "patternProperties": {r"^\w$": False}},
        {"enum": ["a\n", "e"], "not": {"pattern": "^a$"}},
        {"properties": {"x": {"const": ["é"]}}, "not": {"properties": {"x": {"items": {"pattern": r"\w"}}}}},
    ],
)
def test_a_literal_that_engines_match_differently_is_refused(schema):
    with pytest.raises(UnsupportedSchema, match="engines disagree"):
        compile_schema(schema)


def test_other_literals_are_matched():
    compiled = compile_schema(
        {"properties": {"é": {"type": "integer"}}, "patternProperties": {"^[à-ü]$": {"minimum": 2}}}
    )
    assert compiled.accepts('{"é": 2}')
    assert not compiled.accepts('{"é": 1}')


@pytest.mark.xfail(strict=True, reason="listed values are checked against the formats of their draft alone")
@pytest.mark.parametrize("dialect", ["draft-04", "draft-07"])
def test_listed_values_are_of_a_format_that_their_draft_does_not_know(dialect):
    """A listed text that is no `duration` is valid where the draft decides, and not to ajv, which asserts it."""
    schema = {
        "$schema": f"http://json-schema.org/{dialect}/schema#",
        "properties": {"a": {"enum": ["x-1", "P1D"]}},
        "patternProperties": {"^a": {"format": "duration"}},
    }
    compiled = compile_schema(schema)
    assert compiled.accepts('{"a": "P1D"}')
    assert not compiled.accepts('{"a": "x-1"}')
