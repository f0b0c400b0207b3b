"""Text in, prose and calls out, however the text is cut."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from monolith import tagged
from text_call_parser import ArgumentsPart, CallEnd, CallParser, CallStart, TextPart, ThoughtPart
from whole_outputs import parse_calls, spell_calls

from compiler.syntaxes import SYNTAXES, Syntax, find_syntax

ALL = pytest.mark.parametrize("syntax", SYNTAXES.values(), ids=lambda row: row.name)
FEW = settings(max_examples=40)
"""Of each syntax: all share one parser, so that it reads some 700 made-up outputs."""
WITH_TRIGGER = pytest.mark.parametrize(
    "syntax", [row for row in SYNTAXES.values() if row.trigger], ids=lambda row: row.name
)


def write(syntax: Syntax, calls: list[tuple[str, str]]) -> str:
    return spell_calls(syntax, *((name, _arguments(text, syntax)) for name, text in calls)) if calls else ""


def _arguments(text: str, syntax: Syntax) -> str:
    return text if syntax.tags is None else tagged(json.loads(text), syntax)


def can_write(syntax: Syntax, name: str, text: str) -> bool:
    """Whether a call can be written so that a reader gets it back."""
    if not syntax.can_spell(name) or "`" in name:
        return False
    if syntax.tags is None:
        return True
    texts = [value for value in json.loads(text).values() if isinstance(value, str)]
    return not any(tag in value for value in texts for tag in syntax.tag_texts)


def types_in(calls: list[tuple[str, str]]):
    """The types of the parameters of each call, as a lowering would find them out."""
    kinds = {str: "string", int: "number", bool: "boolean", type(None): "null", list: "array", dict: "object"}
    types: dict[str, dict[str, tuple[str, ...]]] = {}
    for name, text in calls:
        types.setdefault(name, {}).update({k: (kinds[type(v)],) for k, v in json.loads(text).items()})
    return types.__getitem__


def parts_of(syntax: Syntax, chunks: list[str], types_of=None):
    parser = CallParser(syntax, types_of)
    parts = [part for chunk in chunks for part in parser.feed(chunk)]
    return [*parts, *parser.finish()]


def merged(parts):
    """Equal neighbours joined, so that only what was said remains, not how it was cut."""
    out = []
    for part in parts:
        if out and type(out[-1]) is type(part) and isinstance(part, TextPart | ThoughtPart | ArgumentsPart):
            out[-1] = type(part)(out[-1].text + part.text)
        else:
            out.append(part)
    return out


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12) | st.sampled_from(
    ["pay", "pay_all", 'quo"ted', "back\\slash\\", '", "arguments": ', "a.b"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(['}"]', "</tool_call>", "\\"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
keys = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters='<>"'))
arguments = st.dictionaries(keys.filter(bool), values, max_size=3).map(
    lambda v: json.dumps(v, ensure_ascii=False)
)
prose = st.text(max_size=30) | st.sampled_from(["<tool", '{"nam', "[TOOL_", "[[{", "a < b"])


@ALL
@FEW
@given(text=prose, calls=st.lists(st.tuples(names, arguments), max_size=3), data=st.data())
def test_any_chunking_reads_the_calls_back(syntax, text, calls, data):
    if syntax.trigger in text + syntax.trigger[:-1]:
        text = ""
    calls = [call for call in calls if can_write(syntax, *call)]
    calls = list({name: (name, args) for name, args in calls}.values())
    calls = calls[: None if syntax.separator is not None else 1]
    whole = text + write(syntax, calls)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    expected = [TextPart(text)] if text else []
    for name, args in calls:
        expected += [CallStart(name), ArgumentsPart(args), CallEnd()]
    types_of = types_in(calls)
    assert merged(parts_of(syntax, chunks, types_of)) == expected
    assert merged(parts_of(syntax, list(whole), types_of)) == expected
    assert parse_calls(whole, syntax, types_of) == (text, calls)


@ALL
@FEW
@given(text=st.text(alphabet='<tool_ca>[]{"name": TOOL_CALLS}\n,ab｜▁begins', max_size=60), data=st.data())  # noqa: RUF001
@example(text="<tool_call><tool_call>\n", data=None)
@example(text='[[{"name": "x', data=None)
@example(text='[TOOL_CALLS] [{"name": "a', data=None)
def test_any_chunking_of_anything_says_the_same_and_loses_no_prose(syntax, text, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8))) if data else range(len(text))
    chunks = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    parts = merged(parts_of(syntax, chunks))
    assert parts == merged(parts_of(syntax, [text]))
    if not any(isinstance(part, CallStart) for part in parts):
        assert "".join(part.text for part in parts) == text


@WITH_TRIGGER
def test_only_a_possible_trigger_is_held_back(syntax):
    parser = CallParser(syntax)
    assert parser.feed("hello " + syntax.trigger[:-1]) == [TextPart("hello ")]
    assert parser.feed("?") == [TextPart(syntax.trigger[:-1] + "?")]
    assert parser.finish() == []


def test_arguments_stream_as_they_come():
    parser = CallParser(SYNTAXES["hermes"])
    header = SYNTAXES["hermes"].header("pay")
    assert parser.feed(header) == [CallStart("pay")]
    assert parser.feed('{"to": "A') == [ArgumentsPart('{"to": "A')]
    assert parser.is_open
    assert parser.feed('nn"}}') == [ArgumentsPart('nn"}')]
    assert parser.feed("\n</tool_call>") == [CallEnd()]
    assert not parser.is_open


def test_a_call_cut_off_stays_open_and_is_no_prose():
    parser = CallParser(SYNTAXES["json"])
    parser.feed('[{"name": "pay", "arguments": {"a": 1')
    assert parser.is_open
    assert parser.finish() == []


def test_a_header_cut_off_is_prose():
    parser = CallParser(SYNTAXES["hermes"])
    assert parser.feed('so <tool_call>\n{"name": "pa') == [TextPart("so ")]
    assert parser.finish() == [TextPart('<tool_call>\n{"name": "pa')]


HARMONY = SYNTAXES["harmony"]
SAID = "<|channel|>analysis<|message|>Hm <|en?<|end|><|start|>assistant<|channel|>commentary<|message|>I pay.<|end|>"


@pytest.mark.parametrize("header", HARMONY.headers)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_messages_are_told_apart(header, size):
    text = SAID + "<|start|>assistant" + header[0] + "pay.all" + header[1] + '{"a": 1}<|call|>'
    parts = parts_of(HARMONY, [text[at : at + size] for at in range(0, len(text), size)])
    assert merged(parts) == [
        ThoughtPart("Hm <|en?"),
        TextPart("I pay."),
        CallStart("pay.all"),
        ArgumentsPart('{"a": 1}'),
        CallEnd(),
    ]


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_the_last_message_is_the_answer(size):
    text = SAID + "<|start|>assistant<|channel|>final<|message|>Paid <|"
    parts = merged(parts_of(HARMONY, [text[at : at + size] for at in range(0, len(text), size)]))
    assert parts == [ThoughtPart("Hm <|en?"), TextPart("I pay.Paid <|")]


def test_what_is_no_message_is_prose():
    assert merged(parts_of(HARMONY, ["Hel", "lo"])) == [TextPart("Hello")]
    assert merged(parts_of(HARMONY, ["<|channel|>", "other"])) == [TextPart("<|channel|>other")]


@pytest.mark.parametrize("size", [1, 6, 1000])
@pytest.mark.parametrize(
    ("text", "is_thinking", "expected"),
    [
        ("<think>\nA </thin\n</think>\n\nHi", False, [ThoughtPart("\nA </thin\n"), TextPart("Hi")]),
        ("\n<think>A</think>Hi", False, [ThoughtPart("A"), TextPart("Hi")]),
        ("\n<thin king", False, [TextPart("\n<thin king")]),
        ("A</think>Hi", True, [ThoughtPart("A"), TextPart("Hi")]),
        ("A </th", True, [ThoughtPart("A </th")]),
        ("Hi <think>", False, [TextPart("Hi <think>")]),
        ("<thi", False, [TextPart("<thi")]),
        ("<think></think>\n", False, []),
    ],
)
def test_a_thought_is_told_from_the_answer(text, is_thinking, expected, size):
    parser = CallParser(find_syntax("hermes+think"), is_thinking=is_thinking)
    parts = [part for at in range(0, len(text), size) for part in parser.feed(text[at : at + size])]
    assert merged([*parts, *parser.finish()]) == expected


@pytest.mark.parametrize("outputs", [{"may_call": False}, {"may_answer": True}], ids=str)
def test_an_answer_in_a_format_keeps_its_line_breaks_and_what_is_behind_them(outputs):
    for text in ("\n<think>x</think>y", "\n<tool_call>"):
        parser = CallParser(find_syntax("hermes+think"), **outputs)
        parts = [part for char in text for part in parser.feed(char)] + parser.finish()
        assert merged(parts) == [TextPart(text)]


def test_a_call_behind_a_thought():
    row = find_syntax("qwen3_coder+think")
    text = "<think>x</think>\n\n" + write(row, [("f", "{}")])
    parts = parts_of(row, [text])
    assert parts == [ThoughtPart("x"), CallStart("f"), ArgumentsPart("{}"), CallEnd()]
