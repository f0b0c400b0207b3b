"""Every field of Chat Completions is honoured or refused."""

import pytest
from apis import TOOL_CALL, USER
from chat import body

from compiler.response_format import ResponseFormat
from gateway.errors import InvalidField
from gateway.wire.openai import read_request
from gateway.wire.openai.request import RULES, ChatFields
from gateway.wire.turn_fields import TurnHeaders
from runtime.request import Message
from toolspecs.tool import ChoiceMode, ShownTools, Tool, ToolChoice
from toolspecs.toolset import ToolsetReference

NAMED = {"type": "function", "function": {"name": "f"}}


def read(**fields):
    return read_request(body(**fields))


def turn(**fields):
    return read(**fields).turn


HONOURED = [
    ({"temperature": 0}, "sampling", {"temperature": 0.0}),
    ({"top_p": 0.5}, "sampling", {"top_p": 0.5}),
    ({"top_p": 0}, "sampling", {"top_p": 0.0}),
    ({"top_k": 5}, "sampling", {"top_k": 5}),
    ({"top_k": 0}, "sampling", {"top_k": None}),
    ({"top_k": -1}, "sampling", {"top_k": None}),
    ({"repetition_penalty": 1.2}, "sampling", {"repetition_penalty": 1.2}),
    ({"min_tokens": 3}, "min_tokens", 3),
    ({"stop_token_ids": [3, 4]}, "stop_token_ids", (3, 4)),
    ({"reasoning_effort": "none"}, "reasoning_effort", "none"),
    ({"min_p": 0.1}, "sampling", {"min_p": 0.1}),
    ({"seed": 7}, "sampling", {"seed": 7}),
    ({"presence_penalty": 1}, "sampling", {"presence_penalty": 1.0}),
    ({"frequency_penalty": -1}, "sampling", {"frequency_penalty": -1.0}),
    ({"logit_bias": {"3": -100}}, "sampling", {"logit_bias": {3: -100.0}}),
    ({"stop": "x"}, "stop", ("x",)),
    ({"stop": ["x", "y"]}, "stop", ("x", "y")),
    ({"max_tokens": 5}, "max_tokens", 5),
    ({"max_completion_tokens": 5}, "max_tokens", 5),
    ({"max_tokens": 5, "max_completion_tokens": 5}, "max_tokens", 5),
    ({"n": 3}, "num_choices", 3),
    ({"logprobs": True}, "num_logprobs", 0),
    ({"logprobs": True, "top_logprobs": 4}, "num_logprobs", 4),
    ({"logprobs": False}, "num_logprobs", None),
    ({"parallel_tool_calls": False}, "is_parallel", False),
    ({"parallel_tool_calls": None}, "is_parallel", True),
    ({"tool_choice": "none"}, "tool_choice", ToolChoice(ChoiceMode.NONE)),
    ({"tool_choice": "auto"}, "tool_choice", ToolChoice()),
    ({"tool_choice": "required"}, "tool_choice", ToolChoice(ChoiceMode.REQUIRED)),
    ({"tool_choice": "any"}, "tool_choice", ToolChoice(ChoiceMode.REQUIRED)),
    ({"tool_choice": NAMED}, "tool_choice", ToolChoice.named("f")),
    ({"tool_choice": None}, "tool_choice", None),
    (
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}},
        "tool_choice",
        ToolChoice(ChoiceMode.AUTO, ("f",)),
    ),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": True}}},
        "response_format",
        ResponseFormat("schema", content=True),
    ),
    (
        {"response_format": {"type": "json_object"}},
        "response_format",
        ResponseFormat("schema", {"type": "object", "additionalProperties": True}),
    ),
    ({"timeout": 2.5}, "timeout_s", 2.5),
    (
        {"response_format": {"type": "regex", "pattern": "a+"}},
        "response_format",
        ResponseFormat("pattern", "a+"),
    ),
    (
        {"response_format": {"type": "choice", "choices": ["a", "b"]}},
        "response_format",
        ResponseFormat("choice", ["a", "b"]),
    ),
    (
        {"response_format": {"type": "grammar", "grammar": 'root ::= "a"', "syntax": "ebnf"}},
        "response_format",
        ResponseFormat("grammar", 'root ::= "a"'),
    ),
    ({"guided_json": {"type": "null"}}, "response_format", ResponseFormat("schema", {"type": "null"})),
    ({"guided_json": '{"type": "null"}'}, "response_format", ResponseFormat("schema", {"type": "null"})),
    ({"guided_regex": "a+"}, "response_format", ResponseFormat("pattern", "a+")),
    ({"guided_choice": ["a", "b"]}, "response_format", ResponseFormat("choice", ["a", "b"])),
    ({"guided_grammar": 'root ::= "a"'}, "response_format", ResponseFormat("grammar", 'root ::= "a"')),
    ({"structured_outputs": {"regex": "a+"}}, "response_format", ResponseFormat("pattern", "a+")),
    (
        {"structured_outputs": {"json": True, "disable_fallback": True}},
        "response_format",
        ResponseFormat("schema", content=True),
    ),
    (
        {"structured_outputs": {"json_object": True}},
        "response_format",
        ResponseFormat("schema", {"type": "object", "additionalProperties": True}),
    ),
    ({"json_schema": '{"type": "null"}'}, "response_format", ResponseFormat("schema", {"type": "null"})),
    ({"regex": "a+"}, "response_format", ResponseFormat("pattern", "a+")),
    ({"ebnf": 'root ::= "a"'}, "response_format", ResponseFormat("grammar", 'root ::= "a"')),
    ({"toolset": "a@2"}, "toolsets", (ToolsetReference("a", 2),)),
    ({"toolset": ["a", "b"]}, "toolsets", (ToolsetReference("a"), ToolsetReference("b"))),
    ({"chat_template_kwargs": {"enable_thinking": False}}, "template_options", {"enable_thinking": False}),
    (
        {"messages": [{"role": "system", "content": "Be brief."}]},
        "messages",
        (Message("system", "Be brief."),),
    ),
    ({"model": "other"}, "model", "other"),
    ({"stream": True}, "is_streamed", True),
    ({"truncation": "auto"}, "truncates", True),
    ({"prompt_tools": "none"}, "prompt_tools", ShownTools.NONE),
    ({"tool_search": False}, "tool_search", False),
    (
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        "tools",
        (Tool("f", "", {"type": "object", "properties": {}}),),
    ),
    ({"callgate": {"inspect": True}}, "is_inspected", True),
    ({"callgate": {"key_order": "any"}}, "key_order", "any"),
]


@pytest.mark.parametrize(("fields", "name", "value"), HONOURED, ids=[str(f)[:60] for f, _, _ in HONOURED])
def test_a_field_is_honoured(fields, name, value):
    assert getattr(turn(**fields), name) == value


def test_every_field_is_shown_to_be_honoured():
    shown = {name for fields, _, _ in HONOURED for name in fields}
    missing = {*ChatFields.__struct_fields__} - shown
    assert missing == {"stream_options"}, "show in HONOURED what becomes of a field"  # no part of a turn


HARMLESS = [
    {"user": "u"},
    {"metadata": {"a": "b"}},
    {"store": False},
    {"store": None},
    {"service_tier": "auto"},
    {"safety_identifier": "x"},
    {"prompt_cache_key": "x"},
    {"modalities": ["text"]},
    {"response_format": {"type": "text"}},
    {"response_format": None},
    {"functions": None},
    {"tools": None},
    {"stop": None},
    {"temperature": None},
    {"stream": False},
]


@pytest.mark.parametrize("fields", HARMLESS, ids=str)
def test_what_asks_for_nothing_changes_nothing(fields):
    assert read(**fields) == read()


def test_a_stream_tells_its_usage_only_if_asked():
    assert turn(stream=True).is_streamed
    assert not read(stream=True).includes_usage
    assert read(stream=True, stream_options={"include_usage": True}).includes_usage
    assert not read(stream=True, stream_options=None).includes_usage


@pytest.mark.parametrize("strict", [True, False, None])
def test_strict_is_accepted_as_calls_are_always_valid(strict):
    function = {"name": "f", "parameters": {"type": "object"}, "strict": strict}
    [tool] = turn(tools=[{"type": "function", "function": function}]).tools
    assert tool.name == "f"


REFUSALS = [
    ({"tool": []}, "tool"),
    ({"continue_final_message": True}, "continue_final_message"),
    ({"extra_body": {"toolset": "weather"}}, "extra_body"),
    ({"extra_headers": {"X-Toolset": "weather"}}, "extra_headers"),
    *(({name: "x"}, name) for name in RULES.refused),
    ({"top_k": -2}, "top_k"),
    ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"min_tokens": -1}, "min_tokens"),
    ({"stop_token_ids": [-1]}, "stop_token_ids[0]"),
    ({"guided_json": "{"}, "guided_json"),
    ({"guided_json": '{"const": "\\ud83d"}'}, "guided_json"),
    ({"guided_json": '{"\\\\\\udc00\\ud83d\\ude00": 1}'}, "guided_json"),
    ({"guided_json": "3"}, "guided_json"),
    ({"guided_json": '{"const": NaN}'}, "guided_json"),
    ({"guided_json": '{"maximum": 1e999}'}, "guided_json"),
    ({"guided_choice": []}, "guided_choice"),
    ({"guided_json": {}, "guided_regex": "a"}, "guided_regex"),
    ({"response_format": {"type": "json_object"}, "guided_json": {}}, "guided_json"),
    ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag"),
    ({"structured_outputs": {"json": {}, "choice": ["a"]}}, "structured_outputs.choice"),
    ({"model": 3}, "model"),
    ({"model": ""}, "model"),
    ({"messages": []}, "messages"),
    ({"messages": "Hi"}, "messages"),
    ({"temperature": 3}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"top_p": -0.1}, "top_p"),
    ({"presence_penalty": 3}, "presence_penalty"),
    ({"n": True}, "n"),
    ({"seed": 1.5}, "seed"),
    ({"seed": 2**64}, "seed"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": 1, "max_completion_tokens": 2}, "max_completion_tokens"),
    ({"stop": [""]}, "stop"),
    ({"stop": ["x"] * 17}, "stop"),
    ({"logit_bias": {"a": 1}}, "logit_bias"),
    ({"logit_bias": {str(i): 1 for i in range(1025)}}, "logit_bias"),
    ({"logit_bias": {"2": 1, "1": 101}}, 'logit_bias["1"]'),
    ({"logit_bias": {"1": "2"}}, 'logit_bias["1"]'),
    ({"logit_bias": {"1": True}}, 'logit_bias["1"]'),
    (
        {
            "messages": [
                USER,
                {
                    "role": "assistant",
                    "tool_calls": [TOOL_CALL, {**TOOL_CALL, "function": {"name": "f", "arguments": "{"}}],
                },
            ]
        },
        "messages[1].tool_calls[1].function.arguments",
    ),
    ({"top_logprobs": 1}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": {"include_usages": True}}, "stream_options.include_usages"),
    ({"stream": "yes"}, "stream"),
    ({"tool_choice": {"type": "mcp", "name": "f"}}, "tool_choice.type"),
    ({"tool_choice": {"type": "function"}}, "tool_choice.function"),
    (
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "none", "tools": [NAMED]}}},
        "tool_choice.allowed_tools.mode",
    ),
    (
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}},
        "tool_choice.allowed_tools.tools",
    ),
    ({"timeout": 0}, "timeout"),
    ({"timeout": "soon"}, "timeout"),
    ({"response_format": {"type": "xml"}}, "response_format.type"),
    ({"response_format": {"type": "regex", "regex": "a"}}, "response_format.regex"),
    ({"response_format": {"type": "regex"}}, "response_format.pattern"),
    ({"response_format": {"type": "choice", "choices": []}}, "response_format.choices"),
    ({"response_format": {"type": "choice", "choices": ["a", 1]}}, "response_format.choices[1]"),
    (
        {"response_format": {"type": "grammar", "grammar": "start: A", "syntax": "lark"}},
        "response_format.syntax",
    ),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
        "response_format.json_schema.schema",
    ),
    ({"toolset": 3}, "toolset"),
    ({"toolset": "No Good"}, "toolset"),
    ({"toolset": "a@0"}, "toolset"),
    ({"messages": [{"role": "function", "name": "f", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    ({"messages": [USER, {"role": "tool", "content": "x"}]}, "messages[1].tool_call_id"),
    ({"messages": [{**USER, "names": "good"}]}, "messages[0].names"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        "messages[0].content[0].image_url.url",
    ),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
    ({"messages": [{"role": "user", "content": [{"type": [], "text": "a"}]}]}, "messages[0].content[0].type"),
    ({"messages": [{"role": "system", "content": [{"type": {}}]}]}, "messages[0].content[0].type"),
    (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "texts": 1}]}]},
        "messages[0].content[0].texts",
    ),
    (
        {"messages": [{"role": "assistant", "content": "a", "audio": {"id": "x"}}]},
        "messages[0].audio",
    ),
]


@pytest.mark.parametrize(("fields", "param"), REFUSALS, ids=[str(f)[:70] for f, _ in REFUSALS])
def test_what_cannot_be_honoured_is_refused_by_name(fields, param):
    with pytest.raises(InvalidField) as error:
        read(**fields)
    assert error.value.param == param
    assert error.value.reason


@pytest.mark.parametrize(("sent", "said"), [([], "object"), ({"messages": [USER]}, "model")])
def test_a_body_that_is_no_request(sent, said):
    with pytest.raises(InvalidField, match=said):
        read_request(sent)


def test_the_header_adds_to_the_body():
    sent = body(toolset="a")
    refs = read_request(sent, TurnHeaders("b@2, a")).turn.toolsets
    assert refs == (ToolsetReference("a"), ToolsetReference("b", 2))
    with pytest.raises(InvalidField) as error:
        read_request(sent, TurnHeaders("No Good"))
    assert error.value.param == "X-Toolset"


MENDED = [
    (
        {"tool_choice": "requierd"},
        "tool_choice",
        "did you mean 'required'? There are 'any', 'auto', 'none', 'required'",
    ),
    (
        {"tool_choice": "some"},
        "tool_choice",
        "'some' is not one of its values; there are 'any', 'auto', 'none', 'required'",
    ),
    (
        {"tool_choice": 5},
        "tool_choice",
        "'required' or an object whose 'type' is one of 'function', 'custom', 'allowed_tools'",
    ),
    ({"tool_choice": {"type": "fuction"}}, "tool_choice.type", "did you mean 'function'?"),
    ({"tool_choice": {"type": "function", "name": "f"}}, "tool_choice.name", "there are 'type', 'function'"),
    ({"tool_choice": {"type": "function", "function": {"nam": ""}}}, "tool_choice.function.nam", "'name'?"),
    (
        {"response_format": {"type": "json_scheam"}},
        "response_format.type",
        "did you mean 'json_schema'? There are",
    ),
    ({"response_format": {}}, "response_format.type", "it is one of 'text', 'json_object'"),
    ({"n": 0}, "n", "it must be a whole number, at least 1"),
    ({"stop": [1]}, "stop[0]", "it must be a text, not a whole number"),
    (
        {"messages": [{**USER, "content": [{"type": None}]}]},
        "messages[0].content[0].type",
        "a text, not null; expected 'text'",
    ),
    (
        {"messages": [{**USER, "content": [{"type": {}}]}]},
        "messages[0].content[0].type",
        "a text, not an object; expected",
    ),
    ({"response_format": "json"}, "response_format", "'json_schema', 'regex', 'choice', 'grammar'"),
    ({"messages": [{"role": "usr"}]}, "messages[0].role", "did you mean 'user'?"),
    ({"messages": [{"role": "user", "contnt": ""}]}, "messages[0].contnt", "did you mean 'content'?"),
    ({"temprature": 1}, "temprature", "did you mean 'temperature'?"),
    ({"modalities": ["audio"]}, "modalities", 'leave it out, or write ["text"]'),
]


@pytest.mark.parametrize(("fields", "param", "said"), MENDED, ids=[str(f)[:60] for f, _, _ in MENDED])
def test_a_refusal_says_what_to_write(fields, param, said):
    with pytest.raises(InvalidField) as refused:
        read(**fields)
    assert refused.value.param == param
    assert said in refused.value.reason


def test_nothing_cuts_an_answer_in_a_format():
    assert turn(stop=["}"], response_format={"type": "text"}).stop == ("}",)
    sent = body(stop=["}"], response_format={"type": "json_object"})
    asked = read_request(sent)
    assert (asked.turn.stop, asked.ignored) == ((), ("stop",))
    with pytest.raises(InvalidField, match="could cut off an answer") as refused:
        read_request(sent, is_strict=True)
    assert refused.value.param == "stop"


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_choice": "required" * 100_000},
        {"messages": [USER], "stop": "x", "tool_choice": {"x" * 1_000_000: 1}},
        {"logit_bias": {"9" * 5000: 1}},
        {"logit_bias": {"x" * 1_000_000: 1}},
        {"toolset": ["a"] * 1_000_000},
        {
            "messages": [
                {
                    "role": "assistant",
                    "tool_calls": [{**TOOL_CALL, "id": f"call_{i:06}"} for i in range(100_000)],
                },
                {"role": "tool", "tool_call_id": "call_00000x", "content": ""},
            ]
        },
    ],
    ids=lambda fields: next(iter(fields))[:20],
)
def test_a_refusal_is_short_however_large_the_request(fields):
    with pytest.raises(InvalidField) as refused:
        read(**fields)
    assert len(str(refused.value)) < 2000
