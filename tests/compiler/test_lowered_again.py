"""What a guard cannot tell apart is lowered again by itself, and comes out as if all had been lowered anew."""

import json
import random
import re

import pytest
from fuzz.instances import InstanceMaker
from guarded_schemas import AMBIGUOUS_KEYS
from soundness.judges import Judges

from compiler import compile_schema
from compiler.grammar.grammar import Grammar
from compiler.guard.ambiguities import Ambiguities
from compiler.lowering.schema_lowering import SchemaLowering
from compiler.schema import lower_schema

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
    **{
        name: AMBIGUOUS_KEYS[name]
        for name in ("alternatives", "a listed object", "needing", "closed beside", "patterns beside")
    },
}


def refuse(lowering: SchemaLowering, ambiguities: Ambiguities) -> bool:
    """In place of `SchemaLowering.revise`: only a new lowering will do."""
    lowering.ambiguities |= ambiguities
    return False


def in_order(grammar: Grammar) -> list[str]:
    """The rules, which are in the order in which a reader meets them, without their names."""
    numbers = {name: str(number) for number, name in enumerate(grammar.rules)}

    def numbered(text: re.Match[str]) -> str:
        return f"RuleRef(name={numbers[text[1]]})"

    return [re.sub(r"RuleRef\(name='(\w+)'\)", numbered, repr(rule)) for rule in grammar.rules.values()]


@pytest.mark.parametrize("schema", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_it_makes_what_a_new_lowering_does(schema, monkeypatch):
    revisions, revise = [], SchemaLowering.revise
    monkeypatch.setattr(SchemaLowering, "revise", lambda *given: revisions.append(given) or revise(*given))
    revised = lower_schema(schema)
    assert revisions, "nothing was ambiguous"
    monkeypatch.setattr(SchemaLowering, "revise", refuse)
    anew = lower_schema(schema)
    assert in_order(revised.grammar) == in_order(anew.grammar)
    assert list(revised.report) == list(anew.report)


@pytest.mark.parametrize("schema", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_what_it_admits_is_valid(schema):
    compiled, maker, judges = compile_schema(schema), InstanceMaker(schema, random.Random(1)), Judges(schema)
    texts = [json.dumps(maker.instance()) for _ in range(150)]
    accepted = list(filter(compiled.accepts, texts))
    assert 0 < len(accepted) < len(texts)
    assert [text for text in accepted if judges.faults(text.encode())] == []


def test_values_around_it_are_lowered_once(monkeypatch):
    lowered = []
    lower = SchemaLowering._lower
    monkeypatch.setattr(SchemaLowering, "_lower", lambda *given: lowered.append(given) or lower(*given))
    schema = AMBIGUOUS["keys of objects beside one another"]
    for _ in range(20):
        schema = {"type": "object", "properties": {"inner": schema, "size": {"type": "integer"}}}
    compile_schema(schema)
    assert len(lowered) < 35
