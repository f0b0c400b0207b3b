"""The enforcement report: notes stand where they apply."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from fuzz.instances import InstanceMaker
from fuzz.judging import is_schema
from fuzz.schemas import SchemaMaker, make_schema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from soundness.corpora import sample
from soundness.judges import Judges
from soundness.schemas import DIALECTS
from soundness.told import untold
from vocabularies import BYTES

from compiler import UnsupportedSchema, compile_schema
from compiler.report import Verdict


def notes(schema, keyword, **options):
    return {
        entry.pointer: (entry.verdict, entry.note)
        for entry in compile_schema(schema, **options).report
        if entry.keyword == keyword
    }


def test_a_branch_without_numbers_has_no_note_on_digits():
    schema = {
        "anyOf": [{"type": "integer"}, {"type": "null"}, {"type": ["number", "string"]}, {"type": "array"}]
    }
    found = notes(schema, "type")
    assert "20 digits" in found["/anyOf/0"][1]
    assert "20 after it" in found["/anyOf/2"][1]
    assert found["/anyOf/1"] == found["/anyOf/3"] == (Verdict.EXACT, "")


@pytest.mark.parametrize(
    ("pattern", "has_note"),
    [
        (r"^[\w ]+$", True),
        (r"^\w+(\s\w+)*$", True),
        (r"^\w+$", False),
        (r"^[a-z ]+$", False),
        (r"^\\w $", False),
        (r"^[^\W ]+$", False),
    ],
)
def test_words_of_prose_are_said_to_be_ascii(pattern, has_note):
    ((verdict, note),) = notes({"type": "string", "pattern": pattern}, "pattern").values()
    assert (verdict is Verdict.NARROWED) == ("disagree" in note) == (r"\s" in pattern)
    assert ("ASCII" in note) == has_note
    assert not compile_schema({"type": "string", "pattern": r"^[\w ]+$"}).accepts('"José"')
    assert compile_schema({"type": "string", "pattern": r"^[\p{L}\p{N}_ ]+$"}).accepts('"José"')


def told(schema, **options):
    """The entries that say that something is left out, and where."""
    return {
        (entry.pointer, entry.keyword): entry.note
        for entry in compile_schema(schema, **options).report
        if entry.verdict in (Verdict.NARROWED, Verdict.GUARDED)
    }


KEPT_DISTINCT = (
    "an item is never repeated, because another array that may stand here must have distinct items"
)
DIGITS = "numbers have at most 20 digits before the point and 20 after it, and exponents of two digits"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param({"type": ["string", "null"], "maxLength": 3}, {}, id="nothing"),
        pytest.param({}, {("", ""): DIGITS}, id="any value"),
        pytest.param({"properties": {"a": True}}, {("", ""): DIGITS}, id="true"),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "array"}}, "additionalProperties": False},
            {("/properties/a", ""): DIGITS},
            id="any items",
        ),
        pytest.param({"enum": [{"a": 1, "b": 2}]}, {("", "enum"): "keys in one order"}, id="listed objects"),
        pytest.param(
            {"type": "array", "contains": {"type": "string", "format": "time"}},
            {
                ("", ""): DIGITS,
                ("/contains", "format"): "capital T and Z, no leap second, at most six digits of a second",
            },
            id="contains",
        ),
        pytest.param(
            {"anyOf": [{"type": "null", "format": "date"}, {"type": "string", "format": "date"}]},
            {("/anyOf/1", "format"): "no year 0000"},
            id="a branch without strings",
        ),
        pytest.param(
            {"anyOf": [{"type": "string", "pattern": r"^\D$"}, {"type": "string", "pattern": "^a$"}]},
            {
                ("/anyOf/0", "pattern"): "without texts beyond ASCII, or with line ends, on which engines "
                r"disagree: they read \D differently"
            },
            id="another pattern",
        ),
        pytest.param(
            {"type": "string", "not": {"format": "date"}},
            {
                ("", "not"): "nothing that resembles a date is written",
                ("/not", "format"): "part of /not",
            },
            id="not",
        ),
        pytest.param(
            {
                "propertyNames": {"pattern": r"^\S$"},
                "maxProperties": 1,
                "additionalProperties": {"type": "null"},
            },
            {
                (
                    "/propertyNames",
                    "pattern",
                ): "keys: without texts beyond ASCII, or with line ends, on which "
                r"engines disagree: they read \S differently",
                ("", ""): DIGITS,
            },
            id="keys",
        ),
        pytest.param(
            {
                "type": "object",
                "dependentRequired": {"c": ["b", "a"]},
                "additionalProperties": {"type": "null"},
            },
            {("", "dependentRequired"): "keys in this order: a, b, then others"},
            id="keys without a declared order",
        ),
        pytest.param(
            {
                "anyOf": [
                    {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
                    {"type": "array", "items": {"type": "null"}},
                    {"type": "array", "items": {"type": "boolean"}, "maxItems": 1},
                ]
            },
            {
                ("/anyOf/0", "uniqueItems"): "an item is never repeated",
                ("/anyOf/1", ""): KEPT_DISTINCT,
            },
            id="arrays beside distinct ones",
        ),
        pytest.param(
            {
                "type": "object",
                "patternProperties": {
                    "^x": {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
                    "^y": {"type": "array", "items": {"type": "string"}},
                },
                "additionalProperties": False,
            },
            {
                ("/patternProperties/^x", "uniqueItems"): "an item is never repeated",
                ("/patternProperties/^y", ""): KEPT_DISTINCT,
            },
            id="undeclared keys, one of whose arrays has distinct items",
        ),
    ],
)
def test_notes_stand_where_they_apply(schema, expected):
    assert told(schema) == expected


def test_a_definition_that_nothing_refers_to_is_not_vouched_for():
    entries = {
        (entry.pointer, entry.keyword): entry.verdict
        for entry in compile_schema(
            {"$defs": {"a": {"type": "string"}, "b": {"type": "null"}}, "$ref": "#/$defs/b"}
        ).report
    }
    assert entries["/$defs/a", "type"] is Verdict.ANNOTATION
    assert entries["/$defs/b", "type"] is Verdict.EXACT


def test_alternatives_that_were_merged_keep_their_declared_order():
    def state(name, **properties):
        return {
            "required": ["state"],
            "properties": {**properties, "state": {"enum": [name]}},
            "type": "object",
        }

    text, amount = {"type": "string"}, {"type": "number", "minimum": 0}
    running = {
        "required": ["state"],
        "properties": {"current": amount, "state": {"enum": ["running"]}, "status": text, "total": amount},
        "type": "object",
    }
    states = [state("stopped"), state("waiting", status=text), running, state("error", error=True)]
    others = {
        "properties": {"builder": {"type": "object"}, "id": {"type": "number"}},
        "required": ["builder", "id"],
    }
    compiled = compile_schema({"allOf": [{"oneOf": states}, {**others, "type": "object"}]})
    assert compiled.accepts('{"state": "running", "current": 5, "total": 9, "builder": {}, "id": 1}')


class ContainsMaker(SchemaMaker):
    """Makes up arrays above all, most of them with `contains`, also inside one another."""

    def _schema(self, depth: int) -> Any:
        return self._array(depth) if depth > 0 and self._rng.random() < 0.6 else super()._schema(depth)

    def _array(self, depth: int) -> dict[str, Any]:
        contains = {"contains": self._schema(depth - 1)} if self._rng.random() < 0.7 else {}
        return {**super()._array(depth), **contains}


def make_contains(rng: random.Random) -> Any:
    """A document with `contains` in `contains`, of a draft that has it."""
    draft = rng.choice([draft for draft in DIALECTS if draft > 4])
    return ContainsMaker(rng, draft, hostility=rng.choice((0.0, 0.1, 0.4))).document(rng.choice((2, 2, 3)))


def check_that_refusals_are_told(seed: int, make: Callable[[random.Random], Any] = make_schema) -> None:
    rng = random.Random(f"told {seed}")
    schema = make(rng)
    if not is_schema(schema):
        return
    try:
        compiled = compile_schema(schema, tokenizer=BYTES)
    except UnsupportedSchema:
        return
    judges, maker = Judges(schema), InstanceMaker(schema, rng)
    for value in [maker.instance() for _ in range(12)]:
        text = json.dumps(value)
        if "\\u2028" not in text and judges.faults(text.encode()) == []:
            assert not untold(compiled, value, schema), (schema, value)


@settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**6))
def test_a_valid_instance_is_accepted_or_the_report_says_why_not(seed):
    """So a report that is all `exact` means that every valid instance can be written."""
    check_that_refusals_are_told(seed)


@settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**6))
def test_the_same_of_arrays_that_must_contain_arrays(seed):
    check_that_refusals_are_told(seed, make_contains)


@pytest.mark.parametrize(("name", "every"), [("suite-2020-12", 6), ("suite-7", 6), ("jsonschemabench", 400)])
def test_refused_instances_of_real_schemas_are_told(name, every):
    num_valid = 0
    for case in sample(name, every=every, seed=5):
        try:
            compiled = compile_schema(case.schema, documents=case.documents, tokenizer=BYTES)
        except UnsupportedSchema:
            continue
        judges = Judges(case.schema, case.documents)
        for instance in case.instances:
            if judges.faults(json.dumps(instance.value).encode()) == []:
                num_valid += 1
                assert not untold(compiled, instance.value, case.schema, case.documents), case.name
    assert num_valid > 10


DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword", "note"),
    [
        (
            {"$schema": DRAFT_7, "dependentRequired": {"a": ["b"]}},
            "",
            "dependentRequired",
            "declare draft 2019-09",
        ),
        ({"$schema": DRAFT_7, "unevaluatedProperties": False}, "", "unevaluatedProperties", "draft 2019-09"),
        ({"$schema": DRAFT_7, "prefixItems": [{"type": "null"}]}, "", "prefixItems", "draft 2020-12"),
        ({"$schema": DRAFT_7, "contains": {}, "minContains": 2}, "", "minContains", "draft 2019-09"),
        (
            {"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"a": {"const": 1}}},
            "/properties/a",
            "const",
            "draft 4 does not have it; declare draft 6",
        ),
        (
            {"$schema": DRAFT_7, "properties": {"a": {"$ref": "#/definitions/b", "minLength": 3}}}
            | {"definitions": {"b": {"type": "string"}}},
            "/properties/a",
            "minLength",
            "write both in allOf",
        ),
        (
            {"$schema": DRAFT_7, "properties": {"a": {"$dynamicRef": "#"}}},
            "/properties/a",
            "$dynamicRef",
            "2020-12",
        ),
        (
            {"$schema": "http://json-schema.org/draft-04/schema#", "propertyNames": {"pattern": "^a"}},
            "/propertyNames",
            "pattern",
            "no value is checked by it",
        ),
        (
            {"$schema": DRAFT_7, "$ref": "#/definitions/b", "properties": {"a": {"type": "null"}}}
            | {"definitions": {"b": {"type": "object"}}},
            "/properties/a",
            "type",
            "no value is checked by it",
        ),
    ],
)
def test_keywords_without_force_in_their_draft_are_warned_of(schema, pointer, keyword, note):
    compiled = compile_schema(schema)
    [entry] = [entry for entry in compiled.report if (entry.pointer, entry.keyword) == (pointer, keyword)]
    assert entry.verdict is Verdict.ANNOTATION
    assert note in entry.note
    newest = {**schema, "$schema": "https://json-schema.org/draft/2020-12/schema"}
    assert all(
        entry.verdict is not Verdict.ANNOTATION
        for entry in compile_schema(newest).report
        if (entry.pointer, entry.keyword) == (pointer, keyword)
    )


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword"),
    [
        ({"prefixItems": [{"type": "null"}], "additionalItems": False}, "", "additionalItems"),
        ({"properties": {"a": {"$recursiveRef": "#"}}}, "/properties/a", "$recursiveRef"),
    ],
)
def test_keywords_that_newer_drafts_dropped_are_warned_of(schema, pointer, keyword):
    [entry] = [e for e in compile_schema(schema).report if (e.pointer, e.keyword) == (pointer, keyword)]
    assert entry.verdict is Verdict.ANNOTATION
    assert entry.note == "ignored: draft 2020-12 does not have it; declare draft 2019-09"


def test_a_keyword_that_its_draft_ignores_gets_no_note_of_others():
    """Digits that are left out are told where the reference leads: beside it, `type` has no force."""
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "number",
        "$ref": "#/definitions/half",
        "definitions": {"half": {"multipleOf": 0.5, "minimum": 2}},
    }
    entries = compile_schema(schema).report.entries
    (told,) = [entry for entry in entries if "significant digits" in entry.note]
    assert (told.pointer, told.keyword, told.verdict) == ("/definitions/half", "", Verdict.NARROWED)
