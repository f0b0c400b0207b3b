"""The questions of the study: hard schemas, other prompts, and the grammars of outputs."""

import gzip
import json
from itertools import islice

import jsonschema_rs
import pytest
from vocabularies import BYTES
from whole_outputs import admits, spell_calls

from compiler import compile_toolset
from compiler.syntaxes import find_syntax
from runtime.request import Message
from runtime.study.harder_schemas import harden
from runtime.study.judging import closed
from runtime.study.output_grammars import skeleton
from runtime.study.questions import MISSING, NUM_HELD_OUT, Question, bfcl, everyday, held_out
from runtime.study.results import StudySettings
from runtime.study.strategies import EXAMPLE_TOOL, reasoning_key, with_example, with_reasoning
from runtime.study.study_runner import BFCL, question_sets
from toolspecs.tool import Tool


def wanted(question):
    return {key: values[0] for key, values in question.right_values.items() if values[0] is not MISSING}


def parameters(question):
    return next(dict(tool.parameters) for tool in question.tools if tool.name == question.name)


def is_valid(schema, value):
    return jsonschema_rs.validator_for(closed(schema), validate_formats=True).is_valid(value)


def text_of(question):
    arguments = json.dumps(wanted(question), ensure_ascii=False)
    return spell_calls(find_syntax("hermes"), (question.name, arguments))


def test_hard_schemas_keep_the_wanted_call_and_are_compiled():
    keywords = set()
    for question in held_out(25):
        hard = harden(question)
        assert is_valid(parameters(hard), wanted(question))
        for easy_tool, hard_tool in zip(question.tools, hard.tools, strict=True):
            assert easy_tool.parameters != hard_tool.parameters
            assert harden(question) == hard
        linked = compile_toolset(hard.tools, tokenizer=BYTES, parallel=False)
        assert admits(linked, text_of(hard))
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


def write_bfcl(path, items):
    path.write_bytes(gzip.compress("".join(json.dumps(item) + "\n" for item in items).encode()))


def test_a_sample_of_bfcl_is_spread_over_the_file_and_the_same_each_time(tmp_path):
    items = [
        {
            "question": [[{"role": "user", "content": str(n)}]],
            "function": [{"name": "f", "description": "", "parameters": {"type": "dict"}}],
            "ground_truth": [{"f": {}}],
        }
        for n in range(100)
    ]
    for name in BFCL:
        write_bfcl(tmp_path / f"{name}.jsonl.gz", items)

    def numbers(count):
        questions = question_sets(StudySettings(count=count, bfcl=tmp_path))[f"bfcl {BFCL[0]}"]
        return [int(question.messages[0].content) for question in questions]

    ten = numbers(10)
    assert ten == numbers(10) == sorted(set(ten))
    assert 30 < sum(ten) / 10 < 70
    assert numbers(200) == [*range(100)]


def test_questions_of_bfcl_are_read(tmp_path):
    parameters = {
        "type": "dict",
        "properties": {
            "n": {"type": "float", "default": "none", "optional": True},
            "box": {"type": "dict", "properties": {"side": {"type": "integer"}}},
            "ids": {"type": "array", "items": {"type": "any"}},
        },
        "required": ["box"],
    }
    item = {
        "question": [[{"role": "user", "content": "Measure it."}]],
        "function": [{"name": "a.b", "description": "", "parameters": parameters}],
        "ground_truth": [{"a.b": {"n": ["", 2.5], "box": [{"side": [3, 4]}], "ids": [[1, 2]]}}],
    }
    parallel = item | {"ground_truth": 2 * item["ground_truth"]}
    path = tmp_path / "simple.jsonl.gz"
    write_bfcl(path, [item, parallel])
    (question,) = bfcl(path)
    (tool,) = question.tools
    assert tool.parameters["properties"] == {
        "n": {"type": "number"},
        "box": {"type": "object", "properties": {"side": {"type": "integer"}}},
        "ids": {"type": "array", "items": {}},
    }
    assert question.is_right("a.b", {"box": {"side": 4}, "ids": [1, 2]})
    assert question.is_right("a.b", {"n": 2.5, "box": {"side": 3}, "ids": [1, 2]})
    for wrong in (
        {"box": {"side": 5}, "ids": [1, 2]},
        {"box": {"side": True}, "ids": [1, 2]},
        {"box": {}, "ids": [1, 2]},
        {"box": {"side": 3}, "ids": [2, 1]},
        {"n": 2, "box": {"side": 3}, "ids": [1, 2]},
        {"box": {"side": 3}},
        [],
    ):
        assert not question.is_right("a.b", wrong)
