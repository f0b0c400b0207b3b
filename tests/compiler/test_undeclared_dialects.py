"""Schemas without `$schema` that are not valid in the newest draft, and those of OpenAPI 3.0."""

import json
import random

import pytest
from corpus import corpus
from fuzz.instances import InstanceMaker
from fuzz.schemas import SchemaMaker
from soundness.judges import Judges
from soundness.schemas import DIALECTS

from compiler.errors import UnsupportedSchema
from compiler.frontend.containment import covers
from compiler.report import Verdict
from compiler.schema import compile_schema
from toolspecs.schemas.dialects import dialect_of
from toolspecs.schemas.drafts import DEFAULT_DRAFT

OPENAPI = "https://spec.openapis.org/oas/3.0/schema/2021-09-28"
POSITIVE = {"type": "integer", "minimum": 0, "exclusiveMinimum": True}
PAIR = {"type": "array", "items": [{"type": "integer"}, {"type": "string"}], "additionalItems": False}


@pytest.mark.parametrize(
    ("schema", "dialect", "valid", "invalid"),
    [
        (POSITIVE, DIALECTS[4], ["1"], ["0", "true"]),
        (PAIR, DIALECTS[2019], ["[]", '[1,"a"]'], ['["a"]', '[1,"a",2]']),
        ({"anyOf": [POSITIVE, PAIR]}, DIALECTS[4], ["1", "[1]"], ["0", "[1,2]"]),
    ],
)
def test_a_schema_is_read_in_the_draft_in_which_it_is_valid(schema, dialect, valid, invalid):
    compiled = compile_schema(schema)
    assert [compiled.accepts(text) for text in valid + invalid] == [True] * len(valid) + [False] * len(
        invalid
    )
    judges = Judges({"$schema": dialect, **schema})
    assert [text for text in valid if judges.faults(text.encode())] == []
    (told,) = compiled.report.warnings
    assert (told.pointer, told.keyword, told.verdict) == ("", "$schema", Verdict.ANNOTATION)
    assert dialect.removesuffix("#") in told.note


def test_a_declared_draft_is_not_told():
    assert list(compile_schema({"$schema": DIALECTS[4], **POSITIVE}).report.warnings) == []


@pytest.mark.parametrize(
    "other",
    [
        {"const": 1},
        {"properties": {"a": {"contains": {}}}},
        {"dependentRequired": {"a": ["b"]}},
        {"definitions": {"a": {}}, "not": {"$ref": "#/definitions/a", "minLength": 1}},
    ],
)
def test_no_keyword_loses_its_force_to_a_guessed_draft(other):
    with pytest.raises(UnsupportedSchema) as refused:
        compile_schema({"allOf": [POSITIVE, other]})
    assert "draft-04" in refused.value.suggestion or "valid" in refused.value.reason


def test_a_schema_that_refers_to_documents_is_not_guessed():
    documents = {"https://example.com/a": {"const": 1}}
    schema = {"properties": {"a": POSITIVE, "b": {"$ref": "https://example.com/a"}}}
    with pytest.raises(UnsupportedSchema):
        compile_schema(schema, documents=documents)


def test_schemas_are_compared_in_the_draft_that_they_are_read_in():
    at_least_one = {"properties": {"a": {"type": "integer", "minimum": 1}}}
    guessed = {"properties": {"a": POSITIVE}}
    assert covers((guessed, {}), ({"$schema": DIALECTS[4], **at_least_one}, {}))
    assert covers((guessed, {}), (guessed, {}))


def test_nullable_is_ignored_and_told():
    compiled = compile_schema({"properties": {"a": {"type": "string", "nullable": True}}, "required": ["a"]})
    assert compiled.accepts('{"a": "x"}')
    assert not compiled.accepts('{"a": null}')
    (told,) = compiled.report.warnings
    assert (told.pointer, told.keyword) == ("/properties/a", "nullable")
    assert "null" in told.note


@pytest.mark.parametrize(
    ("schema", "admits_null"),
    [
        ({"type": "string", "nullable": True}, True),
        ({"type": "string", "nullable": True, "enum": ["a", None]}, True),
        ({"type": "string", "nullable": True, "enum": ["a"]}, False),
        ({"type": "string", "nullable": False}, False),
        ({"allOf": [{"type": "string"}], "nullable": True}, False),
        ({"allOf": [{"type": "string", "nullable": True}], "type": "string"}, False),
        ({"allOf": [{"type": "string", "nullable": True}], "type": "string", "nullable": True}, True),
        ({"$ref": "#/definitions/text"}, True),
    ],
)
def test_openapi_says_where_null_is_admitted(schema, admits_null):
    definitions = {"text": {"type": "string", "nullable": True}}
    compiled = compile_schema(
        {
            "$schema": OPENAPI,
            "properties": {"a": schema, "b": POSITIVE},
            "required": ["a"],
            "definitions": definitions,
        }
    )
    assert compiled.accepts('{"a": null}') is admits_null
    assert compiled.accepts('{"a": "a", "b": 1}')
    assert not compiled.accepts('{"a": "a", "b": 0}')


def test_the_tool_of_mcp_that_declares_no_draft_is_compiled():
    tools = json.loads((corpus("mcp") / "pdf-reader.json").read_text())
    (schema,) = [tool["inputSchema"] for tool in tools if tool["name"] == "read_pdf"]
    compiled = compile_schema(schema, objects="closed")
    assert compiled.accepts('{"sources": [{"path": "a.pdf", "pages": [1, 2]}]}')
    assert not compiled.accepts('{"sources": [{"path": "a.pdf", "pages": [0]}]}')


@pytest.mark.parametrize(("draft", "count"), [(4, 150), (2019, 500)])
def test_what_is_written_is_valid_in_the_guessed_draft(draft, count):
    num_compiled = 0
    for seed in range(count):
        rng = random.Random(seed)
        schema = SchemaMaker(rng, draft).document(2)
        undeclared = {keyword: value for keyword, value in schema.items() if keyword != "$schema"}
        dialect = dialect_of(undeclared)
        if dialect == DEFAULT_DRAFT:
            continue
        try:
            compiled = compile_schema(undeclared)
        except UnsupportedSchema:
            continue
        num_compiled += 1
        declared = {"$schema": dialect, **undeclared}
        judges, maker = Judges(declared), InstanceMaker(declared, rng)
        for _ in range(30):
            text = json.dumps(maker.instance())
            assert not (compiled.accepts(text) and judges.faults(text.encode())), text
    assert num_compiled > 10
