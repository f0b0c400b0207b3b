"""How an answer ends, in the words of each API."""

import pytest
from apis import CHAT, MESSAGES, RESPONSES
from fake_runtime import call
from sample_tools import TOOL_REQUIRED, WEATHER

CUSTOM = {"type": "custom", "name": "get_weather"}
"""A tool with the name of the other one, which is called in the same way."""


def end_of(api, answer):
    """The reason, and the arguments of the only call."""
    if api is CHAT:
        [choice] = answer["choices"]
        [called] = choice["message"]["tool_calls"]
        return choice["finish_reason"], called[called["type"]].get("arguments")
    if api is MESSAGES:
        [block] = answer["content"]
        return answer["stop_reason"], block["input"]
    [item] = answer["output"]
    return (answer["status"], item["status"]), item.get("arguments")


@pytest.mark.parametrize("closed_by", ["budget", "verifier"])
@pytest.mark.parametrize(
    ("api", "end"),
    [
        (CHAT, ("length", '{"place": ""}')),
        (MESSAGES, ("max_tokens", {"place": ""})),
        (RESPONSES, (("incomplete", "completed"), '{"place": ""}')),
    ],
)
async def test_a_closed_call_is_whole_and_says_by_what(client, runtime, api, end, closed_by):
    runtime.script = call("get_weather", '{"place": ""}', closed_by=closed_by)
    response = await client.post(api.url, json=TOOL_REQUIRED[api.url])
    assert end_of(api, response.json()) == end
    assert response.json()["callgate"]["closed_by"] == closed_by


@pytest.mark.parametrize(
    ("api", "choice", "reason"),
    [
        (CHAT, {"type": "function", "function": {"name": "get_weather"}}, "stop"),
        (CHAT, {"type": "custom", "custom": {"name": "get_weather"}}, "stop"),
        (CHAT, "required", "tool_calls"),
        (MESSAGES, {"type": "tool", "name": "get_weather"}, "tool_use"),
        (RESPONSES, {"type": "function", "name": "get_weather"}, ("completed", "completed")),
    ],
)
async def test_a_call_of_a_named_tool_ends_as_at_its_api(client, runtime, api, choice, reason):
    runtime.script = call("get_weather", '{"input": "Oslo"}')
    tool = CUSTOM if "custom" in str(choice) else WEATHER["function"]
    answer = await api.ask(client, tools=[tool], tool_choice=choice)
    assert end_of(api, answer)[0] == reason
    if api is CHAT:
        *_, last = await api.stream(client, tools=[tool], tool_choice=choice)
        assert last["choices"][0]["finish_reason"] == reason
