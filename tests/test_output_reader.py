"""The reader that tests hold matchers against gets back what was written."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from monolith import tagged
from whole_outputs import parse_calls, spell_calls

from compiler.syntaxes import SYNTAXES, Syntax


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


@pytest.mark.parametrize("syntax", SYNTAXES.values(), ids=lambda row: row.name)
@settings(max_examples=40)
@given(text=prose, calls=st.lists(st.tuples(names, arguments), max_size=3))
def test_calls_are_read_back(syntax, text, calls):
    if syntax.trigger in text + syntax.trigger[:-1]:
        text = ""
    calls = [call for call in calls if can_write(syntax, *call)]
    calls = list({name: (name, args) for name, args in calls}.values())
    calls = calls[: None if syntax.separator is not None else 1]
    whole = text + write(syntax, calls)
    assert parse_calls(whole, syntax, types_in(calls)) == (text, calls)


@pytest.mark.parametrize(
    ("text", "prose"),
    [
        ('so <tool_call>\n{"name": "pa', 'so <tool_call>\n{"name": "pa'),
        ("<tool_call><tool_call>\n", "<tool_call><tool_call>\n"),
        ('a<tool_call>\n{"name": "pay", "arguments": {"a": 1', "a"),
    ],
)
def test_what_is_cut_off_is_prose_up_to_the_name_of_a_tool(text, prose):
    assert parse_calls(text, SYNTAXES["hermes"])[0] == prose
