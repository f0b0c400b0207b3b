"""Vocabularies that lack bytes: a schema whose shortest value no tokens spell is refused when it is compiled."""

import pytest

from compiler import UnsupportedSchema
from compiler.cache_entry import CacheEntry
from compiler.prepared_vocabulary import prepare
from compiler.response_format import ResponseFormat
from compiler.syntaxes import find_syntax
from compiler.vocabulary import Vocabulary
from toolspecs.tool import Tool

RARE = "\U00040000"
HERMES = find_syntax("hermes")


def without_f1(*others):
    """Single bytes but for one that only characters from U+40000 on begin with, and other tokens."""
    tokens = [b"" if byte == 0xF1 else bytes([byte]) for byte in range(256)]
    return prepare(Vocabulary.from_tokens([*tokens, b"", *others], stop_ids=[256]))


def compile_tool(value, vocabulary, *, name="a"):
    schema = {"type": "object", "properties": {name: value}, "required": [name]}
    return CacheEntry.of_tool(Tool("f", "", schema), HERMES, vocabulary)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a", {"const": RARE}),
        ("a", {"enum": [f"ab{RARE}", f"{RARE}ab"]}),
        ("a", {"type": "string", "pattern": f"^{RARE}+$"}),
        (f"a{RARE}", {"type": "integer"}),
    ],
    ids=["const", "enum", "pattern", "key"],
)
def test_a_tool_that_no_call_can_be_written_of_is_refused(name, value):
    with pytest.raises(UnsupportedSchema, match=r"U\+40000, which no token of the model spells"):
        compile_tool(value, without_f1(), name=name)


def test_a_format_that_no_answer_can_be_written_of_is_refused():
    with pytest.raises(UnsupportedSchema, match=r"U\+40000"):
        CacheEntry.of_format(ResponseFormat("choice", [RARE]), without_f1())


def test_a_token_of_the_whole_character_spells_it():
    assert compile_tool({"const": RARE}, without_f1(RARE.encode()))
    assert compile_tool({"const": f"a{RARE}"}, without_f1(f"a{RARE}".encode()))


def test_a_value_that_need_not_be_written_refuses_nothing():
    assert compile_tool({"enum": ["x", f"ab{RARE}"]}, without_f1())
