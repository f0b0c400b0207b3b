"""An answer that a client sends back as history is the same messages for the model, in every API."""

import json
from dataclasses import replace
from random import Random
from types import SimpleNamespace

from apis import CHAT, MESSAGES, RESPONSES, TOOL_CALL, USER
from random_answers import CHAT_TOOLS, MESSAGES_TOOLS, RESPONSES_TOOLS, script_of

from runtime.text.conversation_fields import conversation_fields

NUM_SCRIPTS = 30
NEXT = {"role": "user", "content": "Next"}
RESULTS = ["4 degrees", "", 'two\n"lines"']


async def by_chat(client):
    message = (await CHAT.ask(client, tools=CHAT_TOOLS))["choices"][0]["message"]
    called = zip(message.get("tool_calls", ()), RESULTS, strict=False)
    results = [{"role": "tool", "tool_call_id": call["id"], "content": result} for call, result in called]
    await CHAT.ask(client, messages=[USER, message, *results, NEXT], tools=CHAT_TOOLS)


async def by_messages(client):
    content = (await MESSAGES.ask(client, tools=MESSAGES_TOOLS))["content"]
    called = zip((block for block in content if block["type"] == "tool_use"), RESULTS, strict=False)
    results = [
        {"type": "tool_result", "tool_use_id": call["id"], "content": result} for call, result in called
    ]
    asked = {"role": "user", "content": [*results, {"type": "text", "text": NEXT["content"]}]}
    history = [USER, {"role": "assistant", "content": content}, asked]
    await MESSAGES.ask(client, messages=history, tools=MESSAGES_TOOLS)


async def first_response(client):
    """A response, and what is asked after it."""
    answer = await RESPONSES.ask(client, tools=RESPONSES_TOOLS)
    called = zip((item for item in answer["output"] if "call_id" in item), RESULTS, strict=False)
    results = [
        {"type": f"{call['type']}_output", "call_id": call["call_id"], "output": result}
        for call, result in called
    ]
    return answer, [*results, NEXT]


async def by_responses(client):
    answer, asked = await first_response(client)
    await RESPONSES.ask(client, input=[USER, *answer["output"], *asked], tools=RESPONSES_TOOLS)


async def by_stored_response(client):
    answer, asked = await first_response(client)
    await RESPONSES.ask(client, previous_response_id=answer["id"], input=asked, tools=RESPONSES_TOOLS)


def comparable(messages):
    """Messages whose calls are numbered, and have values as arguments: Messages sends no JSON text."""
    numbers = {
        call.call_id: str(i) for i, call in enumerate(call for each in messages for call in each.calls)
    }
    return [
        (
            replace(message, calls=(), call_id=numbers.get(message.call_id)),
            [(numbers[call.call_id], call.name, json.loads(call.arguments)) for call in message.calls],
        )
        for message in messages
    ]


async def test_all_apis_send_back_the_same(client, runtime):
    for seed in range(NUM_SCRIPTS):
        runtime.script = script_of(Random(seed))
        seen = []
        for send_back in (by_chat, by_messages, by_responses, by_stored_response):
            await send_back(client)
            seen.append(comparable(runtime.requests[-1].messages))
        assert all(messages == seen[0] for messages in seen[1:])
        [asked, *_, following], calls = seen[0], seen[0][1][1]
        assert (asked[0].content, following[0].content) == ("Hi", "Next")
        assert len(seen[0]) == 3 + len(calls)


async def test_a_conversation_goes_on_after_arguments_with_a_key_twice(client, runtime):
    """Another model may have written them; in a body of the client's own, a key twice is a slip and refused."""
    called = TOOL_CALL | {"function": {"name": "f", "arguments": '{"a": 1, "a": 2}'}}
    result = {"role": "tool", "tool_call_id": called["id"], "content": "4 degrees"}
    await CHAT.ask(client, messages=[USER, {"role": "assistant", "tool_calls": [called]}, result, NEXT])
    shown, _ = conversation_fields(SimpleNamespace(chat_template=""), runtime.requests[-1].messages, ())
    [call] = [call for message in shown for call in message.get("tool_calls", ())]
    assert call["function"] == {"name": "f", "arguments": {"a": 2}}
