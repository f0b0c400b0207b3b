"""What is wrong with an output, and what an output is worth."""

import pytest
from whole_outputs import spell_calls

from compiler.syntaxes import SYNTAXES, find_syntax
from runtime.request import Message
from runtime.study.judging import closed, judge
from runtime.study.lenient_parser import OutputFault, can_be_read, parse_output
from runtime.study.questions import MISSING, Question
from toolspecs.tool import Tool

SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "s": {"type": "string", "enum": ["x", "y"]},
        "day": {"type": "string", "format": "date"},
    },
    "required": ["n"],
    "dependentRequired": {"day": ["s"]},
}
QUESTION = Question(
    (Message("user", "add 3"),),
    (Tool("add", "", SCHEMA), Tool("sub", "", SCHEMA)),
    "add",
    {"n": (3,), "s": ("x", MISSING)},
)
HERMES = find_syntax("hermes")


def called(name, arguments):
    return spell_calls(HERMES, (name, arguments))


def reversed_call(name, arguments):
    return f'<tool_call>\n{{"arguments": {arguments}, "name": "{name}"}}\n</tool_call>'


def verdict(text, **options):
    return judge(QUESTION, text, HERMES, **{"is_whole": True} | options)


RIGHT = called("add", '{"n": 3}')


@pytest.mark.parametrize(
    ("text", "valid", "tool", "right"),
    [
        (RIGHT, 1, 1, 1),
        (called("add", '{"n": 3, "s": "x"}'), 1, 1, 1),
        (called("add", '{"n": 3, "s": "y"}'), 1, 1, 0),
        (called("add", '{"n": 4}'), 1, 1, 0),
        (called("sub", '{"n": 3}'), 1, 0, 0),
        (RIGHT + "\n" + RIGHT, 1, 1, 0),
        (called("add", '{"n": "3"}'), 0, 1, 0),
        (called("add", '{"n": true}'), 0, 1, 0),
        (called("add", '{"n": 3, "z": 1}'), 0, 1, 0),
        (called("add", '{"n": 3,}'), 0, 1, 0),
        (called("mul", '{"n": 3}'), 0, 0, 0),
        (RIGHT + " Done.", 0, 1, 0),
        ("I add 3.", 0, 0, 0),
        ("", 0, 0, 0),
    ],
)
def test_answers_are_judged(text, valid, tool, right):
    found = verdict(text)
    assert (found.is_valid, found.is_tool, found.is_right) == (valid, tool, right)
    assert (found.fault is None) is found.is_valid
    assert bool(found.reason) is not found.is_valid


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name":"add","arguments":{"n":3}}</tool_call>',
        '\n<tool_call>\n{ "name" : "add",\n "arguments" : {"n": 3} }\n</tool_call>\n',
        reversed_call("add", '{"n": 3}'),
        '<tool_call>{"arguments":{"n":3},"name":"add"}</tool_call>',
    ],
)
def test_whitespace_between_the_fixed_texts_and_the_order_of_name_and_arguments_are_free(text):
    assert verdict(text).is_right


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("I cannot do that.", OutputFault.NO_CALL),
        ("", OutputFault.NO_CALL),
        ('{"tool": "add", "input": {"n": 3}}', OutputFault.INVENTED),
        ("<tool_call>add(n=3)</tool_call>", OutputFault.INVENTED),
        (called("add", '{"n": 3}, "id": 7'), OutputFault.INVENTED),
        (RIGHT + '\n<tool_call>\n{"name": "add"}\n</tool_call>', OutputFault.INVENTED),
        ("[add(n=3)]", OutputFault.INVENTED),
        ("I have {3} of them [1].", OutputFault.NO_CALL),
        ("Sure: " + RIGHT, OutputFault.PREFIX),
        ("Sure: " + RIGHT + "\nDone.", OutputFault.PREFIX),
        (RIGHT + "\nDone.", OutputFault.SUFFIX),
        (RIGHT + " and " + RIGHT, OutputFault.SUFFIX),
        ("Sure: " + called("add", '{"n": 3,}'), OutputFault.PREFIX),
        (called("add", '{"n": 3 /* three */}'), OutputFault.COMMENT),
        (called("add", '{"n": // three\n 3}'), OutputFault.COMMENT),
        (called("add", '{"n": 3, # three\n "s": "x"}'), OutputFault.COMMENT),
        (called("add", '{"n": 3} /* three */'), OutputFault.COMMENT),
        (called("add", '{"n": 3} // three\n'), OutputFault.COMMENT),
        (called("add", '{"n": 3,}'), OutputFault.TRAILING_COMMA),
        (called("add", '{"n": [1, 2,]}'), OutputFault.TRAILING_COMMA),
        (called("add", "{'n': 3}"), OutputFault.QUOTING),
        (called("add", "{n: 3}"), OutputFault.QUOTING),
        (called("add", '{"n": 3, "s": x}'), OutputFault.QUOTING),
        (called("add", '{"n": 3, "s": \'x\'}'), OutputFault.QUOTING),
        (called("add", '{"n": 3, "s": hvg@klerout.org"}'), OutputFault.QUOTING),
        (called("add", '{"n": [/etc/passwd, "x"]}'), OutputFault.QUOTING),
        (called("add", '{"n": 3, "s: "x", "day": 1}'), OutputFault.QUOTING),
        (called("add", '{"n": 3": 4}'), OutputFault.QUOTING),
        (called("add", '{"n": 1991-02-26"}'), OutputFault.QUOTING),
        (called("add", '{"n": 30 degrees"}'), OutputFault.QUOTING),
        (called("add", '{"n": 3, "s": "C:\\x"}'), OutputFault.ESCAPING),
        (called("add", '{"n": 3, "s": "\\ud83d"}'), OutputFault.ESCAPING),
        (called("add", '{"n": 3, "s": "\\u12"}'), OutputFault.ESCAPING),
        (called("add", '{"n": 3, "s": "a "quoted" word"}'), OutputFault.ESCAPING),
        (called("add", '{"n": NaN}'), OutputFault.BAD_LITERAL),
        (called("add", '{"n": -Infinity}'), OutputFault.BAD_LITERAL),
        (called("add", '{"n": 1e999}'), OutputFault.BAD_LITERAL),
        (called("add", '{"n": None}'), OutputFault.BAD_LITERAL),
        (called("add", '{"n": True}'), OutputFault.BAD_LITERAL),
        (called("add", '{"n": 007}'), OutputFault.BAD_LITERAL),
        (called("add", '{"n": 19:11, "s": "x"}'), OutputFault.BAD_LITERAL),
        (called("add", '{"n": 5C, "s": "x"}'), OutputFault.BAD_LITERAL),
        (called("add", '{"n": .5}'), OutputFault.BAD_LITERAL),
        (called("add", '{"n": 1.}'), OutputFault.BAD_LITERAL),
        (called("add", '{"n": }'), OutputFault.BAD_LITERAL),
        (called("add", '{"n": 3, "s": "a\nb"}'), OutputFault.RAW_NEWLINE),
        (called("add", '{"n": 3'), OutputFault.UNCLOSED),
        (called("add", '{"n": [1}'), OutputFault.UNCLOSED),
        (called("add", '{"n": 3, "s": "x}'), OutputFault.UNCLOSED),
        ('<tool_call>\n{"name": "add", "arguments": {"n": 3}', OutputFault.UNCLOSED),
        ('<tool_call>\n{"name": "add", "arguments": {"n": 3}}', OutputFault.UNCLOSED),
        ('<tool_call>\n{"name": "add", "arguments": {"n": 3}\n</tool_call>', OutputFault.UNCLOSED),
        ('<tool_call>\n{"name": "add", "arguments": ', OutputFault.UNCLOSED),
        (called("add", '{"n": [{"s": "]"]}'), OutputFault.UNCLOSED),
        (called("add", '{"n": 3}}'), OutputFault.PUNCTUATION),
        (called("add", '{"n": 3]}'), OutputFault.PUNCTUATION),
        (called("add", '{"n": "3": 3}'), OutputFault.PUNCTUATION),
        (called("add", '{"n": 3; "s": "x"}'), OutputFault.PUNCTUATION),
        (called("add", '{"s": "x"; "n": 3}'), OutputFault.PUNCTUATION),
        (called("add", '{"n": 3 "s": "x"}'), OutputFault.PUNCTUATION),
        (called("add", '{"n", "s": "x"}'), OutputFault.PUNCTUATION),
        (called("add", '{"n"= 3}'), OutputFault.PUNCTUATION),
        (called("add", '{"n": 3}"}'), OutputFault.PUNCTUATION),
        (reversed_call("add", '{"n": 3,}'), OutputFault.TRAILING_COMMA),
        (reversed_call("mul", '{"n": 3}'), OutputFault.UNKNOWN_TOOL),
        ('<tool_call>\n{"arguments": {"n": 3}}\n</tool_call>', OutputFault.INVENTED),
        (called("add", '{"n": 3, "n": 3}'), OutputFault.REPEATED_KEY),
        (called("mul", '{"n": "x"}'), OutputFault.UNKNOWN_TOOL),
        (called("", '{"n": 3}'), OutputFault.UNKNOWN_TOOL),
        (called("add", "{}"), OutputFault.MISSING_KEY),
        (called("add", '{"n": 3, "day": "2026-01-02"}'), OutputFault.MISSING_KEY),
        (called("add", '{"z": 3}'), OutputFault.MISSING_KEY),
        (called("add", '{"n": "3", "z": 1}'), OutputFault.EXTRA_KEY),
        (called("add", '{"n": "3"}'), OutputFault.WRONG_TYPE),
        (called("add", "[]"), OutputFault.WRONG_TYPE),
        (called("add", '{"n": 3, "s": "z"}'), OutputFault.BAD_VALUE),
        (called("add", '{"n": 3, "s": "x", "day": "2026-02-31"}'), OutputFault.BAD_VALUE),
        (RIGHT + "\n" + called("add", "{}"), OutputFault.MISSING_KEY),
        (called("add", '{"n": ' + 5000 * "["), OutputFault.UNCLOSED),
    ],
)
def test_every_fault_has_its_kind(text, fault):
    assert verdict(text).fault == fault


def test_what_is_no_text_is_no_json():
    broken = verdict(RIGHT, is_utf8=False)
    assert (broken.fault, broken.is_json, broken.is_valid_open) == (OutputFault.BROKEN_UTF8, False, False)


@pytest.mark.parametrize(
    ("arguments", "is_reordered"),
    [
        ('{"n": 3, "s": "x"}', 0),
        ('{"n": 3, "s": "x", "day": "2026-01-02"}', 0),
        ('{"s": "x", "n": 3}', 1),
        ('{"n": 3, "day": "2026-01-02", "s": "x"}', 1),
        ('{"s": "x"}', 0),
        ('{"n": 3, "in": [{"a": 1, "b": 2}]}', 0),
        ('{"n": 3, "in": [{"b": 2, "a": 1}]}', 1),
    ],
)
def test_valid_calls_tell_the_order_of_their_keys(arguments, is_reordered):
    inner = {"type": "array", "items": {"properties": {"a": {}, "b": {}}}}
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"], "in": inner}}
    question = Question((), (Tool("add", "", schema),), "add", {})
    text = called("add", arguments)
    assert judge(question, text, HERMES, is_whole=True).is_reordered == is_reordered


def test_what_was_cut_off_is_truncated_whatever_it_holds():
    assert verdict(RIGHT, is_whole=False).fault == OutputFault.TRUNCATED
    assert not verdict(RIGHT, is_whole=False).is_json


@pytest.mark.parametrize(
    ("arguments", "is_json", "is_valid_open"),
    [
        ('{"n": 3, "z": 1}', 1, 1),
        ('{"z": 1}', 1, 0),
        ('{"n": 3, "n": 3}', 1, 0),
        ('{"n": 3,}', 0, 0),
    ],
)
def test_json_and_open_objects_are_told_apart(arguments, is_json, is_valid_open):
    found = verdict(called("add", arguments))
    assert (found.is_json, found.is_valid_open, found.is_valid) == (is_json, is_valid_open, 0)


def test_an_ignored_key_counts_for_nothing():
    text = called("add", '{"reasoning": "so", "n": 3}')
    assert verdict(text).fault == OutputFault.EXTRA_KEY
    assert verdict(text, ignored="reasoning").is_right


def test_objects_are_closed_wherever_keys_are_declared():
    inner = {"properties": {"a": {"type": "array", "items": {"properties": {"b": {}}}}}}
    assert closed(inner) == {
        "additionalProperties": False,
        "properties": {
            "a": {"type": "array", "items": {"additionalProperties": False, "properties": {"b": {}}}}
        },
    }


@pytest.mark.parametrize("name", [name for name, row in SYNTAXES.items() if can_be_read(row)])
def test_every_syntax_with_json_arguments_is_read(name):
    row, call = SYNTAXES[name], ("add", '{"n": 3}')
    text = spell_calls(row, call)
    reading = parse_output(text, row)
    assert [(c.name, c.arguments) for c in reading.calls] == [("add", {"n": 3})]
    assert reading.is_json
    if row.separator is not None:
        assert len(parse_output(spell_calls(row, call, call), row).calls) == 2
    assert parse_output("Sure. " + text, row).fault == OutputFault.PREFIX


def test_a_thought_before_the_call_is_no_prose():
    assert parse_output("<think>\nwhich one?\n</think>\n\n" + RIGHT, find_syntax("hermes+think")).is_json
