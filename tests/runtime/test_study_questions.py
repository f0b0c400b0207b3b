"""The questions of the study: hard schemas, other prompts, and the grammars of outputs."""

import json
from itertools import islice

import jsonschema_rs
import pytest

from compiler import compile_toolset
from compiler.vocabulary import Vocabulary
from runtime.request import Message
from runtime.study.harder_schemas import harden
from runtime.study.judging import closed
from runtime.study.output_grammars import skeleton
from runtime.study.questions import MISSING, NUM_HELD_OUT, Question, everyday, held_out
from runtime.study.strategies import EXAMPLE_TOOL, reasoning_key, with_example, with_reasoning
from toolspecs.tool import Tool


def wanted(question):
    return {key: values[0] for key, values in question.right_values.items() if values[0] is not MISSING}


def parameters(question):
    return next(dict(tool.parameters) for tool in question.tools if tool.name == question.name)


def is_valid(schema, value):
    return jsonschema_rs.validator_for(closed(schema), validate_formats=True).is_valid(value)


def text_of(question):
    arguments = json.dumps(wanted(question), ensure_ascii=False)
    return f'<tool_call>\n{{"name": "{question.name}", "arguments": {arguments}}}\n</tool_call>'


def test_hard_schemas_keep_the_wanted_call_and_are_compiled():
    keywords = set()
    for question in held_out(25):
        hard = harden(question)
        assert is_valid(parameters(hard), wanted(question))
        for easy_tool, hard_tool in zip(question.tools, hard.tools, strict=True):
            assert easy_tool.parameters != hard_tool.parameters
            assert harden(question) == hard
        linked = compile_toolset(hard.tools, tokenizer=Vocabulary.of_bytes(), parallel=False)
        matcher = linked.matcher()
        assert all(matcher.accept(byte) for byte in text_of(hard).encode())
        text = json.dumps([tool.parameters for tool in hard.tools])
        keywords |= {key for key in KEYWORDS if f'"{key}":' in text}
    assert keywords == KEYWORDS


def test_everyday_questions_have_one_valid_call_in_every_accepted_form():
    questions = list(everyday())
    assert len(questions) == 150
    assert len({question.messages for question in questions}) == 150
    for question in questions:
        assert 3 <= len(question.tools) <= 5
        for name, values in question.right_values.items():
            for value in values:
                arguments = wanted(question) | {name: value}
                if value is MISSING:
                    del arguments[name]
                assert is_valid(parameters(question), arguments), (question.messages, arguments)
                assert question.is_right(question.name, arguments)


def test_everyday_tools_are_unlike_those_of_the_held_out_questions():
    known = {tool.name for question in held_out(NUM_HELD_OUT) for tool in question.tools}
    assert not known & {tool.name for question in everyday() for tool in question.tools}


KEYWORDS = {"allOf", "oneOf", "dependentRequired", "const", "multipleOf", "pattern", "maxLength", "maxItems"}


def test_nothing_that_was_forbidden_becomes_allowed():
    """The wanted calls of other questions, and slips in this one's, as judged before and after."""
    questions = list(held_out(12))
    hard = [harden(question) for question in questions]
    num_tighter = 0
    for easy, harder in zip(questions, hard, strict=True):
        call = wanted(easy)
        slips = [
            {**call, key: value} for key in call for value in (None, "", "zz zz", -1, 10**9, 0.123, [], {})
        ]
        slips += [{k: v for k, v in call.items() if k != key} for key in call]
        slips += [wanted(other) for other in questions]
        for slip in slips:
            before, after = is_valid(parameters(easy), slip), is_valid(parameters(harder), slip)
            assert before or not after, (slip, parameters(harder))
            num_tighter += before and not after
    assert num_tighter > 20


def test_a_skeleton_has_every_property_and_types_alone():
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "enum": ["x"], "description": "d"},
            "b": {"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": 2},
            "c": {"type": "object", "properties": {"d": {"type": ["number", "null"]}}},
            "e": {"type": "object"},
            "f": {"const": 1},
        },
        "required": ["b"],
        "allOf": [{"required": ["c"]}],
    }
    inner = {"properties": {"d": {"type": ["number", "null"]}}, "required": ["d"]}
    assert skeleton(schema) == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "a": {"type": "string", "maxLength": 40},
            "b": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 10},
            "c": {"type": "object", "additionalProperties": False} | inner,
            "e": {"type": "object"},
            "f": {},
        },
        "required": ["a", "b", "c", "e", "f"],
    }


def test_an_example_stands_behind_the_system_text_and_its_tool_is_shown():
    (question,) = islice(held_out(1), 1)
    system = Message("system", "Be brief.")
    for before in ((), (system,)):
        shown = with_example(Question((*before, *question.messages[-1:]), question.tools, "", {}))
        assert shown.messages[: len(before)] == before
        assert shown.messages[-1] == question.messages[-1]
        roles = [message.role for message in shown.messages[len(before) :]]
        assert roles == ["user", "assistant", "tool", "assistant", "user"]
        (call,) = shown.messages[len(before) + 1].calls
        assert is_valid(dict(EXAMPLE_TOOL.parameters), json.loads(call.arguments))
        assert shown.tools == (*question.tools, EXAMPLE_TOOL)


@pytest.mark.parametrize(("taken", "key"), [("a", "reasoning"), ("reasoning", "reasoning_")])
def test_reasoning_comes_first_and_takes_no_key_of_a_tool(taken, key):
    tool = Tool("f", "", {"type": "object", "properties": {taken: {"type": "string"}}})
    question = Question((), (tool,), "f", {})
    assert reasoning_key(question) == key
    (shown,) = with_reasoning(question).tools
    assert list(shown.parameters["properties"]) == [key, taken]
    assert shown.parameters["required"] == [key]
    assert shown.parameters["properties"][key]["maxLength"] > 0
