"""Arguments of calls that others wrote: each fault has its place, and what a mask writes has none."""

import json
import random

import pytest
from random_decoding import decode_randomly
from soundness.corpora import sample

from compiler import compile_schema
from compiler.argument_faults import MAX_FAULTS, ArgumentFault, argument_faults
from toolspecs.schemas.bundle import compound_schema
from toolspecs.schemas.drafts import OPENAPI_3_0
from toolspecs.tool import CustomInput, Tool, custom_tool

MONEY = "https://a.example/money"
PAY = {
    "type": "object",
    "properties": {
        "amount": {"type": "number", "minimum": 0},
        "to": {"type": "object", "properties": {"a/b": {"format": "date"}}, "required": ["a/b"]},
        "by": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"card": {"pattern": "^[0-9]+$"}}}]},
        "tags": {"type": "array", "items": {"enum": ["x", "y"]}},
    },
    "required": ["amount"],
    "additionalProperties": False,
}  # fmt: skip


def tool(parameters, **fields):
    return Tool("t", "", parameters, **fields)


def places(parameters, arguments, **fields):
    return [
        (fault.pointer, fault.keyword) for fault in argument_faults(tool(parameters, **fields), arguments)
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"amount": 1, "to": {"a/b": "2024-02-29"}, "by": None, "tags": ["x"]}, []),
        ({"tags": [], "amount": 0}, []),
        ({}, [("", "required")]),
        ({"amount": "1"}, [("/amount", "type")]),
        ({"amount": -1, "extra": 1}, [("/amount", "minimum"), ("", "additionalProperties")]),
        ({"amount": 1, "to": {"a/b": "2023-02-29"}}, [("/to/a~1b", "format")]),
        ({"amount": 1, "to": {}}, [("/to", "required")]),
        ({"amount": 1, "by": {"card": "12a"}}, [("/by/card", "pattern")]),
        ({"amount": 1, "tags": ["x", "z", "q"]}, [("/tags/1", "enum"), ("/tags/2", "enum")]),
        ([], [("", "type")]),
        ('{"amount": 1}', [("", "type")]),
        (None, [("", "type")]),
    ],
)
def test_each_fault_has_its_place_and_keyword(arguments, expected):
    assert sorted(places(PAY, arguments)) == sorted(expected)


def test_few_faults_are_told_and_none_is_long():
    many = argument_faults(tool({"properties": {"a": {"items": {"type": "null"}}}}), {"a": ["x" * 9999] * 99})
    assert len(many) == MAX_FAULTS
    assert max(len(fault.message) for fault in many) <= 300


@pytest.mark.parametrize(
    ("parameters", "good", "bad"),
    [
        ({"properties": {"n": {"minimum": 0, "exclusiveMinimum": True}}}, 1, 0),
        ({"$schema": OPENAPI_3_0, "properties": {"n": {"type": "string", "nullable": True}}}, None, 1),
        ({"properties": {"n": {"type": "string", "nullable": True}}}, "", None),
        ({"properties": {"n": {"type": "array", "items": [{"type": "null"}]}}}, [None], [1]),
    ],
)
def test_the_dialect_is_that_of_the_grammar(parameters, good, bad):
    assert places(parameters, {"n": good}) == []
    assert places(parameters, {"n": bad}) != []


@pytest.mark.parametrize("dialect", ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-04/schema#"])  # fmt: skip
def test_documents_count_and_a_compound_schema_means_the_same(dialect):
    documents = {MONEY: {"$schema": dialect, "type": "number"}, "https://a.example/id": {"minLength": 2}}
    parameters = {
        "$schema": dialect,
        "properties": {"a": {"$ref": MONEY}, "b": {"$ref": "id"}},
        ("id" if "04" in dialect else "$id"): "https://a.example/tool",
    }
    compound = compound_schema(parameters, documents)
    for arguments, expected in (
        ({"a": 1, "b": "xy"}, []),
        ({"a": "1"}, [("/a", "type")]),
        ({"b": "x"}, [("/b", "minLength")]),
    ):
        assert places(parameters, arguments, documents=documents) == expected
        assert places(compound, arguments) == expected
    assert compound_schema(parameters, {}) == parameters


@pytest.mark.parametrize(("corpus", "fewest"), [("suite-2020-12", 300), ("suite-7", 250)])
def test_objects_of_the_official_suite_are_judged_as_it_says(corpus, fewest):
    num_judged = 0
    for case in sample(corpus):
        for instance in case.instances:
            if (
                isinstance(case.schema, dict)
                and isinstance(instance.value, dict)
                and "format" not in case.name
            ):
                faults = argument_faults(tool(case.schema, documents=case.documents), instance.value)
                assert (faults == ()) is instance.is_valid, (case.name, instance.note, faults)
                num_judged += 1
    assert num_judged > fewest


@pytest.mark.parametrize("corpus", ["formats-2020-12", "formats-7"])
def test_formats_are_asserted(corpus):
    for case in sample(corpus, every=3):
        parameters = {"$schema": case.schema["$schema"], "properties": {"v": case.schema}}
        for instance in case.instances:
            if not instance.is_valid:
                faults = argument_faults(tool(parameters), {"v": instance.value})
                assert [fault.pointer for fault in faults] == ["/v"], (case.name, instance.note)


def test_what_a_mask_writes_has_no_fault():
    rng = random.Random(20)
    for case in sample("mcp", every=40):
        compiled = compile_schema(case.schema, objects="closed")
        for _ in range(3):
            if (text := decode_randomly(compiled.matcher(), compiled.vocabulary, rng)) is not None:
                assert argument_faults(tool(case.schema), json.loads(text)) == (), (case.name, text)


@pytest.mark.parametrize(
    ("custom", "good", "bad", "keyword"),
    [
        (CustomInput(), "", None, "required"),
        (CustomInput("regex", "[a-z]+"), "ab", "aB", "pattern"),
        (
            CustomInput("lark", 'start: INT ("+" INT)*\n%import common.INT\n%ignore " "'),
            "1 + 23",
            "1 + x",
            "grammar",
        ),
        (CustomInput("lark", 'start: t ("+" t)* -> add | t\nt: /[0-9]+/'), "1+2", "1+", "grammar"),
        (CustomInput("lark", 'start: ("+" /(.*)/ "\\n")+'), "+\n+a\n", "+\nb\n", "grammar"),
        (CustomInput("lark", 'start: "a" NL*\nNL: /\\n/\n%ignore /[ \\n]+/'), "a\n", "b\n", "grammar"),
    ],
)
def test_inputs_of_custom_tools_are_judged(custom, good, bad, keyword):
    made = custom_tool("t", "", custom)
    assert argument_faults(made, {"input": good}) == ()
    [fault] = argument_faults(made, {} if bad is None else {"input": bad})
    assert (fault.pointer, fault.keyword) == ("" if bad is None else "/input", keyword)
    assert isinstance(fault, ArgumentFault)
