"""What a llama-server sends is bounded: it writes text beside tokens, and several tokens in an event."""

import threading

import pytest
from remote_engines import REQUEST, llama_answering, load_text, tokens_of

from compiler.closing.segmentation import Segmentation
from runtime.engines.llama_client import MAX_RESPELLED, LlamaClient
from runtime.errors import EngineBroke
from runtime.written_token import SampledToken


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return load_text(tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize("size", [MAX_RESPELLED, 1_000_000])
async def test_what_a_llama_server_writes_beside_a_token_is_not_spelled_without_limit(
    text, size, monkeypatch
):
    """A megabyte of text beside one token would take the event loop 7 s, and become as many tokens."""
    spelled = []
    ids = Segmentation.ids
    monkeypatch.setattr(Segmentation, "ids", lambda own, read: spelled.append(len(read)) or ids(own, read))
    token_id = text.vocabulary.tokens.index(b"a")
    sent = {"content": "a" * size, "tokens": [token_id], "stop": True, "stop_type": "limit"}
    client = llama_answering(text, sent)
    is_spelled = size <= MAX_RESPELLED
    assert (await tokens_of(client) == [token_id]) is not is_spelled
    assert spelled == [size] * is_spelled


async def test_an_event_of_a_llama_server_has_no_more_tokens_than_were_asked_for(text):
    """65,536 in an event of 133 kB would stop the event loop for a second and take 400 MB."""
    end = {"stop": True, "stop_type": "limit"}
    most = REQUEST.max_tokens
    assert await tokens_of(llama_answering(text, {"tokens": [5] * most} | end)) == [5] * most
    with pytest.raises(EngineBroke, match=f"an event has {most + 1} tokens, and {most} were asked for"):
        await tokens_of(llama_answering(text, {"tokens": [5] * (most + 1)} | end))


async def test_the_alternatives_of_a_token_that_comes_often_are_made_once(text):
    top = [{"id": 5, "logprob": -0.5}, {"id": 6, "logprob": -1.5}]
    probabilities = [{"id": 5, "logprob": -0.5, "top_logprobs": top}]
    sent = {"tokens": [5, 5, 6], "completion_probabilities": probabilities, "stop": True}
    async with llama_answering(text, sent).completion(REQUEST) as chunks:
        [first, second, third] = (await anext(chunks)).tokens
    assert first.top == ((5, -0.5), (6, -1.5))
    assert second.top is first.top
    assert third == SampledToken(6)


async def test_a_long_event_of_a_llama_server_is_decoded_in_a_thread(text, monkeypatch):
    read_in, chunk = [], LlamaClient._chunk

    def noted(self, event):
        read_in.append(threading.current_thread() is threading.main_thread())
        return chunk(self, event)

    monkeypatch.setattr(LlamaClient, "_chunk", noted)
    short, long = ({"tokens": [5], "content": " " * size} for size in (1, 70_000))
    client = llama_answering(text, short, long, short | {"stop": True, "stop_type": "limit"})
    assert len(await tokens_of(client)) == 3
    assert read_in == [True, False, True]
