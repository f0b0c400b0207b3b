"""OpenAI's custom tools in both APIs, with a runtime that plays a script."""

import json
import random

import pytest
from apis import CHAT, MESSAGES, RESPONSES
from fake_runtime import STATS, call
from sample_tools import WEATHER
from whole_outputs import admits_beginning

from gateway.generation.custom_inputs import InputReader, call_with_input
from runtime.events import ArgumentsDelta, CallStarted, Finished, FinishReason
from runtime.request import Message
from toolspecs.tool import CustomInput, ToolCall

SQL = {"type": "custom", "name": "sql", "description": "Runs SQL."}
NESTED = {"type": "custom", "custom": {"name": "sql", "description": "Runs SQL."}}
DIGITS = {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"}
NESTED_DIGITS = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[0-9]+"}}

INPUT = 'SELECT "ä\n\U0001f600"'
PIECES = ('{"inp', 'ut": "SEL', "ECT \\", '"ä\\n\\ud83d', "\\ude", '00\\"', '"}')
CALL = call("sql", *PIECES)


async def test_the_input_of_a_custom_tool_is_text(client, runtime):
    """Also in streams, which add up to whole answers: see `test_streams_add_up.py`."""
    runtime.script = CALL
    [choice] = (await CHAT.ask(client, tools=[NESTED, WEATHER], tool_choice="required"))["choices"]
    [written] = choice["message"]["tool_calls"]
    assert written == {"id": written["id"], "type": "custom", "custom": {"name": "sql", "input": INPUT}}
    assert choice["finish_reason"] == "tool_calls"
    [item] = (await RESPONSES.ask(client, tools=[SQL]))["output"]
    assert item == {
        "id": item["id"],
        "type": "custom_tool_call",
        "status": "completed",
        "call_id": item["call_id"],
        "name": "sql",
        "input": INPUT,
    }
    chunks = await CHAT.stream(client, tools=[NESTED])
    calls = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", ())]
    assert [call["custom"]["input"] for call in calls] == ["", "SEL", "ECT ", '"ä\n', '\U0001f600"']
    assert {(call["index"], call["type"]) for call in calls} == {(0, "custom")}


async def test_calls_of_functions_beside_a_custom_tool_stay_functions(client, runtime):
    runtime.script = [
        CallStarted(0, 0, "sql"),
        ArgumentsDelta(0, 0, '{"input": "1"}'),
        CallStarted(0, 1, "get_weather"),
        ArgumentsDelta(0, 1, '{"place": "Oslo"}'),
        Finished(0, FinishReason.TOOL_CALLS, STATS),
    ]
    answer = await CHAT.ask(client, tools=[NESTED, WEATHER])
    calls = answer["choices"][0]["message"]["tool_calls"]
    assert [call[call["type"]] for call in calls] == [
        {"name": "sql", "input": "1"},
        {"name": "get_weather", "arguments": '{"place": "Oslo"}'},
    ]
    items = (await RESPONSES.ask(client, tools=[SQL, WEATHER]))["output"]
    assert [item["type"] for item in items] == ["custom_tool_call", "function_call"]


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        (SQL, CustomInput()),
        (NESTED, CustomInput()),
        (SQL | {"format": {"type": "text"}}, CustomInput()),
        (SQL | {"format": DIGITS}, CustomInput("regex", "[0-9]+")),
        (
            {"type": "custom", "custom": {"name": "sql", "format": NESTED_DIGITS}},
            CustomInput("regex", "[0-9]+"),
        ),
    ],
)
async def test_each_api_takes_the_shape_of_the_other(client, runtime, tool, expected):
    await CHAT.ask(client, tools=[tool])
    await RESPONSES.ask(client, tools=[tool])
    assert [request.tools[0].custom for request in runtime.requests] == [expected, expected]


LARK = {"type": "grammar", "syntax": "lark", "definition": 'start: "a" NUMBER\n%import common.NUMBER'}


@pytest.mark.parametrize(("form", "text", "other"), [(LARK, "a12", "b"), (DIGITS, "12", "a")])
async def test_a_grammar_holds_for_the_input(client, runtime, form, text, other):
    """The description shows a grammar for Lark; a pattern stands in the schema."""
    await CHAT.ask(client, tools=[SQL | {"format": form}], tool_choice="required")
    call = '<tool_call>\n{"name": "sql", "arguments": {"input": "%s"}}\n</tool_call>'
    assert reads(runtime, call % text)
    assert not reads(runtime, call % other)
    [tool] = runtime.requests[-1].tools
    shown = tool.parameters["properties"]["input"].get("description", "")
    assert (form["definition"] in shown) == (form is LARK)


def reads(runtime, text):
    """Whether the model that was asked last may begin its output with a text."""
    return admits_beginning(runtime.requests[-1].constraint, text)


REGISTERED = "/v1/toolsets/files"


@pytest.mark.parametrize("tool", [SQL | {"format": LARK}, NESTED, WEATHER])
async def test_a_custom_tool_is_registered_and_comes_back(client, tool):
    made = await client.put(REGISTERED, json={"tools": [tool]})
    assert made.status_code == 201, made.text
    for shape in ("openai", "openai_responses", "anthropic", "mcp", "function"):
        [shown] = (await client.get(REGISTERED, params={"shape": shape})).json()["tools"]
        again = await client.put(REGISTERED, json={"tools": [shown]})
        assert again.json()["revision"] == 1, "what comes back is what was put"
    one = await client.put(
        f"{REGISTERED}/tools/{'sql' if 'custom' in str(tool) else 'get_weather'}", json=tool
    )
    assert one.json()["revision"] == 1


async def test_a_registered_custom_tool_is_called_as_each_api_can(client, runtime):
    """The Messages API has no custom tools: there the input is an argument."""
    await client.put(REGISTERED, json={"tools": [SQL | {"format": LARK}]})
    runtime.script = CALL
    answer = await CHAT.ask(client, toolset="files", tool_choice="required")
    [written] = answer["choices"][0]["message"]["tool_calls"]
    assert written["custom"] == {"name": "sql", "input": INPUT}
    assert reads(runtime, '<tool_call>\n{"name": "sql", "arguments": {"input": "a12"')
    assert not reads(runtime, '<tool_call>\n{"name": "sql", "arguments": {"input": "b')
    [item] = (await RESPONSES.ask(client, toolset="files"))["output"]
    assert (item["type"], item["input"]) == ("custom_tool_call", INPUT)
    [block] = (await MESSAGES.ask(client, {"X-Toolset": "files"}))["content"]
    assert (block["type"], block["input"]) == ("tool_use", {"input": INPUT})


async def test_a_change_of_a_custom_tools_grammar_is_told(client):
    await client.put(REGISTERED, json={"tools": [SQL | {"format": LARK}]})
    for form, change in (
        (LARK, "unchanged"),
        (LARK | {"definition": 'start: "b"'}, "changed"),
        ({"type": "text"}, "widened"),
    ):
        check = await client.post(f"{REGISTERED}/check", json={"tools": [SQL | {"format": form}]})
        assert check.json()["changes"] == {"sql": change}
    described = SQL | {"format": LARK, "description": "Asks the database."}
    check = await client.post(f"{REGISTERED}/check", json={"tools": [described]})
    assert check.json()["changes"] == {"sql": "compatible"}


@pytest.mark.parametrize(
    ("tool", "pointer"),
    [
        (SQL | {"format": DIGITS | {"definition": "(?<=a)b"}}, "/tools/0/format/definition"),
        (
            {"type": "custom", "custom": {"name": "sql", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "begin: A"}}}},
            "/tools/0/custom/format/grammar/definition",
        ),
        (
            {"name": "sql", "callgate": {"input": {"syntax": "regex", "definition": "a{2,1}"}}},
            "/tools/0/callgate/input/definition",
        ),
    ],
)  # fmt: skip
async def test_a_registration_that_cannot_be_upheld_names_the_definition(client, tool, pointer):
    refused = await client.put(REGISTERED, json={"tools": [tool]})
    assert refused.status_code == 422
    [fault] = refused.json()["errors"]
    assert (fault["tool"], fault["pointer"]) == ("sql", pointer)


NAMED = {"type": "custom", "custom": {"name": "sql"}}
CHOICES = [
    (NAMED, {"type": "custom", "name": "sql"}, ("sql",)),
    (
        {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "required",
                "tools": [NAMED, {"type": "function", "function": {"name": "get_weather"}}],
            },
        },
        {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "custom", "name": "sql"}, {"type": "function", "name": "get_weather"}],
        },
        ("sql", "get_weather"),
    ),
]


@pytest.mark.parametrize(("chat", "responses", "names"), CHOICES)
async def test_tools_are_chosen_by_name(client, runtime, chat, responses, names):
    other = {"type": "custom", "name": "other"}
    for api, choice in ((CHAT, chat), (RESPONSES, responses)):
        await api.ask(client, tools=[SQL, WEATHER, other], tool_choice=choice)
        called = [
            name
            for name in ("sql", "get_weather", "other")
            if reads(runtime, f'<tool_call>\n{{"name": "{name}", ')
        ]
        assert called == list(names)


async def test_earlier_calls_are_fed_back(client, runtime):
    messages = [
        {"role": "user", "content": "How many?"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "sql", "input": INPUT}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "7"},
    ]
    await CHAT.ask(client, messages=messages, tools=[NESTED])
    items = [
        {"role": "user", "content": "How many?"},
        {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": INPUT, "id": "ctc_1"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "7"},
    ]
    await RESPONSES.ask(client, input=items, tools=[SQL])
    expected = [
        Message("user", "How many?"),
        Message("assistant", calls=(call_with_input("c1", "sql", INPUT),)),
        Message("tool", "7", call_id="c1"),
    ]
    assert [list(request.messages) for request in runtime.requests] == [expected, expected]
    assert call_with_input("c1", "sql", "ä\n") == ToolCall("c1", "sql", '{"input": "ä\\n"}')


async def test_a_stored_call_is_continued_by_its_id(client, runtime):
    runtime.script = CALL
    first = await RESPONSES.ask(client, tools=[SQL])
    result = {"type": "custom_tool_call_output", "call_id": first["output"][0]["call_id"], "output": "7"}
    await RESPONSES.ask(client, tools=[SQL], previous_response_id=first["id"], input=[result])
    assert [m.role for m in runtime.requests[-1].messages] == ["user", "assistant", "tool"]


@pytest.mark.parametrize(
    ("tool", "param", "said"),
    [
        ({"type": "custom"}, "tools[1].name", "required"),
        ({"type": "custom", "custom": {}}, "tools[1].custom.name", "required"),
        (SQL | {"format": {"type": "json"}}, "tools[1].format.type", "'text', 'grammar'"),
        (SQL | {"format": DIGITS | {"syntax": "ebnf"}}, "tools[1].format.syntax", "'lark', 'regex'"),
        (SQL | {"formt": DIGITS}, "tools[1].formt", "'format'"),
        (SQL | {"name": "a b"}, "tools[1].name", "is not a tool name"),
        (SQL | {"format": DIGITS | {"definition": "a)|(b"}}, "tools[1]", "/definition"),
        (SQL | {"format": DIGITS | {"definition": "(?<=a)b"}}, "tools[1]", "/definition: has a look"),
        (SQL | {"format": DIGITS | {"definition": "a{2,1}"}}, "tools[1]", "counts from 2 down to 1"),
        (
            SQL | {"format": LARK | {"definition": "start: A\nA: /a*b*/"}},
            "tools[1]",
            "/definition: line 2: terminal A admits the empty text",
        ),
    ],
)
async def test_what_cannot_be_upheld_is_refused(client, tool, param, said):
    for api in (CHAT, RESPONSES):
        error = await api.refusal(client, tools=[WEATHER, tool])
        assert error["param"] == param, error
        assert said in error["message"]


def test_inputs_are_read_whatever_the_pieces():
    rng = random.Random(1)
    for _ in range(200):
        text = "".join(rng.choices('aé"\\/\n\t\x01\U0001f600\u2028:{}', k=rng.randrange(12)))
        spelled = json.dumps({"input": text}, ensure_ascii=rng.random() < 0.5)
        reader, read, at = InputReader(), "", 0
        while at < len(spelled):
            size = rng.randrange(1, 6)
            read += reader.read(spelled[at : at + size])
            at += size
        assert read == text
