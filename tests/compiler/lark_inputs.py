"""Compiles grammars for Lark, and writes inputs that they let through."""

import json
import random

from random_decoding import Generation
from whole_outputs import parse_calls

from compiler import compile_toolset
from compiler.prepared_vocabulary import prepare
from compiler.syntaxes import find_syntax
from compiler.vocabulary import Vocabulary
from toolspecs.tool import CustomInput, custom_tool

BYTES = prepare(Vocabulary.of_bytes())


def linked(definition, syntax="hermes"):
    tool = custom_tool("t", "", CustomInput("lark", definition))
    return compile_toolset([tool], tokenizer=BYTES, syntax=syntax, parallel=False)


def inputs(grammar, syntax, seed, number):
    """The inputs of random outputs, which the budget closer ends."""
    rng = random.Random(seed)
    for i in range(number):
        text = Generation(grammar, 150 + i, rng).text
        _, calls = parse_calls(text, find_syntax(syntax), grammar.parameter_types)
        ((name, arguments),) = calls
        assert name == "t"
        yield json.loads(arguments)["input"]


def accepts(grammar, text):
    matcher = grammar.matcher()
    return all(matcher.accept(byte) for byte in written_as(text).encode()) and matcher.is_completed()


def written_as(text):
    return f'<tool_call>\n{{"name": "t", "arguments": {json.dumps({"input": text}, ensure_ascii=False)}}}\n</tool_call>'
