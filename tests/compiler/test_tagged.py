"""Arguments as tagged parameters: what is written, what a client reads from it, and what is refused."""

import json
import random

import pytest
from jsonschema import Draft202012Validator
from linked import accepts_arguments, call_of
from monolith import tagged
from random_decoding import Generation
from vocabularies import BYTES
from whole_outputs import parse_calls

from compiler import compile_toolset
from compiler.errors import UnsupportedSchema
from compiler.linker.linker import LinkedGrammar
from compiler.prepared_vocabulary import prepare
from compiler.report import Verdict
from compiler.syntaxes import SYNTAXES, Syntax
from compiler.toolset_compiler import lower_tool
from compiler.units.unit import Unit
from toolspecs.tool import Tool

QWEN = SYNTAXES["qwen3_coder"]
ROWS = [row for row in SYNTAXES.values() if row.tags]
STRING = {"type": "string"}
WHOLE = {"type": "integer"}


def schema_of(*required, **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


def compiled(schema, syntax: Syntax = QWEN) -> LinkedGrammar:
    return compile_toolset([Tool("f", "", schema)], tokenizer=BYTES, syntax=syntax.name)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        (
            STRING,
            ["", "a\nb", "<p>", "</param>", "null", "12", '"', "\\", "ä😀\t"],
            ["x</parameter>", "\x01"],
        ),
        (STRING | {"maxLength": 3}, ["", "äöü"], ["abcd"]),
        (STRING | {"minLength": 2}, ["ab", "ab<c>"], ["a", ""]),
        (STRING | {"minLength": 50, "maxLength": 60}, ["a" * 50, "ä" * 60], ["a" * 49, "a" * 61]),
        (STRING | {"pattern": "^[a-z]+$"}, ["abc"], ["", "aB"]),
        (STRING | {"pattern": "^a"}, ["a", "ab<b>"], ["ba"]),
        (STRING | {"pattern": "^a", "maxLength": 2}, ["a", "ab"], ["abc"]),
        (STRING | {"format": "date"}, ["2024-02-29"], ["2023-02-29"]),
        ({"enum": ["a", "b c"]}, ["a", "b c"], ["c", '"a"']),
        ({"const": "a"}, ["a"], ["b"]),
        (WHOLE, [1, -20], ["1.5", "x", ""]),
        ({"type": "boolean"}, [True, False], ["True", "x"]),
        ({"type": "array", "items": STRING}, [["a", "]"], []], ["[1]", "x"]),
        (schema_of("k", k=STRING), [{"k": "v"}], ["{}"]),
        ({"type": ["string", "null"]}, [None, "nullable", "12", "", "NULL"], []),
        ({"type": ["string", "integer"]}, [12, "12 a", "null", "1.2.3"], []),
        ({"anyOf": [STRING | {"format": "date"}, WHOLE]}, ["2024-02-29", 7], ["x"]),
        ({"enum": ["auto", 1, None]}, ["auto", 1, None], ["x", "2"]),
        ({}, ["x", 1, None, [1], {"a": "b"}], []),
    ],
)
def test_a_parameter_in_tags_accepts_only_its_valid_values(row, schema, valid, invalid):
    grammar = compiled(schema_of("k", k=schema), row)
    for value in valid:
        text = tagged({"k": value}, row)
        assert accepts_arguments(grammar, text), value
        _, calls = parse_calls(call_of(text, row), row, lambda name: grammar.units[name].types)
        assert calls == [("f", json.dumps({"k": value}, ensure_ascii=False))]
    for text in invalid:
        if text == "x</parameter>" and row.tags.end.strip() != "</parameter>":
            continue
        assert not accepts_arguments(grammar, tagged({"k": text}, row)), text
        assert not accepts_arguments(grammar, tagged({"k": text}, row).replace('="true"', '="false"')), text
    assert not accepts_arguments(grammar, "")


@pytest.mark.parametrize("row", [row for row in ROWS if not row.tags.tells_strings], ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("types", "texts"),
    [
        (["string", "null"], ["null", " null", "null\n"]),
        (["string", "integer"], ["12", "-1 ", "1.5", "1e5"]),
        (["string", "boolean"], ["true", " false"]),
        (["string", "array"], ["[", " [a", "[1]"]),
        (["string", "object"], ["{", '{"a": 1}']),
    ],
)
def test_no_string_reads_as_another_type(row, types, texts):
    """If such a text is accepted, it is JSON of the other type: the string alternative does not admit it."""
    report = lower_tool(Tool("f", "", schema_of("k", k={"type": types})), row, BYTES).report
    [entry] = [e for e in report.entries if (e.pointer, e.keyword) == ("/properties/k", "type")]
    assert entry.verdict is Verdict.NARROWED
    grammar = compiled(schema_of("k", k={"type": types}), row)
    other = Draft202012Validator({"type": types[1]})
    for text in texts:
        if accepts_arguments(grammar, tagged({"k": text}, row)):
            assert other.is_valid(json.loads(text)), text


def test_a_type_in_one_alternative_narrows_the_strings_of_all():
    schema = {
        "type": "object",
        "anyOf": [
            {"properties": {"kind": {"const": "a"}, "k": STRING}, "required": ["kind", "k"]},
            {"properties": {"kind": {"const": "b"}, "k": WHOLE}, "required": ["kind", "k"]},
        ],
    }
    grammar = compiled(schema)
    assert grammar.units["f"].types == {"kind": ("string",), "k": ("number", "string")}
    assert accepts_arguments(grammar, tagged({"kind": "a", "k": "x"}, QWEN))
    assert accepts_arguments(grammar, tagged({"kind": "b", "k": 12}, QWEN))
    assert not accepts_arguments(grammar, tagged({"kind": "a", "k": "12"}, QWEN))
    assert not accepts_arguments(grammar, tagged({"kind": "b", "k": "x"}, QWEN))


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        (schema_of("b", a=WHOLE, b=WHOLE, c=WHOLE), ["b", "ab", "abc", "bc"], ["", "a", "ba", "bb", "bd"]),
        (schema_of(a=WHOLE, b=WHOLE), ["", "a", "b", "ab"], ["ba"]),
        (schema_of(a=WHOLE, b=WHOLE, c=WHOLE) | {"minProperties": 2}, ["ab", "ac", "abc"], ["", "a", "c"]),
        (schema_of("c", a=WHOLE, b=WHOLE, c=WHOLE) | {"maxProperties": 2}, ["c", "ac", "bc"], ["abc", "ab"]),
        (schema_of(a=WHOLE, b=WHOLE) | {"dependentRequired": {"a": ["b"]}}, ["", "b", "ab"], ["a"]),
        ({"type": "object"}, [""], ["a"]),
        ({"const": {"a": 1, "b": 1}}, ["ab"], ["a", "", "b"]),
        ({"$ref": "#/$defs/x", "$defs": {"x": schema_of("a", a=WHOLE)}}, ["a"], [""]),
    ],
)
def test_which_parameters_there_are(schema, valid, invalid):
    grammar = compiled(schema)
    for keys, expected in [(keys, True) for keys in valid] + [(keys, False) for keys in invalid]:
        written = "".join(tagged({key: 1}, QWEN) for key in keys)
        assert accepts_arguments(grammar, written) is expected, keys


@pytest.mark.parametrize("key", ["a b", "a>b", "<a", 'a"', "a\n", ""])
def test_a_key_that_cannot_stand_in_a_tag_is_refused(key):
    with pytest.raises(UnsupportedSchema, match="cannot be written in a tag") as refusal:
        lower_tool(Tool("f", "", schema_of(**{key: STRING})), QWEN, BYTES)
    assert refusal.value.pointer.startswith("/properties/")


@pytest.mark.parametrize(
    "schema",
    [
        schema_of("k", k={"enum": ["</parameter>"]}),
        schema_of("k", k=STRING | {"pattern": "^<"}),
        schema_of("k", k=STRING | {"pattern": "(?<=a)b"}),
        schema_of(k=WHOLE) | {"minProperties": 2},
    ],
)
def test_what_cannot_be_written_is_refused(schema):
    with pytest.raises(UnsupportedSchema):
        lower_tool(Tool("f", "", schema), QWEN, BYTES)


HARD = schema_of(
    "s",
    s=STRING,
    n={"type": ["string", "null", "number"]},
    any={},
    e={"enum": ["<b>", "12", 12, None, "null", [1], "[1]"]},
    d={"anyOf": [STRING | {"format": "date-time"}, {"type": "boolean"}]},
    p=STRING | {"pattern": "<?a+>?"},
    m=STRING | {"minLength": 3, "maxLength": 70},
    o=schema_of("x", x={"type": ["string", "array"]}, y=STRING),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_whatever_is_drawn_reads_as_valid_arguments(row):
    grammar = compiled(HARD, row)
    validator = Draft202012Validator(HARD, format_checker=Draft202012Validator.FORMAT_CHECKER)
    shortest = grammar.closer().minimum()
    for seed in range(14):
        generation = Generation(grammar, shortest + 24 * seed, random.Random(seed))
        _, calls = parse_calls(generation.text, row, lambda name: grammar.units[name].types)
        assert calls
        for _, arguments in calls:
            validator.validate(json.loads(arguments))


def test_the_types_are_stored_with_the_unit():
    unit = compiled(HARD).units["f"]
    assert Unit.from_bytes(unit.to_bytes(), prepare(BYTES)).types == unit.types
    assert unit.types["n"] == ("null", "number", "string")
