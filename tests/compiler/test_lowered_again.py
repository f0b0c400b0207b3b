"""What a guard cannot tell apart is lowered again by itself, and comes out as if all had been lowered anew."""

import json
import random

import pytest
from fuzz.instances import InstanceMaker
from soundness.judges import Judges

from compiler import compile_schema
from compiler.lowering.schema_lowering import SchemaLowering
from compiler.report import Verdict
from compiler.vocabulary import Vocabulary

LONG = {"type": "string", "maxLength": 90}
PATTERN = {"type": "string", "pattern": "^x[a-z]*$"}
NODE = {
    "anyOf": [
        {"properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}}, "required": ["v"]},
        {"properties": {"next": {"type": "null"}, "w": LONG}},
    ]
}
AMBIGUOUS = {
    "keys of objects beside one another": {
        "anyOf": [
            {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]},
            {"properties": {"b": {"type": "null"}, "c": {"type": "boolean"}}},
        ]
    },
    "the same far inside": {
        "properties": {
            "list": {"type": "array", "items": {"properties": {"node": {"$ref": "#/$defs/node"}}}}
        },
        "$defs": {"node": NODE},
    },
    "strings that a guard counts beside others": {
        "properties": {"text": LONG, "list": {"type": "array", "items": {"anyOf": [LONG, PATTERN]}}},
        "required": ["text"],
    },
    "distinct strings that rules have to count": {
        "anyOf": [
            {"properties": {"a": {"type": "array", "uniqueItems": True, "items": LONG}}, "required": ["a"]},
            {"properties": {"a": {"type": "array", "uniqueItems": True, "items": PATTERN}}},
        ]
    },
    "a listed object beside one with marked keys": {
        "anyOf": [
            {"enum": [{"a": 1, "b": 2}, "x"]},
            {"properties": {"a": {"type": "string"}, "b": {"type": "null"}}},
        ]
    },
    "many keys beside an object with one": {
        "anyOf": [
            {"properties": {f"k{i}": {"type": "integer"} for i in range(14)}, "required": ["k0"]},
            {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
        ]
    },
}


def compiled_anew(schema, monkeypatch):
    """The same schema, of which every value is lowered again whatever is ambiguous."""

    def refuse(lowering, ambiguities):
        lowering.ambiguities |= ambiguities
        return False

    with monkeypatch.context() as patch:
        patch.setattr(SchemaLowering, "revise", refuse)
        return compile_schema(schema, tokenizer=Vocabulary.of_bytes())


def told(compiled):
    return {
        (entry.pointer, entry.keyword, entry.verdict, frozenset(entry.note.split("; ")))
        for entry in compiled.report
        if entry.verdict is not Verdict.EXACT
    }


@pytest.mark.parametrize("schema", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_it_admits_and_tells_what_a_new_lowering_does(schema, monkeypatch):
    revisions = []
    revise = SchemaLowering.revise
    monkeypatch.setattr(SchemaLowering, "revise", lambda *given: revisions.append(given) or revise(*given))
    revised = compile_schema(schema, tokenizer=Vocabulary.of_bytes())
    assert revisions, "nothing was ambiguous"
    anew = compiled_anew(schema, monkeypatch)
    assert told(revised) == told(anew)
    maker, judges = InstanceMaker(schema, random.Random(1)), Judges(schema)
    verdicts = set()
    for value in (maker.instance() for _ in range(150)):
        text = json.dumps(value)
        assert revised.accepts(text) == anew.accepts(text), text
        verdicts.add(revised.accepts(text))
        assert not (revised.accepts(text) and judges.faults(text.encode())), text
    assert verdicts == {True, False}


def test_values_around_it_are_lowered_once(monkeypatch):
    lowered = []
    lower = SchemaLowering._lower
    monkeypatch.setattr(SchemaLowering, "_lower", lambda *given: lowered.append(given) or lower(*given))
    schema = AMBIGUOUS["keys of objects beside one another"]
    for _ in range(20):
        schema = {"type": "object", "properties": {"inner": schema, "size": {"type": "integer"}}}
    compile_schema(schema)
    assert len(lowered) < 35
