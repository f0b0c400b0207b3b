"""Tools whose input is a text of a grammar or of a pattern, and inputs that they let through."""

import json
import random

from linked import accepts_arguments
from random_decoding import Generation
from vocabularies import BYTES
from whole_outputs import parse_calls

from compiler import compile_toolset
from toolspecs.tool import CustomInput, custom_tool


def linked(definition, syntax="hermes", kind="lark"):
    tool = custom_tool("f", "", CustomInput(kind, definition))
    return compile_toolset([tool], tokenizer=BYTES, syntax=syntax, parallel=False)


def inputs(grammar, seed, number, budget=150):
    """The inputs of random outputs, which the budget closer ends."""
    rng = random.Random(seed)
    for i in range(number):
        text = Generation(grammar, budget + i, rng).text
        _, [(_, arguments)] = parse_calls(text, grammar.syntax, grammar.parameter_types)
        yield json.loads(arguments)["input"]


def accepts(grammar, text):
    """Whether a call with this input can be written, in a syntax that writes JSON."""
    return accepts_arguments(grammar, json.dumps({"input": text}, ensure_ascii=False))


def check_texts(grammar, valid, invalid=()):
    """These texts are inputs, and those are not."""
    assert [text for text in valid if not accepts(grammar, text)] == []
    assert [text for text in invalid if accepts(grammar, text)] == []
