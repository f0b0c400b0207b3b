"""Requests of the demo, and answers put together from what the official client returns."""

from openai.types.chat import ChatCompletion, ChatCompletionChunk

from gateway.demo.ask import ReceivedCall, read_completion, read_stream, request_of
from gateway.demo.scenarios import Scenario

ENVELOPE = {"id": "c", "created": 0, "model": "demo"}
EXTENSION = {"grammar_source": "compiled", "closed_by": None, "forced_tokens": 3}


def chunk(delta, *, finish_reason=None, **fields):
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    document = ENVELOPE | {"object": "chat.completion.chunk", "choices": [choice]} | fields
    return ChatCompletionChunk.model_validate(document)


def call_delta(index, name, arguments):
    function = {"name": name, "arguments": arguments}
    return {"tool_calls": [{"index": index, "type": "function", "function": function}]}


def test_a_stream_is_put_together_call_by_call():
    usage = {"prompt_tokens": 1, "completion_tokens": 9, "total_tokens": 10}
    answer = read_stream(
        [
            chunk({"role": "assistant"}),
            chunk(call_delta(0, "a", "")),
            chunk(call_delta(0, None, '{"x"')),
            chunk(call_delta(0, None, ": 1}")),
            chunk(call_delta(1, "b", "")),
            chunk(call_delta(1, None, "{}")),
            chunk({}, finish_reason="tool_calls", callgate=EXTENSION),
            chunk({}, choices=[], usage=usage),
        ],
        start=0.0,
    )
    assert answer.calls == (ReceivedCall("a", '{"x": 1}'), ReceivedCall("b", "{}"))
    assert (answer.finish_reason, answer.num_tokens, answer.grammar_source) == ("tool_calls", 9, "compiled")
    assert answer.first_token_s is not None
    assert answer.first_token_s <= answer.total_s


def test_a_completion_is_read_whole():
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "a", "arguments": "{}"}}],
    }
    choice = {"index": 0, "message": message, "finish_reason": "length"}
    document = ENVELOPE | {
        "object": "chat.completion",
        "choices": [choice],
        "callgate": EXTENSION | {"closed_by": "budget"},
    }
    answer = read_completion(ChatCompletion.model_validate(document), total_s=2.0)
    assert answer.calls == (ReceivedCall("a", "{}"),)
    assert (answer.finish_reason, answer.closed_by, answer.first_token_s) == ("length", "budget", None)


def test_a_toolset_is_named_in_the_body_the_header_or_the_model():
    def request(named_by, *toolsets):
        return request_of(Scenario(mode="", prompt="", toolsets=toolsets, named_by=named_by), "demo")

    assert request("body", "a")["extra_body"] == {"toolset": "a"}
    assert request("body", "a", "b")["extra_body"] == {"toolset": ["a", "b"]}
    assert request("header", "a", "b")["extra_headers"] == {"X-Toolset": "a,b"}
    assert request("model", "a")["model"] == "demo:a"
    assert "extra_body" not in request("body")
