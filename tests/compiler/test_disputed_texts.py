"""Texts that stand in a schema and are of a format to some validators only: outputs are valid to all."""

import json
import re

import pytest
from fuzz.pools import FORMATS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from soundness.judges import Judges
from soundness.schemas import DIALECTS

from compiler.errors import UnsupportedSchema
from compiler.report import Verdict
from compiler.schema import compile_schema

DURATION = {"format": "duration"}
LISTS = [
    {"properties": {"a": {"enum": ["x-1", "P1D"]}}, "patternProperties": {"^a": DURATION}},
    {"enum": [{"a": "x-1"}, {"a": "P1D"}], "properties": {"a": DURATION}},
    {"properties": {"a": {"$ref": "#/definitions/a"}}, "enum": [{"a": "x-1"}, {"a": "P1D"}], "definitions": {"a": DURATION}},
    {"enum": [{"a": "x-1"}, {"a": "P1D"}], "allOf": [{"additionalProperties": {"allOf": [DURATION]}}]},
    {"properties": {"a": {"enum": ["x-1", "P1D"]}}, "anyOf": [{"properties": {"a": DURATION}}, {"maxProperties": 0}]},
]  # fmt: skip


@pytest.mark.parametrize("dialect", ["draft-04", "draft-07"])
@pytest.mark.parametrize("schema", LISTS)
def test_listed_values_are_of_a_format_that_their_draft_does_not_know(schema, dialect):
    """A listed text that is no `duration` is valid where the draft decides, and not to ajv, which asserts it."""
    compiled = compile_schema({"$schema": f"http://json-schema.org/{dialect}/schema#", **schema})
    assert compiled.accepts('{"a": "P1D"}')
    assert not compiled.accepts('{"a": "x-1"}')


def test_listed_items_are_of_a_format_that_their_draft_does_not_know():
    compiled = compile_schema({"$schema": DIALECTS[7], "enum": [["x-1"], ["P1D"], [{}]], "items": DURATION})
    assert [compiled.accepts(text) for text in ('["x-1"]', '["P1D"]', "[{}]")] == [False, True, True]


def test_declared_keys_are_of_a_format_that_their_draft_does_not_know():
    compiled = compile_schema(
        {"$schema": DIALECTS[7], "properties": {"x-1": {}, "P1D": {}}, "propertyNames": DURATION}
    )
    assert [compiled.accepts(text) for text in ('{"x-1": 1}', '{"P1D": 1}')] == [False, True]


def test_listed_values_of_another_document_are_of_the_format():
    compiled = compile_schema(
        {"$schema": DIALECTS[7], "allOf": [{"$ref": "https://example.com/listed"}, DURATION]},
        documents={"https://example.com/listed": {"enum": ["x-1", "P1D"]}},
    )
    assert [compiled.accepts(text) for text in ('"x-1"', '"P1D"')] == [False, True]


@pytest.mark.parametrize(
    ("schema", "accepted"),
    [
        ({"enum": ["a@b", "a@b.de", "c"], "format": "email"}, {"a@b.de"}),
        ({"enum": ["a@b", "a@b.de", "c"], "not": {"format": "email"}}, {"c"}),
        ({"enum": ["a@b", "a@b.de", "c"], "oneOf": [{"format": "email"}, {"maxLength": 1}]}, {"a@b.de", "c"}),
        (
            {"enum": ["a@b", "a@b.de", "c"], "if": {"format": "email"}, "then": {"minLength": 5}},
            {"a@b.de", "c"},
        ),
    ],
)
def test_a_listed_text_of_whose_format_validators_disagree_is_left_out(schema, accepted):
    """Of `a@b` some say that it is a mailbox."""
    compiled = compile_schema(schema)
    assert {text for text in schema["enum"] if compiled.accepts(json.dumps(text))} == accepted
    notes = [entry.note for entry in compiled.report if entry.keyword == "format"]
    assert all("'a@b'" in note for note in notes)
    assert notes


TEXTS = sorted({text for texts in FORMATS.values() for text in texts})
PLACES = {
    "beside": lambda texts, inner: ({"allOf": [{"enum": texts}, inner]}, texts),
    "items": lambda texts, inner: (
        {"enum": [[text] for text in texts], "items": inner},
        [[t] for t in texts],
    ),
    "members": lambda texts, inner: (
        {"enum": [{"a": text} for text in texts], "properties": {"a": inner}},
        [{"a": text} for text in texts],
    ),
    "patterns": lambda texts, inner: (
        {"properties": {"a": {"enum": texts}}, "patternProperties": {"^a": inner}},
        [{"a": text} for text in texts],
    ),
    "keys": lambda texts, inner: (
        {"properties": {text: {} for text in texts}, "propertyNames": inner},
        [{text: 1} for text in texts],
    ),
    "keys of listed values": lambda texts, inner: (
        {"enum": [{text: 1} for text in texts], "propertyNames": inner},
        [{text: 1} for text in texts],
    ),
}
CONDITIONS = (
    lambda inner, _: inner,
    lambda inner, _: {"$ref": "#/definitions/inner"},
    lambda inner, _: {"not": inner},
    lambda inner, _: {"not": {"not": inner}},
    lambda inner, _: {"anyOf": [inner, {"maxLength": 2}]},
    lambda inner, _: {"oneOf": [inner, {"type": "string", "maxLength": 3}]},
    lambda inner, other: {"oneOf": [inner, {"format": other}]},
    lambda inner, other: {"if": inner, "then": {"format": other}, "else": {"minLength": 2}},
)


@settings(suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from([7, 2019, 2020]),
    st.sampled_from(sorted(FORMATS)),
    st.sampled_from(sorted(FORMATS)),
    st.sampled_from(sorted(PLACES)),
    st.sampled_from(CONDITIONS),
    st.data(),
)
def test_listed_texts_are_valid_to_those_who_assert_all_formats(draft, name, other, place, condition, data):
    """Judged in the declared draft and, as ajv would, in the newest one, which knows every format."""
    likely = st.sampled_from(FORMATS[name]) | st.sampled_from(TEXTS)
    texts = data.draw(st.lists(likely, min_size=1, max_size=4, unique=True))
    inner = {"format": name}
    schema, values = PLACES[place](texts, condition(inner, other))
    schema["definitions"] = {"inner": inner}
    try:
        compiled = compile_schema({"$schema": DIALECTS[draft], **schema})
    except UnsupportedSchema:
        return
    judges = [Judges({"$schema": DIALECTS[each], **schema}) for each in (draft, 2020)]
    for text in filter(compiled.accepts, map(json.dumps, values)):
        assert [judge.faults(text.encode()) for judge in judges] == [[], []], text


def test_other_listed_texts_change_nothing():
    listed = {"properties": {"kind": {"enum": ["x-1", "x-2"]}, "id": {"type": "string", "format": "uuid"}}}
    old, new = (compile_schema({"$schema": DIALECTS[draft], **listed}) for draft in (7, 2020))
    assert old.grammar.digest == new.grammar.digest


def test_a_disputed_text_meets_a_condition_that_only_some_assert():
    """To jsonschema-rs it is a date, to Python's `jsonschema` none; ajv asserts `uuid` in draft 7, too."""
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "enum": ["0000-01-01", "zz"]}
    schema |= {"if": {"format": "date"}, "then": {"format": "uuid"}, "else": {"minLength": 2}}
    compiled = compile_schema(schema)
    assert not compiled.accepts('"0000-01-01"')
    assert compiled.accepts('"zz"')


def test_disputed_texts_of_two_formats_are_read_in_every_combination():
    """Of an address and a date, some validators take only the one, and others only the other."""
    listed = [{"a": "a@b", "b": "0000-01-01"}, {"a": "x"}]
    schema = {"enum": listed, "if": {"properties": {"a": {"format": "email"}}}}
    schema |= {
        "then": {"properties": {"b": {"format": "date"}}},
        "else": {"not": {"properties": {"b": {"format": "date"}}, "required": ["b"]}},
    }
    compiled = compile_schema(schema)
    assert not compiled.accepts(json.dumps(listed[0]))
    assert compiled.accepts(json.dumps(listed[1]))


BESIDE = [
    ("uuid", "current-user"),
    ("date-time", "7d"),
    ("date", "30d"),
    ("ipv6", "user:read"),
    ("hostname", "*"),
    ("duration", "permanent"),
]


@pytest.mark.parametrize(("name", "text"), BESIDE)
@pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
def test_a_listed_text_that_all_validators_reject_is_written_beside_the_format(keyword, name, text):
    schema = {keyword: [{"type": "string", "format": name}, {"const": text}]}
    compiled = compile_schema(schema)
    assert compiled.accepts(json.dumps(text))
    assert [entry.verdict for entry in compiled.report if entry.keyword == "const"] == [Verdict.EXACT]


def notes_on(compiled, keyword):
    """The pointers and notes of the entries on a keyword that is narrowed."""
    return {
        e.pointer: e.note for e in compiled.report if (e.keyword, e.verdict) == (keyword, Verdict.NARROWED)
    }


def test_the_report_tells_of_a_listed_text_that_only_some_validators_take():
    """Canonicalization rejects `24:00`, so that nothing but the report would say why it is never written."""
    schema = {
        "properties": {
            "at": {"oneOf": [{"enum": ["24:00", "noon"]}, {"type": "string", "format": "time"}]},
            "end": {"enum": ["24:00"]},
        },
        "additionalProperties": False,
    }
    compiled = compile_schema(schema)
    texts = ['{"at": "noon"}', '{"at": "24:00"}', '{"end": "24:00"}']
    assert [compiled.accepts(text) for text in texts] == [True, False, True]
    (listed,) = notes_on(compiled, "enum").items()
    assert listed[0] == "/properties/at/oneOf/0"
    assert listed[1].endswith("such as '24:00' (time)")
    assert notes_on(compiled, "format")["/properties/at/oneOf/1"].endswith("such as '24:00'")


def tree(**properties):
    """A recursive schema, of which no two readings can be intersected."""
    children = {"type": "array", "items": {"$ref": "#"}}
    return {"type": "object", "properties": {"title": {"type": "string"}, **properties, "subtasks": children}}


DUE = {"oneOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}


@pytest.mark.parametrize("listed", ["1d", "24:00"])
@pytest.mark.parametrize(
    "place",
    [
        lambda texts: {"repeat": {"enum": texts}},
        lambda texts: {"repeat": {"items": {"enum": texts}}},
        lambda texts: {"repeat": {"enum": [[text] for text in texts]}},
        lambda texts: {"repeat": {"enum": [{"at": text} for text in texts]}},
        lambda texts: {"repeat": {"anyOf": [{"not": {"not": {"enum": texts}}}, {"type": "null"}]}},
    ],
)
def test_a_text_is_no_matter_of_dispute_where_the_format_is_never_asked_about_it(listed, place):
    compiled = compile_schema(tree(due=DUE, **place([listed])))
    assert compiled.accepts('{"due": null, "subtasks": [{"due": "2024-01-01T00:00:00Z"}]}')
    assert not notes_on(compiled, "enum")


@pytest.mark.parametrize(
    "schema",
    [
        tree(due={"oneOf": [*DUE["oneOf"], {"const": "24:00"}]}),
        tree(due=DUE, repeat={"allOf": [{"$ref": "#/properties/due"}, {"enum": [None, "24:00"]}]}),
        tree(due={"$ref": "#/$defs/due"}, repeat={"enum": ["24:00"]}) | {"$defs": {"due": DUE}},
        tree(due=DUE) | {"additionalProperties": {"enum": ["24:00"]}},
    ],
)
def test_where_the_format_may_be_asked_about_the_text_the_refusal_names_both(schema):
    with pytest.raises(UnsupportedSchema, match="such as for the listed '24:00'") as refused:
        compile_schema(schema)
    assert refused.value.keyword == "format"


@pytest.mark.parametrize(
    ("schema", "pointer", "told"),
    [
        (
            {"format": "duration", "const": "P999999999D"},
            "/format",
            "such as 'P999999999D'; texts of this format are written so: fewer than 10^9 days: at most six to",
        ),
        (
            {"properties": {"d": {"format": "duration", "enum": ["PT99999999S"]}}, "required": ["d"]},
            "/properties/d/format",
            "such as 'PT99999999S'; texts of this format are written so: fewer than 10^9 days",
        ),
        ({"format": "date", "const": "0000-01-01"}, "/format", "are written so: no year 0000"),
        (
            {
                "properties": {
                    "a": {"format": "date", "enum": ["0000-01-01", "2026-01-01"]},
                    "b": {"format": "date", "enum": ["0000-01-01", None]},
                    "c": {"format": "date", "const": "0000-01-01"},
                },
                "required": ["c"],
            },
            "/properties/c/format",
            "such as '0000-01-01'",
        ),
    ],
)
def test_that_no_listed_text_is_left_is_told_with_the_limits_of_the_format(schema, pointer, told):
    """Validators know of values that satisfy the schema."""
    with pytest.raises(UnsupportedSchema) as refused:
        compile_schema({"type": "object"} | schema if "properties" in schema else schema)
    assert (refused.value.pointer, refused.value.keyword) == (pointer, "format")
    assert told in str(refused.value)


def test_that_no_listed_text_is_left_in_another_document_is_told_with_the_limits_of_the_format():
    documents = {"https://a.example/day": {"$defs": {"d": {"format": "date", "const": "0000-01-01"}}}}
    with pytest.raises(UnsupportedSchema, match="are written so: no year 0000") as refused:
        compile_schema({"$ref": "https://a.example/day#/$defs/d"}, documents=documents)
    assert refused.value.pointer == "https://a.example/day#/$defs/d/format"


def test_a_text_meets_a_format_through_a_reference_to_it():
    """Wherever the reference leads from, the listed text is the value that the format is asked about."""
    schema = {
        "properties": {"due": DUE, "repeat": {"enum": ["24:00", "x"], "not": {"$ref": "#/properties/due"}}},
        "additionalProperties": False,
    }
    compiled = compile_schema(schema)
    assert [compiled.accepts(text) for text in ('{"repeat": "24:00"}', '{"repeat": "x"}')] == [False, True]


def test_a_text_in_a_listed_object_meets_the_format_of_its_key():
    schema = {
        "enum": [{"due": "24:00"}, {"end": "24:00"}],
        "not": {"properties": {"due": {"format": "time"}}},
    }
    schema["not"]["required"] = ["due"]
    compiled = compile_schema(schema)
    assert [compiled.accepts(text) for text in ('{"due": "24:00"}', '{"end": "24:00"}')] == [False, True]


def test_what_is_forbidden_for_a_format_at_one_place_is_not_admitted_by_its_negation_at_another():
    """The listed text is left out of `b`; that makes it no item that is no mailbox."""
    schema = {
        "properties": {"b": {"enum": ["a@b", "a@b.de"]}, "c": {"contains": {"not": {"format": "email"}}}},
        "patternProperties": {"^[ab]$": {"format": "email"}},
    }
    compiled = compile_schema(schema)
    texts = ['{"b": "a@b"}', '{"b": "a@b.de"}', '{"c": ["a@b"]}', '{"c": ["a"]}']
    assert [compiled.accepts(text) for text in texts] == [False, True, False, True]


URN = "urn:uuid:123e4567-e89b-12d3-a456-426614174000"
LONG_NAME = ".".join([63 * "a", 63 * "b", 63 * "c", 61 * "d"]) + "."


@pytest.mark.parametrize(
    ("schema", "place", "disputed"),
    [
        ({"oneOf": [{"format": "uuid"}, {"type": "string", "minLength": 37}]}, "/oneOf/0", URN),
        ({"not": {"format": "uuid", "minLength": 40}}, "/not", URN),
        ({"if": {"minLength": 38}, "then": {"not": {"$ref": "#/$defs/u"}}, "$defs": {"u": {"format": "uuid"}}}, "/$defs/u", URN.upper()),
        ({"type": "string", "maxLength": 260, "oneOf": [{"format": "hostname"}, {"minLength": 254}]}, "/oneOf/0", LONG_NAME),
    ],
)  # fmt: skip
def test_texts_longer_than_the_format_may_be_of_it(schema, place, disputed):
    """`jsonschema_rs` says that no UUID has more than 36 characters; with `urn:uuid:` before it, ajv takes one."""
    longest = 36 if "uuid" in disputed.lower() else 253
    with pytest.raises(UnsupportedSchema, match=f"Lower minLength to {longest}") as refused:
        compile_schema(schema)
    assert refused.value.pointer == f"{place}/format"
    lower = json.loads(re.sub('"minLength": [0-9]+', '"minLength": 2', json.dumps(schema)))
    assert not compile_schema(lower).accepts(json.dumps(disputed))


@pytest.mark.parametrize(
    "alternative", [{"properties": {"id": {"format": "uuid"}}}, {"$ref": "#/$defs/a"}], ids=str
)
def test_a_length_that_is_asked_for_at_another_key_is_not_that_of_the_format(alternative):
    schema = {
        "properties": {
            "prompt": {"type": "string", "minLength": 50},
            "target": {"oneOf": [{"type": "object", **alternative}, {"type": "null"}]},
        },
        "$defs": {"a": {"properties": {"id": {"format": "uuid"}}}},
    }
    compiled = compile_schema(schema)
    assert compiled.accepts(json.dumps({"target": {"id": URN[9:]}}))
    assert not compiled.accepts(json.dumps({"target": {"id": URN}}))
    schema["properties"]["target"]["additionalProperties"] = {"minLength": 50}
    with pytest.raises(UnsupportedSchema, match="Lower minLength to 36"):
        compile_schema(schema)
