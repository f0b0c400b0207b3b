"""The rows of the syntax table, held against xgrammar's own structural tags where it has the family."""

import itertools
import json
import random
import re
from functools import cache

import pytest
import xgrammar as xgr
from jsonschema import Draft202012Validator
from monolith import tagged
from random_decoding import Generation
from vocabularies import BYTES
from whole_outputs import admits, parse_calls, spell_calls

from compiler import compile_toolset
from compiler.errors import CompilerError, UnknownSyntax
from compiler.prepared_vocabulary import prepare
from compiler.syntaxes import SYNTAXES, THINK, Syntax, find_syntax, syntax_of_template
from toolspecs.tool import Tool

FAMILIES = {
    "deepseek_v3": "deepseek_r1",
    "deepseek_v3_1": "deepseek_v3_1",
    "deepseek_v3_2": "deepseek_v3_2",
    "deepseek_v4": "deepseek_v4",
    "deepseek_v4_1": "deepseek_v4_1",
    "exaone": "exaone",
    "glm_4_5": "glm_4_7",
    "glm_4_7": "glm_4_7",
    "harmony": "harmony",
    "hermes": "qwen_3",
    "kimi": "kimi",
    "llama3": "llama",
    "mimo": "mimo",
    "minimax": "minimax",
    "qwen3_coder": "qwen_3_coder",
}
"""The rows whose families xgrammar has, under its names."""
LEADS = {
    ("minimax", "auto"): "\n</think>\n\n\n\n",
    ("minimax", "required"): "\n</think>\n\n\n\n\n",
    ("deepseek_v3_2", "required"): "\n\n",
    ("deepseek_v4", "required"): "\n\n",
    ("deepseek_v4_1", "required"): "\n\n",
}
"""What xgrammar demands before a call where nothing is thought; we demand nothing."""


def _object(required, **properties):
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


TOOLS = [
    Tool(
        "pay", "", _object(["to", "n"], to={"type": "string"}, n={"type": "integer"}, ok={"type": "boolean"})
    ),
    Tool("pay_all", "", _object(["kind"], kind={"enum": ["a", "b c", "ä"]}, note={"type": "string"})),
    Tool("now", "", _object([])),
    Tool("nested", "", _object([], o=_object(["x"], x={"type": "array", "items": {"type": "string"}}))),
]
SCHEMA_OF = {tool.name: tool.parameters for tool in TOOLS}


@cache
def _tag(family: str, choice: str, *, parallel: bool) -> xgr.CompiledGrammar:
    tools = [
        {"type": "function", "function": {"name": tool.name, "parameters": tool.parameters}} for tool in TOOLS
    ]
    mode = "auto" if family == "harmony" else "disabled"
    tag = xgr.get_model_structural_tag(family, tools, choice, mode, parallel_tool_calls=parallel)
    compiler = xgr.GrammarCompiler(prepare(BYTES).tokenizer_info, max_threads=1)
    return compiler.compile_structural_tag(tag)


@cache
def _linked(name: str, choice: str, *, parallel: bool):
    return compile_toolset(TOOLS, tokenizer=BYTES, syntax=name, tool_choice=choice, parallel=parallel)


def _as_the_tag_has_it(output: bytes, row: Syntax, choice: str) -> bytes:
    """Where xgrammar's tag is narrower than its family, the output as the tag has it."""
    if row.messages:
        # OpenAI's examples have a blank before `<|constrain|>`, and remarks before a call, the tag has neither;
        # and a stop token ends the last message for us.
        remark = rb"<\|channel\|>commentary<\|message\|>.*?<\|end\|><\|start\|>assistant"
        output = re.sub(remark, b"", output, flags=re.DOTALL)
        output = re.sub(rb"(commentary to=functions\.\w+) <", rb"\1<", output)
        return output if output.endswith(b"<|call|>") else output + b"<|return|>"
    if row.name == "qwen3_coder":
        # The chat template has one line break in a call without parameters, the tag demands two.
        output = re.sub(rb"(<function=\w+>\n)</", rb"\1\n</", output)
    return LEADS.get((row.name, choice), "").encode() + output


@pytest.mark.parametrize(("name", "family"), FAMILIES.items())
@pytest.mark.parametrize(("choice", "parallel"), [*itertools.product(("auto", "required"), (True, False))])
def test_what_we_write_is_in_the_language_of_the_familys_structural_tag(name, family, choice, parallel):
    row, grammar = find_syntax(name), _linked(name, choice, parallel=parallel)
    tag = _tag(family, choice, parallel=parallel)
    lead = row.opening + row.begin if choice == "auto" else ""
    shortest = grammar.closer().minimum() + len(lead) + 40
    called = set()
    for seed in range(12):
        generation = Generation(grammar, shortest + 25 * seed, random.Random(seed), lead)
        _, calls = parse_calls(generation.text, row, lambda tool: grammar.units[tool].types)
        for tool, arguments in calls:
            Draft202012Validator(SCHEMA_OF[tool]).validate(json.loads(arguments))
            called.add(tool)
        matcher = xgr.GrammarMatcher(tag)
        assert matcher.accept_string(_as_the_tag_has_it(generation.spelled, row, choice)), generation.text
        assert matcher.is_completed(), generation.text
    assert len(called) > 1


CALLS = [
    ("pay", {"to": 'A <b>\n"c"', "n": -12, "ok": True}),
    ("pay", {"to": "", "n": 0}),
    ("pay_all", {"kind": "b c", "note": "ünd"}),
    ("now", {}),
    ("nested", {"o": {"x": ["a", ""]}}),
]


@pytest.mark.parametrize("name", SYNTAXES)
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_a_call_as_the_family_writes_it_is_in_both_languages(name, choice):
    row, grammar = find_syntax(name), _linked(name, choice, parallel=True)
    for tool, arguments in CALLS:
        written = tagged(arguments, row) if row.tags else json.dumps(arguments, ensure_ascii=False)
        output = spell_calls(row, (tool, written)).encode()
        assert admits(grammar, output.decode()), output
        if name in FAMILIES:
            theirs = xgr.GrammarMatcher(_tag(FAMILIES[name], choice, parallel=True))
            assert theirs.accept_string(_as_the_tag_has_it(output, row, choice)), output
            assert theirs.is_completed()


@pytest.mark.parametrize(("name", "family"), FAMILIES.items())
def test_the_familys_structural_tag_takes_no_other_header(name, family):
    row = find_syntax(name)
    output = (row.opening + row.begin + "pax" + row.after_name + "{").encode()
    matcher = xgr.GrammarMatcher(_tag(family, "required", parallel=True))
    assert not matcher.accept_string(_as_the_tag_has_it(output, row, "required"))
    ours = _linked(name, "required", parallel=True).matcher()
    assert not all(map(ours.accept, output))


@pytest.mark.parametrize("row", SYNTAXES.values(), ids=lambda row: row.name)
def test_a_call_begins_with_the_trigger_unless_prose_is_framed(row):
    assert bool(row.trigger) != bool(row.messages)
    assert (row.opening + row.begin).startswith(row.trigger)


def test_names_are_escaped_as_json_strings_are():
    assert find_syntax("hermes").header('a"b\\ü') == '<tool_call>\n{"name": "a\\"b\\\\ü", "arguments": '


def test_an_unknown_syntax_names_those_there_are():
    with pytest.raises(UnknownSyntax, match=r"no call syntax 'morse'; there are .*hermes.*mistral") as error:
        find_syntax("morse")
    assert isinstance(error.value, CompilerError)
    assert "json" in error.value.available


def test_a_row_for_models_that_think_first():
    row = find_syntax("qwen3_coder+think")
    assert (row.name, row.thought.begin, row.thought.end) == ("qwen3_coder+think", "<think>", "</think>")
    assert row.trigger == find_syntax("qwen3_coder").trigger
    for name in ("harmony+think", "morse+think", "+think"):
        with pytest.raises(UnknownSyntax):
            find_syntax(name)


TEMPLATES = [
    ("<tool_call> \"arguments\" {{ content.split('</think>') }}", "hermes+think"),
    ("<|channel|> <|message|> functions </think>", "harmony"),
    ('<tool_call>\\n{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call>', "hermes"),
    ('{{- "[TOOL_CALLS] [" }}', "mistral"),
    ('<|start_header_id|>assistant {"name": f, "parameters": d}', "llama3"),
    ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\\n```json", "deepseek_v3"),  # noqa: RUF001 - their spelling
    ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>", "deepseek_v3_1"),  # noqa: RUF001 - their spelling
    ("<tool_call>\\n<function=f>\\n<parameter=p>", "qwen3_coder"),
    ("'<tool_call><function=' + name + '><parameter='", "mimo"),
    ("<tool_call>{name}\\n<arg_key>{k}</arg_key>\\n<arg_value>{v}</arg_value>", "glm_4_5"),
    ("<tool_call>{name}<arg_key>{k}</arg_key><arg_value>{v}</arg_value>", "glm_4_7"),
    ('<minimax:tool_call>\\n<invoke name="f">', "minimax"),
    ("<｜DSML｜function_calls>", "deepseek_v3_2"),  # noqa: RUF001 - their spelling
    ("<｜DSML｜tool_calls>", "deepseek_v4"),  # noqa: RUF001 - their spelling
    ("<｜DSML｜ calls>", "deepseek_v4_1"),  # noqa: RUF001 - their spelling
    ("[|assistant|] <tool_call>{'name': f, 'arguments': d}</tool_call>", "exaone"),
    ("<|tool_calls_section_begin|> <|tool_call_argument_begin|>", "kimi"),
    ("'[TOOL_CALLS]' + name + '[ARGS]' + arguments", "mistral_v13"),
    ("<|start|>assistant to=functions.f<|channel|>commentary json<|message|>", "harmony"),
    ('<|header_start|>assistant {"name": f, "parameters": d}', "llama3"),
    ("{% for message in messages %}", "json"),
    (None, "json"),
]
"""What chat templates contain, and the row that they lead to."""


@pytest.mark.parametrize(("template", "name"), TEMPLATES)
def test_the_syntax_is_read_off_the_chat_template(template, name):
    assert syntax_of_template(template).name == name


def test_some_chat_template_leads_to_each_row():
    found = {name.removesuffix(THINK) for _, name in TEMPLATES}
    assert found == set(SYNTAXES), "a row is found by its texts in `_TEMPLATE_TEXTS`; show some in TEMPLATES"
