"""A stream that an error ends early says why, in every API, and the official clients raise an error for it."""

import anthropic
import openai
import pytest
from apis import CHAT, COMPLETIONS, MESSAGES, RESPONSES, USER
from official_types import EVENTS, judge
from sse import events_of

from runtime.errors import DeadlineExceeded, GenerationFailed, Overloaded, PromptTooLong
from runtime.events import TextDelta

BROKEN = [TextDelta(0, "It"), GenerationFailed("the engine fell over")]


@pytest.mark.parametrize("api", [CHAT, COMPLETIONS, MESSAGES, RESPONSES])
async def test_the_error_is_told_once_and_nothing_is_finished(client, runtime, api):
    runtime.script = BROKEN
    answer = await client.post(api.url, json=api.body(stream=True))
    [error] = [event["error"] for event in events_of(answer) if "error" in event]
    assert (error["message"], error["code"]) == ("the engine fell over", "generation_failed")
    assert error["type"] == ("api_error" if api is MESSAGES else "server_error")
    assert not any(end in answer.text for end in ('"stop"', "message_stop", "response.completed", "[DONE]"))
    assert runtime.num_aborted == 1


@pytest.mark.parametrize("api", [CHAT, COMPLETIONS, RESPONSES])
def test_openais_client_raises_it(openai_client, runtime, api):
    runtime.script = BROKEN
    create = {
        CHAT.url: openai_client.chat.completions.create,
        COMPLETIONS.url: openai_client.completions.create,
        RESPONSES.url: openai_client.responses.create,
    }
    with pytest.raises(openai.APIError, match="the engine fell over"):
        list(create[api.url](**api.body(stream=True)))


def test_openais_client_returns_no_response_that_failed(openai_client, runtime):
    runtime.script = BROKEN
    with (
        pytest.raises(openai.APIError, match="the engine fell over"),
        openai_client.responses.stream(model="tiny", input="Hi") as stream,
    ):
        stream.get_final_response()


def test_anthropics_client_raises_it(anthropic_client, runtime):
    runtime.script = BROKEN
    with (
        pytest.raises(anthropic.APIStatusError, match="the engine fell over"),
        anthropic_client.messages.stream(model="tiny", max_tokens=9, messages=[USER]) as stream,
    ):
        stream.get_final_message()


@pytest.mark.parametrize(
    ("error", "code"), [(DeadlineExceeded(), "server_error"), (Overloaded(), "rate_limit_exceeded")]
)
async def test_a_response_fails_with_a_code_of_the_closed_list(client, runtime, error, code):
    runtime.script = [TextDelta(0, "It"), error]
    *_, told, last = await RESPONSES.stream(client)
    for event in (told, last):
        judge(EVENTS[RESPONSES.url], event)
    assert (told["type"], told["message"]) == ("error", told["error"]["message"])
    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    kind = {"server_error": "deadline_exceeded", "rate_limit_exceeded": "overloaded"}[code]
    assert last["response"]["error"] == {
        "code": code,
        "message": told["message"],
        "type": kind,
        "param": None,
    }
    assert told["code"] == kind


async def test_a_field_has_the_name_that_the_request_has_for_it(client, runtime):
    runtime.script = [TextDelta(0, "It"), PromptTooLong(900, 512)]
    *_, told, _ = await RESPONSES.stream(client)
    assert told["param"] == "input"
