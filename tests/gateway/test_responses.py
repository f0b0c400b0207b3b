"""Responses over HTTP, with a runtime that plays a script."""

from dataclasses import replace

import pytest
from apis import RESPONSES
from fake_runtime import STATS, call, text
from sample_tools import WEATHER

from runtime.events import Finished, FinishReason, TextDelta, ThoughtDelta
from runtime.request import Message, Sampling
from toolspecs.tool import ChoiceMode, ToolCall

ask, stream, refused = RESPONSES.ask, RESPONSES.stream, RESPONSES.refusal
CALL = call("get_weather", '{"place": ', '"Oslo"}')


async def messages(client, runtime, **fields):
    """What the runtime is given of an input."""
    await ask(client, **fields)
    return list(runtime.requests[-1].messages)


async def test_text_is_answered(client, runtime):
    answer = await ask(client, instructions="Be brief.", metadata={"a": "b"}, max_output_tokens=9)
    assert (answer["object"], answer["status"], answer["model"]) == ("response", "completed", "tiny")
    [item] = answer["output"]
    assert item == {
        "id": item["id"],
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hello.", "annotations": [], "logprobs": []}],
    }
    assert answer["usage"] == {
        "input_tokens": 11,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 18,
    }
    assert (answer["instructions"], answer["metadata"], answer["max_output_tokens"]) == (
        "Be brief.",
        {"a": "b"},
        9,
    )
    assert (answer["tools"], answer["tool_choice"], answer["store"]) == ([], "auto", True)
    [request] = runtime.requests
    assert request.messages == (Message("system", "Be brief."), Message("user", "Hi"))
    assert (request.max_tokens, request.sampling) == (9, Sampling())


async def test_calls_are_answered_and_say_what_masked_them(client, runtime, weather):
    runtime.script = CALL
    answer = await ask(client, toolset="weather", tool_choice="required", parallel_tool_calls=False)
    [item] = answer["output"]
    assert item["call_id"].startswith("call_")
    assert (item["type"], item["status"]) == ("function_call", "completed")
    assert (item["name"], item["arguments"]) == ("get_weather", '{"place": "Oslo"}')
    assert answer["callgate"]["toolset"] == "weather"
    assert runtime.requests[0].constraint.tool_choice.mode is ChoiceMode.REQUIRED
    assert not runtime.requests[0].constraint.is_parallel


async def test_a_stream_ends_with_the_whole_answer(client, runtime, weather):
    runtime.script = [TextDelta(0, "Let "), TextDelta(0, "me."), *CALL]
    events = await stream(client, toolset="weather")
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    answer = events[-1]["response"]
    assert [event["item"] for event in events if event["type"] == "response.output_item.done"] == answer[
        "output"
    ]
    said, called = answer["output"]
    assert said["content"][0]["text"] == "Let me."
    assert (events[12]["item_id"], events[12]["output_index"]) == (called["id"], 1)
    assert events[12]["arguments"] == called["arguments"] == '{"place": "Oslo"}'
    assert events[9]["item"] == called | {"arguments": "", "status": "in_progress"}
    assert events[0]["response"]["output"] == []


async def test_thoughts_are_items_of_their_own(client, runtime):
    runtime.card = replace(runtime.card, syntax="harmony")
    runtime.script = [ThoughtDelta(0, "Hm"), ThoughtDelta(0, "."), *text("Hi", num_thought_tokens=5)]
    answer = await ask(client)
    thought, said = answer["output"]
    assert (thought["type"], thought["summary"]) == ("reasoning", [])
    assert thought["content"] == [{"type": "reasoning_text", "text": "Hm."}]
    assert said["content"][0]["text"] == "Hi"
    assert answer["usage"]["output_tokens_details"] == {"reasoning_tokens": 5}
    kinds = [event["type"] for event in await stream(client)]
    assert kinds.count("response.reasoning_text.delta") == 2
    back = [thought, said, {"role": "user", "content": "And?"}]
    assert await messages(client, runtime, input=back) == [
        Message("assistant", "Hi", thought="Hm."),
        Message("user", "And?"),
    ]


async def test_a_text_that_is_cut_is_incomplete(client, runtime):
    runtime.script = [TextDelta(0, "Hel"), Finished(0, FinishReason.LENGTH, STATS)]
    answer = (await stream(client))[-1]
    assert answer["type"] == "response.incomplete"
    assert answer["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert answer["response"]["output"][0]["status"] == "incomplete"


async def test_an_empty_answer_is_a_message(client, runtime):
    runtime.script = text()
    assert (await ask(client))["output"][0]["content"][0]["text"] == ""


async def test_an_output_is_one_of_a_call_before_it(client):
    output = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}
    assert (await refused(client, input=[output]))["param"] == "input[0].call_id"


async def test_items_of_a_turn_make_one_message(client, runtime):
    made = [ToolCall(f"c{n}", "get_weather", "{}") for n in (1, 2)]
    calls = [
        {"type": "function_call", "call_id": c.call_id, "name": c.name, "arguments": c.arguments}
        for c in made
    ]
    items = [
        {"role": "developer", "content": "Be brief."},
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "H"}, {"type": "input_text", "text": "i"}],
        },
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me."}]},
        calls[0] | {"id": "fc_1", "status": "completed"},
        calls[1] | {"id": None, "async_": None, "caller": None},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "dry"}]},
        {"role": "assistant", "content": "Sunny."},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    ]
    assert await messages(client, runtime, input=items) == [
        Message("system", "Be brief."),
        Message("user", "Hi"),
        Message("assistant", "Let me.", calls=tuple(made)),
        Message("tool", "sunny", call_id="c1"),
        Message("tool", "dry", call_id="c2"),
        Message("assistant", "Sunny."),
        Message("assistant", "No."),
    ]


@pytest.mark.parametrize(
    ("choice", "allowed", "mode"),
    [
        ({"type": "function", "name": "clock.now"}, ("clock.now",), ChoiceMode.REQUIRED),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "clock.now"}]},
            ("clock.now",),
            ChoiceMode.AUTO,
        ),
        ("none", (), ChoiceMode.NONE),
    ],
)
async def test_a_tool_choice_limits_the_grammar_and_is_repeated(
    client, runtime, weather, choice, allowed, mode
):
    answer = await ask(client, toolset="weather", tool_choice=choice)
    assert answer["tool_choice"] == choice
    assert (runtime.requests[0].constraint.names, runtime.requests[0].constraint.tool_choice.mode) == (
        allowed,
        mode,
    )


async def test_a_format_is_upheld(client, runtime):
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}
    runtime.script = text('{"a": 1}')
    form = {"type": "json_schema", "name": "a", "strict": True, "schema": schema}
    answer = await ask(client, text={"format": form, "verbosity": "medium"})
    assert answer["text"]["format"] == {**form, "description": None}
    assert runtime.requests[0].constraint.accepts('{"a": 1}')
    assert not runtime.requests[0].constraint.accepts('{"a": 2}')


async def test_tools_come_in_this_api_s_shape(client, runtime):
    tool = {"type": "function", **WEATHER["function"], "strict": None}
    await ask(client, tools=[tool], include=["reasoning.encrypted_content"], store=False, user="u")
    assert [tool.name for tool in runtime.requests[0].tools] == ["get_weather"]


async def test_headers_name_toolset_and_timeout(client, runtime, weather):
    await ask(client, headers={"X-Toolset": "weather", "X-Request-Timeout": "9"})
    assert len(runtime.requests[0].tools) == 2
    assert runtime.requests[0].timeout_s <= 9


@pytest.mark.parametrize(
    ("fields", "param", "says"),
    [
        ({"conversation": "conv_1"}, "conversation", "previous_response_id"),
        ({"background": True}, "background", "at once"),
        ({"reasoning": {"efort": "low"}}, "reasoning.efort", "did you mean 'effort'"),
        ({"top_logprobs": 2}, "top_logprobs", "include"),
        ({"include": ["message.output_text.logprob"]}, "include[0]", "not one of its values"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type", "'web_search' is not supported"),
        ({"tools": [{"type": {}}]}, "tools[0].type", "only functions"),
        ({"tool_choice": {"type": "web_search"}}, "tool_choice.type", "not one of its values"),
        ({"input": []}, "input", "at least 1 item"),
        (
            {"input": [{"type": "function_call", "call_id": "a", "name": "f", "arguments": "{" * 50_000}]},
            "input[0].arguments",
            "the arguments of a call cannot be read",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
            "input[0].content[0].image_url",
            "data URL",
        ),
        ({"input": [{"type": "item_reference", "id": "a"}]}, "input[0].id", "no item 'a' is stored"),
        ({"guided_regex": r"(a)\1"}, "guided_regex", "has a backreference"),
        (
            {"input": [{"role": "user", "content": [{"type": "reasoning_text", "text": "x"}]}]},
            "input[0].content[0].type",
            "not one of its values; there are 'input_text', 'input_image', 'output_text', 'refusal'",
        ),
        ({"sotre": False}, "sotre", "there is no such field"),
    ],
)
async def test_what_is_not_honoured_is_refused_by_name(client, fields, param, says):
    error = await refused(client, **fields)
    assert error["param"] == param
    assert says in error["message"]


async def test_a_thought_that_another_service_has_encrypted_is_left_out_and_named(client, runtime):
    """It comes from conversations that began elsewhere and were not stored there."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"}
    sent = {"model": "tiny", "input": [{"role": "user", "content": "Hi"}, thought]}
    response = await client.post("/v1/responses", json=sent)
    assert response.status_code == 200
    assert response.headers["x-callgate-ignored"] == "input[].encrypted_content"
    assert runtime.requests[-1].messages == (Message("user", "Hi"),)


async def test_a_response_says_how_its_tokens_were_sampled(client, runtime):
    """The model's card says so where the request does not."""
    model = (await runtime.models())[0]
    for fields, temperature in (({}, model.sampling.temperature), ({"temperature": 0.9}, 0.9)):
        response = await ask(client, **fields)
        assert (response["temperature"], response["top_p"]) == (temperature, model.sampling.top_p)


async def test_a_schema_that_cannot_be_upheld_is_named_as_this_api_names_it(client):
    schema = {"type": "string", "pattern": "(?<=x)y"}
    error = await refused(client, text={"format": {"type": "json_schema", "name": "a", "schema": schema}})
    assert (error["param"], error["code"]) == ("text.format", "unsupported_schema")
    assert error["message"].startswith("text.format at /pattern: ")


@pytest.mark.parametrize("reasoning", [{}, {"effort": None, "summary": None}])
async def test_a_reasoning_that_asks_for_nothing_is_taken(client, reasoning):
    assert (await ask(client, reasoning=reasoning))["reasoning"]["effort"] is None


@pytest.mark.parametrize(
    ("metadata", "param"),
    [({"a": "b", "order": 7}, "metadata.order"), ({"x" * 900: 7}, "metadata." + "x" * 64), (7, "metadata")],
)
async def test_the_key_of_wrong_metadata_is_named(client, metadata, param):
    error = await refused(client, metadata=metadata)
    assert error["param"].startswith(param)
    assert len(error["param"]) < 200
