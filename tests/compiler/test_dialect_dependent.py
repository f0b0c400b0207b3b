"""Dialect-dependent keywords: outputs are valid under both readings, or the schema is refused."""

import json

import pytest
from soundness.judges import Judges
from soundness.schemas import DIALECTS

from compiler.errors import UnsupportedSchema
from compiler.frontend.canonical_form import draft_of
from compiler.report import Verdict
from compiler.schema import compile_schema
from toolspecs.schemas.drafts import SchemaDraft, draft_named

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


@pytest.mark.parametrize("draft", [4, 6])
@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ([{"format": "idn-email"}, {"maxLength": 8, "not": {"format": "time"}}], "a@b.co", "a"),
        ([{"format": "regex"}, {"maxLength": 8, "not": {"format": "time"}}], "a", "("),
        ([{"format": "regex"}, {"minLength": 11, "not": {"$ref": "#/definitions/d"}}], "a", "(" * 11),
    ],
)
def test_a_validator_may_assert_some_formats_and_others_not(draft, schema, valid, invalid):
    """Python's `jsonschema` asserts `regex` and `idn-email` in every draft, and `date` and `time` since draft 7."""
    dated = {"$schema": DIALECTS[draft], "anyOf": schema, "definitions": {"d": {"format": "date"}}}
    compiled, judges = compile_schema(dated), Judges(dated)
    assert judges.faults(json.dumps(invalid).encode())
    assert not compiled.accepts(json.dumps(invalid))
    assert compiled.accepts(json.dumps(valid))


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


@pytest.mark.parametrize(
    "outer",
    [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft-07/schema",
    ],
)
@pytest.mark.parametrize("named", [{}, {"$id": "http://r.test/x"}, {"id": "x"}], ids=str)
def test_another_dialect_beside_a_reference_is_refused_where_it_would_be_dropped(outer, named):
    """Validators take what stands beside the reference for assertions then, and canonicalization does not."""
    inner = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/definitions/s",
        "minLength": 3,
    }
    schema = {"$schema": outer, "properties": {"a": inner | named}, "definitions": {"s": {"type": "string"}}}
    with pytest.raises(UnsupportedSchema) as refused:
        compile_schema(schema)
    assert refused.value.pointer == "/properties/a/$schema"


@pytest.mark.parametrize("scheme", ["http", "https", "HTTP", "urn"])
@pytest.mark.parametrize("suffix", ["", "#", "##", "/"])
@pytest.mark.parametrize("draft", SchemaDraft)
def test_a_draft_is_known_by_the_spellings_by_which_it_is_canonicalized(scheme, suffix, draft):
    """A draft's URI may have either scheme, as validators take both."""
    uri = f"{scheme}://{draft.uri.partition('://')[2]}{suffix}"
    schema = {"$schema": uri, "type": "string"}
    if draft_named(uri) is None:
        with pytest.raises(UnsupportedSchema, match="unknown dialect"):
            compile_schema(schema)
    else:
        assert draft_named(uri) == draft_of(schema) == draft
