"""Calls of tools that need a guard are valid, in syntaxes that write arguments as JSON, at any budget."""

import json

import jsonschema_rs
import pytest
from guarded_patterns import made_up_vocabulary
from guarded_schemas import AB, GUARDED, INTEGER, NULL, STRING
from random_decoding import Generation
from soundness.judges import without_repeats
from vocabularies import BYTES, named_vocabulary
from whole_outputs import parse_calls
from writers import Repeating, Writer

from compiler import compile_toolset
from toolspecs.tool import Tool


def of(**properties):
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


SCHEMAS = {
    "distinct items": of(tags=GUARDED["all of an enum"]),
    "lengths": of(name={**STRING, "minLength": 2, "maxLength": 9}, slug={**STRING, "pattern": "^[a-z]+(-[a-z]+)*$", "maxLength": 12}),
    "undeclared keys": {"type": "object", "properties": {**AB, "name": NULL}, "additionalProperties": INTEGER, "minProperties": 5},
    "a whole pattern": of(password={**STRING, "pattern": r"^(?=.*[A-Z])(?=.*[a-z])(?=.*\d).{8,12}$"}),
}  # fmt: skip
VOCABULARIES = {
    "bytes": lambda: BYTES,
    "qwen3": lambda: named_vocabulary("qwen3"),
    "made up": made_up_vocabulary,
}


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("syntax", ["hermes", "json", "llama3", "kimi"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_calls_are_valid(name, syntax, vocabulary):
    tool, words = Tool("f", "", SCHEMAS[name]), VOCABULARIES[vocabulary]()
    grammar = compile_toolset([tool], tokenizer=words, syntax=syntax, tool_choice="required", parallel=False)
    assert grammar.units["f"].guard is not None
    for seed, extra in enumerate((0, 40, 120)):
        for writer in (Writer(seed, words), Repeating(seed)):
            text = Generation(grammar, grammar.closer().minimum() + extra, writer).text
            _, [(_, arguments)] = parse_calls(text, grammar.syntax)
            value = json.loads(arguments, object_pairs_hook=without_repeats)
            assert jsonschema_rs.is_valid(tool.parameters, value), text
