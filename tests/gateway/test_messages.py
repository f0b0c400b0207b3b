"""Anthropic's Messages over HTTP: what the official client sends, and what it reads."""

from dataclasses import replace

import anthropic
import pytest
from apis import MESSAGES, USER
from fake_runtime import STATS, call, text

from gateway.errors import InvalidField
from gateway.wire.anthropic import read_request
from runtime.errors import PromptTooLong
from runtime.events import Finished, FinishReason, PromptRendered, TextDelta, ThoughtDelta
from runtime.request import Message
from toolspecs.tool import ChoiceMode, ToolCall, ToolChoice

URL, body, ask, stream = MESSAGES.url, MESSAGES.body, MESSAGES.ask, MESSAGES.stream
WEATHER = {
    "name": "get_weather",
    "description": "The weather.",
    "input_schema": {
        "type": "object",
        "properties": {"place": {"type": "string"}},
        "required": ["place"],
        "additionalProperties": False,
    },
}
CALL = call("get_weather", '{"place": ', '"Oslo"}')
USED = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"place": "Oslo"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "4 degrees"}]}


def turn(**fields):
    return read_request(body(**fields)).turn


async def test_text_is_answered(client):
    answer = await ask(client, system="Be brief.")
    assert answer["id"].startswith("msg_")
    assert (answer["type"], answer["role"], answer["model"]) == ("message", "assistant", "tiny")
    assert answer["content"] == [{"type": "text", "text": "Hello."}]
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("end_turn", None)
    assert answer["usage"] == {
        "input_tokens": 7,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 4,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 0},
        "server_tool_use": None,
        "service_tier": "standard",
        "inference_geo": None,
    }
    assert answer["callgate"]["closed_by"] is None


async def test_a_call_is_a_tool_use_block(client, runtime):
    runtime.script = CALL
    answer = await ask(client, tools=[WEATHER], tool_choice={"type": "any"})
    [block] = answer["content"]
    assert block.pop("id").startswith("toolu_")
    assert block == {
        "type": "tool_use",
        "name": "get_weather",
        "input": {"place": "Oslo"},
        "caller": {"type": "direct"},
    }
    assert answer["stop_reason"] == "tool_use"
    assert runtime.requests[0].constraint is not None


async def test_a_stop_sequence_is_named(client, runtime):
    runtime.script = [TextDelta(0, "a"), Finished(0, FinishReason.STOP, STATS, stop_string="END")]
    answer = await ask(client, stop_sequences=["END"])
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("stop_sequence", "END")
    assert runtime.requests[0].stop == ("END",)


async def test_a_stream_has_the_documented_events(client, runtime):
    runtime.script = [
        PromptRendered(11),
        ThoughtDelta(0, "Hm"),
        TextDelta(0, "I "),
        TextDelta(0, "look."),
        *CALL,
    ]
    events = await stream(client, tools=[WEATHER])
    assert [event["type"] for event in events] == [
        "message_start",
        "ping",
        *("content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"),
        *("content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"),
        *("content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"),
        "message_delta",
        "message_stop",
    ]
    start = events[0]["message"]
    assert (start["content"], start["stop_reason"], start["usage"]["input_tokens"]) == ([], None, 11)
    assert [e["content_block"]["type"] for e in events if e["type"] == "content_block_start"] == [
        "thinking",
        "text",
        "tool_use",
    ]
    deltas = [e["delta"] for e in events if e["type"] == "content_block_delta"]
    assert deltas == [
        {"type": "thinking_delta", "thinking": "Hm"},
        {"type": "signature_delta", "signature": ""},
        {"type": "text_delta", "text": "I "},
        {"type": "text_delta", "text": "look."},
        {"type": "input_json_delta", "partial_json": '{"place": '},
        {"type": "input_json_delta", "partial_json": '"Oslo"}'},
    ]
    assert events[-2]["delta"] == {
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
    }
    assert events[-2]["usage"]["output_tokens"] == 7
    assert [e["index"] for e in events if "index" in e] == [0] * 4 + [1] * 4 + [2] * 4


async def test_a_prompt_that_is_too_long_is_told_in_words_that_clients_look_for(client, runtime):
    runtime.script = [PromptTooLong(900, 512)]
    answer = await client.post(URL, json=body())
    assert answer.status_code == 400
    assert "prompt is too long: 900 tokens > 512 maximum" in answer.json()["error"]["message"]


async def test_errors_have_this_api_s_shape(client):
    for fields, status, kind, param in [
        ({"model": "other"}, 404, "not_found_error", "model"),
        ({"temperature": "hot"}, 400, "invalid_request_error", "temperature"),
        ({"tools": [WEATHER | {"name": "no good"}]}, 400, "invalid_request_error", "tools[0].name"),
        ({"tool_choice": {"type": "any"}}, 400, "invalid_request_error", "tool_choice"),
    ]:
        answer = await client.post(URL, json=body(**fields))
        assert answer.status_code == status, answer.text
        assert (answer.json()["type"], answer.json()["error"]["type"]) == ("error", kind)
        assert answer.json()["error"]["param"].startswith(param)
        assert answer.json()["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]


CHOICES = [
    ({"type": "auto"}, ToolChoice()),
    ({"type": "any"}, ToolChoice(ChoiceMode.REQUIRED)),
    ({"type": "none"}, ToolChoice(ChoiceMode.NONE)),
    ({"type": "tool", "name": "get_weather"}, ToolChoice.named("get_weather")),
]


@pytest.mark.parametrize(("sent", "choice"), CHOICES, ids=[sent["type"] for sent, _ in CHOICES])
def test_tool_choices_become_those_of_a_turn(sent, choice):
    assert turn(tools=[WEATHER], tool_choice=sent).tool_choice == choice
    assert turn(tools=[WEATHER], tool_choice=sent).is_parallel
    assert not turn(tools=[WEATHER], tool_choice={**sent, "disable_parallel_tool_use": True}).is_parallel


def test_a_conversation_with_results():
    cached = {"cache_control": {"type": "ephemeral"}}
    asked = read_request(
        body(
            system=[{"type": "text", "text": "Be brief.", **cached}],
            tools=[WEATHER | cached | {"type": "custom", "eager_input_streaming": True}],
            messages=[
                {"role": "user", "content": [{"type": "text", "text": "Is it cold?", **cached}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Hm", "signature": "x"},
                        {"type": "redacted_thinking", "data": "x"},
                        {"type": "text", "text": "I look."},
                        USED,
                        USED | {"id": "toolu_2"},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        RESULT | cached,
                        {
                            "type": "tool_result",
                            "tool_use_id": "toolu_2",
                            "is_error": True,
                            "content": "gone",
                        },
                        {"type": "text", "text": "And now?"},
                    ],
                },
            ],
        )
    )
    calls = (
        ToolCall("toolu_1", "get_weather", '{"place": "Oslo"}'),
        ToolCall("toolu_2", "get_weather", '{"place": "Oslo"}'),
    )
    assert asked.turn.messages == (
        Message("system", "Be brief."),
        Message("user", "Is it cold?"),
        Message("assistant", "I look.", calls=calls, thought="Hm"),
        Message("tool", "4 degrees", call_id="toolu_1"),
        Message("tool", "Error: gone", call_id="toolu_2"),
        Message("user", "And now?"),
    )
    assert set(asked.ignored) == {
        "tools[].eager_input_streaming",
        "messages[].content[].redacted_thinking",
    }


THINKING = [
    ({}, None),
    ({"thinking": {"type": "disabled"}}, "none"),
    ({"thinking": {"type": "adaptive"}}, "medium"),
    ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "medium"),
    ({"output_config": {"effort": "high"}}, "high"),
    ({"output_config": {"effort": "high"}, "thinking": {"type": "disabled"}}, "none"),
]


@pytest.mark.parametrize(("fields", "effort"), THINKING, ids=str)
def test_thinking_is_an_effort(fields, effort):
    assert turn(**fields).reasoning_effort == effort


def test_a_format_replaces_stop_sequences():
    form = {"type": "json_schema", "schema": {"type": "null"}}
    asked = read_request(body(output_config={"format": form}, stop_sequences=["x"]))
    assert asked.turn.response_format.content == {"type": "null"}
    assert (asked.turn.stop, asked.ignored) == ((), ("stop_sequences",))
    assert turn(output_format=form) == turn(output_config={"format": form})


REFUSED = [
    ({"messages": []}, "messages"),
    ({"messages": [USER, {"role": "assistant", "content": "The answer is ("}]}, "messages[1].role"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": [RESULT]}]}, "messages[0].content[0].tool_use_id"),
    ({"messages": [{"role": "user", "content": [{"type": "document"}]}]}, "messages[0].content[0].type"),
    (
        {
            "messages": [
                {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "x"}}]}
            ]
        },
        "messages[0].content[0].source",
    ),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
    ({"tool_choice": "auto"}, "tool_choice"),
    ({"stop_sequences": [""]}, "stop_sequences"),
    ({"mcp_servers": [{}]}, "mcp_servers"),
    ({"thread": {"type": "create"}}, "thread"),
    ({"compaction": {"type": "summary"}}, "compaction"),
    ({"max_token": 5}, "max_token"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"thinking": {"type": "on"}}, "thinking.type"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED, ids=[str(f)[:60] for f, _ in REFUSED])
def test_what_is_not_honoured_is_refused_by_name(fields, param):
    with pytest.raises(InvalidField) as refused:
        read_request(body(**fields))
    assert refused.value.param == param


async def test_tokens_are_counted(client, runtime):
    counted = await client.post(
        f"{URL}/count_tokens", json={"model": "tiny", "messages": [USER], "tools": [WEATHER]}
    )
    assert (counted.status_code, counted.json()) == (200, {"input_tokens": STATS.num_prompt_tokens})
    assert [tool.name for tool in runtime.requests[0].tools] == ["get_weather"]


@pytest.mark.parametrize("path", [URL, f"{URL}/count_tokens"])
@pytest.mark.parametrize(
    ("tools", "choice"), [([WEATHER], {"type": "tool", "name": "get_wether"}), ([], {"type": "any"})]
)
async def test_a_choice_that_does_not_fit_the_tools_is_refused_wherever_it_is_sent(
    client, runtime, path, tools, choice
):
    """Nobody should count the tokens of a message that is refused."""
    sent = {"model": "tiny", "max_tokens": 9, "messages": [USER], "tools": tools, "tool_choice": choice}
    answer = await client.post(path, json=sent)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("tool_choice: ")
    assert not runtime.requests


def test_anthropics_client_makes_two_calls_streamed_or_not(anthropic_client, runtime):
    """Two calls with results fed back as the client has them, streamed and not."""
    runtime.card = replace(runtime.card, template_variables=frozenset({"enable_thinking"}))
    messages = [USER]
    asked = {"model": "tiny", "max_tokens": 100, "tools": [WEATHER], "thinking": {"type": "adaptive"}}
    for is_streamed in (False, True):
        runtime.script = [PromptRendered(11), ThoughtDelta(0, "Hm"), TextDelta(0, "I look."), *CALL]
        if is_streamed:
            with anthropic_client.messages.stream(**asked, messages=messages) as stream:
                answer = stream.get_final_message()
        else:
            answer = anthropic_client.messages.create(**asked, messages=messages)
        assert [block.type for block in answer.content] == ["thinking", "text", "tool_use"]
        assert answer.content[-1].input == {"place": "Oslo"}
        assert (answer.stop_reason, answer.usage.output_tokens) == ("tool_use", 7)
        result = RESULT | {"tool_use_id": answer.content[-1].id}
        messages += [
            {"role": "assistant", "content": answer.content},
            {"role": "user", "content": [result]},
        ]
    assert [message.role for message in runtime.requests[-1].messages] == ["user", "assistant", "tool"]
    runtime.script = text("It is cold.")
    assert anthropic_client.messages.create(**asked, messages=messages).content[0].text == "It is cold."
    assert anthropic_client.messages.count_tokens(model="tiny", messages=messages).input_tokens == 11
    [model] = anthropic_client.models.list()
    assert (model.id, model.max_input_tokens, model.max_tokens) == ("tiny", 512, 512)
    assert model.to_dict()["lifecycle"] == "active"  # newer clients declare it
    with pytest.raises(anthropic.NotFoundError, match="no model 'other'"):
        anthropic_client.messages.create(**asked | {"model": "other"}, messages=messages)


async def test_what_was_left_out_is_named_as_the_client_wrote_it(client):
    cached = WEATHER | {"cache_control": {"type": "ephemeral"}, "eager_input_streaming": True}
    answer = await client.post(URL, json=body(thinking={"type": "adaptive"}, tools=[cached]))
    assert answer.headers["x-callgate-ignored"] == "tools[].eager_input_streaming, thinking"


async def test_a_deferred_tool_is_not_offered(client, runtime):
    """Claude's Agent SDK sends one that is never to be called, and keeps its loop going if it is."""
    deferred = WEATHER | {"name": "DeferredToolPlaceholder", "defer_loading": True}
    loaded = WEATHER | {"defer_loading": False}
    answer = await client.post(URL, json=body(tools=[deferred, loaded]))
    assert answer.status_code == 200, answer.text
    assert [tool.name for tool in runtime.requests[-1].tools] == ["get_weather"]
    wrong = {"name": "b", "input_schema": {"type": "strng"}}
    refused = await client.post(URL, json=body(tools=[deferred, wrong]))
    assert refused.json()["error"]["param"] == "tools[1].input_schema.type"


async def test_a_thread_is_refused_so_that_clients_know_to_go_on_without_one(client):
    continued = {"type": "continue", "previous_message_id": "msg_1"}
    refused = await client.post(URL, json=body(thread=continued))
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert error["details"] == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    assert (await client.post(URL, json=body(thread=None))).status_code == 200


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_the_official_tool_runner_goes_on_without_a_thread(anthropic_client, runtime, is_streamed):
    @anthropic.beta_tool
    def get_weather(place: str) -> str:
        """The weather."""
        runtime.script = text(f"It is cold in {place}.")
        return "4 degrees"

    runtime.script = CALL
    runner = anthropic_client.beta.messages.tool_runner(
        model="tiny", max_tokens=100, messages=[USER], tools=[get_weather], stream=is_streamed
    )
    last = runner.until_done()
    assert last.content[0].text == "It is cold in Oslo."
    assert [message.role for message in runtime.requests[-1].messages] == ["user", "assistant", "tool"]
