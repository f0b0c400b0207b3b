"""Large answers are written as they come: nothing of them waits for the end, when all else would wait."""

import json

import msgspec
import pytest
from fake_runtime import STATS, FakeRuntime
from litestar.testing import AsyncTestClient

from gateway.app import create_app
from runtime.errors import RequestRefused
from runtime.events import Finished, FinishReason, TextDelta, TokenLogprob
from runtime.request import MAX_LOGPROBS, GenerationRequest, check_details

PATHS = {
    "/v1/chat/completions": {
        "messages": [{"role": "user", "content": "?"}],
        "logprobs": True,
        "top_logprobs": 2,
    },
    "/v1/completions": {"prompt": "?", "logprobs": 2},
    "/v1/responses": {"input": "?", "include": ["message.output_text.logprobs"], "top_logprobs": 2},
}


def script(num_tokens):
    top = (TokenLogprob("a", b"a", -0.5), TokenLogprob("b", b"b", -1.5))
    for number in range(num_tokens):
        yield TextDelta(0, f" {number}", (TokenLogprob(f" {number}", b" ?", -0.5, top),))
    yield Finished(0, FinishReason.STOP, STATS)


@pytest.mark.parametrize("path", PATHS)
async def test_log_probabilities_are_encoded_when_their_tokens_come(settings, path, monkeypatch):
    """Half a million objects at the end would stop the event loop for a second and take a gigabyte."""
    sizes = []
    encode = msgspec.json.encode

    def noted(value, *arguments, **options):
        sizes.append(_num_containers(value))
        return encode(value, *arguments, **options)

    monkeypatch.setattr(msgspec.json, "encode", noted)
    app = create_app(settings, runtime=FakeRuntime(list(script(500))))
    async with AsyncTestClient(app, base_url="http://127.0.0.1") as client:
        answer = await client.post(path, json={"model": "tiny", "store": False} | PATHS[path])
    assert answer.status_code == 200, answer.text
    assert json.dumps(answer.json()).count("-1.5") == 500
    assert len(sizes) >= 500
    assert max(sizes) < 200


def _num_containers(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return isinstance(value, dict | list | tuple) + sum(map(_num_containers, inner))


def test_the_log_probabilities_of_all_answers_of_a_request_are_bounded():
    def asking(num_choices, num_logprobs):
        return GenerationRequest("r", "m", (), num_choices=num_choices, num_logprobs=num_logprobs)

    check_details(asking(1, 20), MAX_LOGPROBS // 21)
    check_details(asking(16, None), 10**9)
    with pytest.raises(RequestRefused) as refused:
        check_details(asking(16, 20), 2048)
    assert refused.value.parameter == "top_logprobs"
