"""The messages of Chat Completions become those of the turn, or are refused by their place."""

import pytest
from apis import TOOL_CALL, USER
from chat import body

from gateway.errors import InvalidField
from gateway.wire.openai import read_request
from runtime.request import Message
from toolspecs.tool import ToolCall


def read(*messages):
    return read_request(body(messages=[*messages]))


MESSAGES = [
    ({"role": "system", "content": "S"}, Message("system", "S")),
    ({"role": "developer", "content": "S"}, Message("system", "S")),
    ({"role": "user", "content": "U", "name": "ann"}, Message("user", "U", name="ann")),
    (
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        Message("user", "ab"),
    ),
    ({"role": "assistant", "content": "A"}, Message("assistant", "A")),
    ({"role": "assistant", "content": None, "refusal": "no"}, Message("assistant", "no")),
    (
        {"role": "assistant", "content": "Yes", "reasoning_content": "Hm"},
        Message("assistant", "Yes", thought="Hm"),
    ),
    (
        {"role": "assistant", "tool_calls": [TOOL_CALL]},
        Message("assistant", calls=(ToolCall("call_1", "f", "{}"),)),
    ),
    (
        # What the official client gives back when an answer is put into the next request as it came.
        {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
            "tool_calls": [{**TOOL_CALL, "index": 0}],
        },
        Message("assistant", calls=(ToolCall("call_1", "f", "{}"),)),
    ),
]


@pytest.mark.parametrize(("message", "expected"), MESSAGES, ids=[str(m)[:60] for m, _ in MESSAGES])
def test_a_message_becomes_one_of_the_turn(message, expected):
    assert read(message).turn.messages == (expected,)


def test_a_result_is_one_of_a_call_before_it():
    called = {"role": "assistant", "tool_calls": [TOOL_CALL]}
    result = {"role": "tool", "content": "42", "tool_call_id": "call_1"}
    later = [called, result, USER, {**result, "content": "43"}]
    assert read(*later).turn.messages[1] == Message("tool", "42", call_id="call_1")
    for messages, place, said in [
        ([USER, result], 1, "no call before it has the id 'call_1'"),
        ([result, called], 0, "no call before it has the id 'call_1'"),
        ([called, {**result, "tool_call_id": "call_2"}], 1, "did you mean 'call_1'"),
        ([called, {**result, "tool_call_id": "x" * 100_000}], 1, "xxx"),
    ]:
        with pytest.raises(InvalidField, match=said) as refused:
            read(*messages)
        assert refused.value.param == f"messages[{place}].tool_call_id"
        assert len(str(refused.value)) < 300


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_arguments_with_a_number_that_json_or_doubles_do_not_have_are_refused(number):
    """Python's parser takes them, and a chat template would show `NaN` or `Infinity` to the model."""
    call = TOOL_CALL | {"function": {"name": "f", "arguments": f'{{"a": [{number}]}}'}}
    with pytest.raises(InvalidField, match=number) as refused:
        read(USER, {"role": "assistant", "tool_calls": [call]})
    assert refused.value.param == "messages[1].tool_calls[0].function.arguments"
