"""Refusals: every error names the pointer, the keyword, the reason and a suggestion."""

import math

import pytest

from compiler import compile_schema, compile_toolset
from compiler.errors import UnsupportedSchema, UnsupportedToolset
from compiler.schema import lower_schema
from toolspecs.json_pointer import child
from toolspecs.schemas.drafts import DEFAULT_DRAFT, OPENAPI_3_0
from toolspecs.tool import Tool

ID = "https://example.com/"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
NOTHING = {"type": "string", "minLength": 5, "maxLength": 3}


def refused(schema, **options):
    with pytest.raises(UnsupportedSchema) as refusal:
        compile_schema(schema, **options)
    assert refusal.value.reason
    assert refusal.value.suggestion
    assert not refusal.value.reason.endswith(": ")
    return refusal.value


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        (NOTHING, ""),
        ({"not": {}}, "not"),
        ({"enum": []}, "enum"),
        ({"anyOf": [False, False]}, "anyOf"),
        ({"allOf": [True, False]}, ""),
        (False, ""),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 5e-324}, ""),
        ({"pattern": r"^\a$"}, "pattern"),
        ({"pattern": '"('}, "pattern"),
        ({"pattern": "(?<=a)b"}, "pattern"),
        ({"patternProperties": {r"\a/": {}}}, "patternProperties"),
        ({"type": "number", "minimum": 1e308}, "minimum"),
        ({"type": "number", "exclusiveMinimum": 1e308}, "exclusiveMinimum"),
        ({"type": "integer", "maximum": -1e60}, "maximum"),
        ({"type": "number", "multipleOf": 10**400}, "multipleOf"),
        ({"$id": ID, "$schema": "http://json-schema.org/draft-07/schema#", "type": "integer"}, "$schema"),
        ({"$id": ID, "items": {"$id": "a/", "items": {"$ref": "b.json"}}}, "$ref"),
    ],
)
def test_a_refusal_names_the_place_the_keyword_and_a_way_out(schema, keyword):
    refusal = refused({"type": "object", "properties": {"a/b": schema}, "required": ["a/b"]})
    at = refusal.pointer.removeprefix("/properties/a~1b")
    assert at != refusal.pointer
    assert refusal.keyword == keyword
    if keyword == "patternProperties":
        assert at == child("", keyword, r"\a/")
    else:
        assert at.endswith(f"/{keyword}" if keyword else "")


@pytest.mark.parametrize("far", [{}, {"maximum": 10**60}])
def test_the_limit_of_a_lower_bound_is_what_its_refusal_says(far):
    """It does not depend on the other bound."""
    compile_schema({"type": "integer", "minimum": 10**39, **far})
    refusal = refused({"type": "integer", "minimum": 10**40, **far})
    assert (refusal.keyword, refusal.reason) == ("minimum", "is too far from zero: the limit is 40 digits")


@pytest.mark.parametrize(
    ("schema", "pointer", "shown"),
    [
        ({"$ref": "other.json"}, "/$ref", "other.json"),
        ({"items": {"$ref": "other.json#/$defs/it's"}}, "/items/$ref", "other.json#/$defs/it's"),
        ({"items": {"$ref": "https://example.org/x"}}, "/items/$ref", "https://example.org/x"),
        ({"$id": ID, "items": {"$ref": "b.json#c"}}, "/items/$ref", f"b.json#c ({ID}b.json)"),
        ({"items": {"$ref": "#/$defs/a%20b"}}, "/items/$ref", "#/$defs/a%20b"),
        ({"items": {"$ref": "#anchor"}}, "/items/$ref", "#anchor"),
        ({"items": {"$dynamicRef": "#anchor"}}, "/items/$dynamicRef", "#anchor"),
        ({"contentSchema": {"$ref": "b.json"}}, "/contentSchema/$ref", "b.json"),
        ({"contentSchema": {"$id": ID, "$ref": "b.json"}}, "/contentSchema/$ref", f"b.json ({ID}b.json)"),
    ],
)
def test_a_reference_to_nothing_is_shown_as_it_is_written(schema, pointer, shown):
    refusal = refused(schema)
    assert (refusal.pointer, refusal.keyword) == (pointer, pointer.rpartition("/")[2])
    assert refusal.reason == f"refers to {shown}, but there is no such schema"


NAMES = "abcdefghijkl"
DRAFT_6 = "http://json-schema.org/draft-06/schema#"
UNSEEN = {name: {"$id": f"{ID}{name}"} for name in NAMES}
"""Schemas where draft 6 has no keyword for them, so that nothing leads to them by their names."""


def documents(content):
    """One document for each name."""
    return {f"{ID}{name}": content(name) for name in NAMES}


def referring_on(name):
    """A document of draft 6 that refers to a schema which nothing leads to."""
    return {"$schema": DRAFT_6, "$ref": f"{ID}no-{name}", "$defs": {"a": {"$id": f"{ID}no-{name}"}}}


@pytest.mark.parametrize("others", [{}, documents(referring_on)])
def test_of_several_missing_targets_the_first_is_named(others):
    """A set in `jsonschema_rs` has no order."""
    referring = {name: {"$ref": f"{ID}{name}"} for name in NAMES}
    schema = {"$schema": DRAFT_6, "properties": referring, "$defs": {} if others else UNSEEN}
    refusals = {str(refused(schema, documents=others)) for _ in range(8)}
    assert len(refusals) == 1
    assert refusals.pop().startswith(f"{ID}a#/$ref: " if others else "/properties/a/$ref: ")


def test_of_several_malformed_uris_the_first_is_named():
    schema = {"properties": {name: {"$ref": f"{ID}{name}"} for name in NAMES}}
    malformed = documents(lambda name: {"$id": f"http://[{name}"})
    assert {refused(schema, documents=malformed).pointer for _ in range(8)} == {f"{ID}a#/$id"}


def test_of_several_malformed_patterns_the_first_is_named():
    """By its pointer and by its text."""
    refusal = refused({"properties": {name: {"pattern": f"({name}"} for name in NAMES}})
    assert (refusal.pointer, refusal.reason) == ("/properties/a/pattern", 'invalid regular expression: "(a"')


@pytest.mark.parametrize("keywords", [("pattern", "patternProperties"), ("patternProperties", "pattern")])
def test_the_first_malformed_pattern_is_named_whatever_its_keyword(keywords):
    """Not those of `pattern` first."""
    holders = {"pattern": {"pattern": "(a"}, "patternProperties": {"patternProperties": {"(a": True}}}
    refusal = refused({"properties": {keyword: holders[keyword] for keyword in keywords}})
    assert refusal.pointer.startswith(f"/properties/{keywords[0]}/")


def test_a_malformed_uri_is_told_where_it_is():
    refusal = refused({"items": {"$id": "https://[bad"}})
    assert (refusal.pointer, refusal.keyword) == ("/items/$id", "$id")
    assert refusal.suggestion == "Leave it out, or write a URI."


def test_a_malformed_identifier_is_told_rather_than_what_refers_to_its_schema():
    refusal = refused({"$id": "my tool", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": {}}})
    assert (refusal.pointer, refusal.keyword) == ("/$id", "$id")
    refusal = refused({"items": {"$ref": ID}}, documents={ID: {"items": {"$id": "a b"}}})
    assert (refusal.pointer, refusal.keyword) == (f"{ID}#/items/$id", "$id")


def test_a_malformed_schema_is_told_as_that_of_a_tool():
    refusal = refused({"items": {"type": "objec"}})
    assert (refusal.pointer, refusal.keyword) == ("/items/type", "type")
    assert refusal.reason == "not a valid JSON Schema: unknown type 'objec'"
    assert refusal.suggestion == "Did you mean 'object'?"
    assert "'prefixItems'" in refused({"$schema": DRAFT_2020, "items": [{}]}).suggestion


def test_an_unknown_dialect_is_named():
    refusal = refused({"$schema": ID, "type": "string"})
    assert (refusal.pointer, refusal.keyword) == ("/$schema", "$schema")
    assert "2020-12" in refusal.suggestion


def test_an_embedded_schema_in_another_dialect_is_named_where_it_is_defined():
    embedded = {"$id": ID, "$schema": "http://json-schema.org/draft-07/schema#", "type": "integer"}
    refusal = refused({"$schema": DRAFT_2020, "$defs": {"a": embedded}, "items": {"$ref": ID}})
    assert (refusal.pointer, refusal.keyword) == ("/$defs/a/$schema", "$schema")


def test_keys_that_a_syntax_cannot_write_are_what_is_refused():
    """The refusal names `minProperties`, not the schema, which admits many objects."""
    schema = {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1}
    with pytest.raises(UnsupportedToolset) as refusal:
        compile_toolset([Tool("f", "", schema)], syntax="qwen3_coder")
    [(_, error)] = refusal.value.refusals
    assert (error.pointer, error.keyword) == ("/minProperties", "minProperties")
    assert "undeclared" in error.reason
    assert error.suggestion


@pytest.mark.parametrize(
    ("schema", "pointer", "advice"),
    [
        ({"pattern": r"^[\w-.]+$"}, "/pattern", "Escape the hyphen"),
        ({"pattern": r"^[.-\w]+$"}, "/pattern", "Escape the hyphen"),
        ({"pattern": r"^[\w-]+($"}, "/pattern", "Write it in the syntax of ECMA-262"),
        ({"contains": {"type": "integer"}, "maxContains": 700}, "/contains", "Lower `minContains` and"),
        ({"$ref": "#/\ud800"}, "", "Remove it."),
    ],
)
def test_the_way_out_is_one(schema, pointer, advice):
    with pytest.raises(UnsupportedSchema) as refused:
        compile_schema(schema)
    assert refused.value.pointer == pointer
    assert advice in refused.value.suggestion


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword"),
    [
        pytest.param(NOTHING, "", "", id="several keywords"),
        pytest.param(False, "", "", id="false"),
        pytest.param({"type": "array", "items": False, "minItems": 2}, "/items", "", id="false inside"),
        pytest.param({"type": "object", "properties": {"p": {"enum": []}}, "minProperties": 2, "maxProperties": 1}, "", "",
            id="an empty part that need not be there"),
        pytest.param({"$defs": {"a": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}, "", "",
            id="endless recursion"),
        pytest.param({"properties": {"p": {"$ref": "#/$defs/d"}}, "$defs": {"d": {"pattern": "(?<=a)b"}}},
            "/$defs/d/pattern", "pattern", id="through a reference"),
        pytest.param({"properties": {"p": {"allOf": [{"type": "array"}, {"uniqueItems": True, "minItems": 500}]}}},
            "/properties/p/allOf/1/uniqueItems", "uniqueItems", id="in a combination"),
    ],
)  # fmt: skip
def test_a_refusal_is_told_where_the_fault_is(schema, pointer, keyword):
    refusal = refused(schema)
    assert (refusal.pointer, refusal.keyword) == (pointer, keyword)


@pytest.mark.parametrize(
    "schema", [{"const": "\ud800"}, {"pattern": "\ud800", "minimum": 0, "exclusiveMinimum": True}]
)
def test_a_lone_surrogate_is_refused(schema):
    """The second one is in an undeclared draft."""
    with pytest.raises(UnsupportedSchema, match="surrogate"):
        compile_schema(schema)


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"const": math.inf}, "/const"),
        ({"enum": [1, math.nan]}, "/enum/1"),
        ({"const": {"a/b": [-math.inf]}}, "/const/a~1b/0"),
        ({"maximum": math.inf}, "/maximum"),
    ],
)
def test_what_json_cannot_hold_is_refused_at_its_place(schema, pointer):
    """It would be taken for `null`."""
    with pytest.raises(UnsupportedSchema, match="infinity or NaN") as refusal:
        compile_schema(schema)
    assert refusal.value.pointer == pointer


@pytest.mark.parametrize("dialect", [DEFAULT_DRAFT, OPENAPI_3_0])
def test_hostile_depth_is_refused(dialect):
    """In OpenAPI's dialect, too."""
    schema = {}
    for _ in range(100_000):
        schema = {"type": "array", "items": schema}
    schema["$schema"] = dialect
    with pytest.raises(UnsupportedSchema, match="deep"):
        compile_schema(schema)
    while schema:  # taken apart by hand: the interpreter would recurse
        schema = schema.pop("items", None)


UNRESOLVED = {"allOf": [{"contains": {"const": 2}}, {"contains": {"const": 3}}], "unevaluatedItems": False}


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [(UNRESOLVED, ""), ({"type": "object", "properties": {"a": UNRESOLVED}}, "/properties/a")],
)
def test_arguments_that_stay_unresolved_are_refused_where_they_do(schema, pointer):
    """This holds for tool arguments too, which are objects only."""
    for only_objects in (False, True):
        with pytest.raises(
            UnsupportedSchema, match=r"cannot be resolved \(allOf, unevaluatedItems\)"
        ) as refusal:
            lower_schema(schema, only_objects=only_objects)
        assert refusal.value.pointer == pointer


def test_what_canonical_form_cannot_combine_is_refused():
    below = {"items": {"minLength": 1}}
    schema = {
        "items": {"$ref": "#/$defs/n"},
        "contains": {"patternProperties": {"^b": below}},
        "$defs": {"n": {"anyOf": [{"properties": {"b": {}}, "additionalProperties": {"maxLength": 7}}]}},
    }
    refused(schema)


def test_a_number_of_too_many_digits_is_refused():
    refused({"type": "string", "maxLength": 10**5000})


def test_two_tools_of_one_name_are_refused():
    """Else the second would take the place of the first."""
    tools = [Tool("f", "", {"type": "object", "properties": {name: {"type": "string"}}}) for name in "ab"]
    with pytest.raises(UnsupportedToolset, match="same name"):
        compile_toolset(tools)
