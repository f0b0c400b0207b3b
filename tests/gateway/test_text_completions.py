"""Completions, and the routes that count tokens, over HTTP."""

from dataclasses import replace
from functools import partial

import pytest
from apis import COMPLETIONS, USER
from fake_runtime import STATS, text

from gateway.errors import InvalidField
from gateway.wire.openai.text_completions import read_request
from runtime.events import TextDelta, TokenLogprob

URL, body, ask = COMPLETIONS.url, COMPLETIONS.body, COMPLETIONS.ask


async def test_a_prompt_is_continued(client, runtime):
    answer = await ask(client)
    assert answer["object"] == "text_completion"
    assert answer["choices"] == [{"index": 0, "text": "Hello.", "logprobs": None, "finish_reason": "stop"}]
    assert answer["usage"]["completion_tokens"] == STATS.num_output_tokens
    [request] = runtime.requests
    assert (request.prompt, request.messages, request.constraint, request.max_tokens) == (
        "Once",
        (),
        None,
        16,
    )


async def test_no_frames_of_a_chat_surround_a_text_completion(client, runtime):
    runtime.card = replace(runtime.card, syntax="harmony")
    await ask(client)
    assert runtime.requests[0].constraint is None
    await ask(client, response_format={"type": "choice", "choices": ["a", "b"]})
    constraint = runtime.requests[-1].constraint
    assert constraint.accepts("a")
    assert not constraint.accepts("c")


@pytest.mark.parametrize(
    ("url", "fields"),
    [(URL, {}), (URL, {"stream": True}), ("/tokenize", {})],
    ids=["whole", "streamed", "counted"],
)
async def test_a_toolset_in_the_models_name_is_refused(client, runtime, weather, url, fields):
    """A call would be no text."""
    refused = await client.post(url, json=body(model="tiny:weather", **fields))
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "model")
    assert "/v1/chat/completions" in refused.json()["error"]["message"]
    assert not runtime.requests


async def test_a_text_is_streamed_and_ends_with_its_usage(client, runtime):
    runtime.script = text("Hel", "lo.")
    chunks = await COMPLETIONS.stream(client, stream_options={"include_usage": True})
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks[:-1]) == "Hello."
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["usage"]["prompt_tokens"] == STATS.num_prompt_tokens


async def test_log_probabilities_are_lists_over_the_tokens(client, runtime):
    def token(spelled, value):
        return TokenLogprob(
            spelled, spelled.encode(), value, (TokenLogprob(spelled, spelled.encode(), value),)
        )

    runtime.script = [TextDelta(0, "Hello.", (token("Hel", -0.5), token("lo.", -1.0))), *text()]
    [choice] = (await ask(client, logprobs=1))["choices"]
    assert choice["logprobs"] == {
        "tokens": ["Hel", "lo."],
        "token_logprobs": [-0.5, -1.0],
        "top_logprobs": [{"Hel": -0.5}, {"lo.": -1.0}],
        "text_offset": [0, 3],
    }


PROMPTS = [
    ("a", "a"),
    (["a"], "a"),
    ([1, 2], (1, 2)),
    ([[1, 2]], (1, 2)),
]


@pytest.mark.parametrize(("sent", "prompt"), PROMPTS, ids=str)
def test_a_prompt_is_text_or_token_ids(sent, prompt):
    assert read_request(body(prompt=sent)).turn.prompt == prompt


REFUSED = [
    ({"prompt": ["a", "b"]}, "prompt"),
    ({"prompt": []}, "prompt"),
    ({"prompt": [1, "a"]}, "prompt"),
    ({"prompt": {"a": 1}}, "prompt"),
    ({"prompt": [[-1]]}, "prompt[0][0]"),
    ({"tools": []}, "tools"),
    ({"toolset": "a"}, "toolset"),
    ({"echo": True}, "echo"),
    ({"best_of": 2}, "best_of"),
    ({"suffix": "x"}, "suffix"),
    ({"logprobs": True}, "logprobs"),
    ({"stream_options": {}}, "stream_options"),
    ({"prmpt": "a"}, "prmpt"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED, ids=[str(f)[:50] for f, _ in REFUSED])
def test_what_is_not_honoured_is_refused_by_name(fields, param):
    with pytest.raises(InvalidField) as refused:
        read_request(body(**fields))
    assert refused.value.param == param


def test_fields_of_chats_and_of_other_servers():
    asked = read_request(
        body(
            logit_bias={"3": 1},
            presence_penalty=1,
            top_logprobs=3,
            priority=2,
            prompt_tools="none",
            tool_search={"limit": 3},
        )
    )
    assert asked.turn.sampling == {"logit_bias": {3: 1.0}, "presence_penalty": 1.0}
    assert set(asked.ignored) == {"top_logprobs", "priority", "prompt_tools", "tool_search"}


async def test_tokens_are_counted_and_read_back(client, runtime):
    chat = {"model": "tiny", "messages": [USER], "add_generation_prompt": True}
    for sent in (chat, {"model": "tiny", "prompt": "Hi", "add_special_tokens": True}):
        answer = (await client.post("/tokenize", json=sent)).json()
        assert answer == {"count": 11, "max_model_len": 512, "tokens": list(range(11))}
    empty = await client.post("/tokenize", json={"model": "tiny"})
    assert empty.json()["error"]["message"] == "prompt: it is required, or else messages"
    spelled = await client.post("/detokenize", json={"model": "tiny", "tokens": list("né".encode())})
    assert spelled.json() == {"prompt": "né"}
    many = await client.post("/detokenize", json={"model": "tiny", "tokens": [97] * 600})
    assert (many.status_code, many.json()["error"]["param"]) == (400, "tokens")
    outside = await client.post("/detokenize", json={"model": "tiny", "tokens": [10**6]})
    assert outside.json()["error"]["param"] == "tokens"


def test_openais_client_completes_a_prompt_streamed_or_not(openai_client):
    create = partial(openai_client.completions.create, model="tiny", prompt="Once")
    assert create().choices[0].text == "Hello."
    assert "".join(chunk.choices[0].text for chunk in create(stream=True)) == "Hello."
