"""The gateway's side of SGLang, over a stand-in with its routes and shapes."""

from dataclasses import fields, replace

import pytest
from generate_server import SglangStandIn
from remote_engines import REQUEST, answer_of, assert_valid, events_of, remote_over, transport_of

from runtime.engines.client import EngineAddress
from runtime.engines.grammar_loader import GrammarUnavailable
from runtime.engines.llama_client import llama_body
from runtime.engines.sglang_client import SglangClient, sglang_body
from runtime.engines.vllm_client import completion_body, generate_body
from runtime.errors import EngineBroke, EngineRefused, PromptTooLong
from runtime.events import FinishReason
from runtime.request import Sampling


async def test_what_was_in_the_cache_is_known_without_waiting_for_the_end(text):
    """Also where the gateway leaves the engine."""
    stand_in = SglangStandIn(text, num_cached=5)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar()
        for max_tokens in (lookup.grammar.closer().minimum(), 100):
            _, end = await answer_of(remote, remote.request(lookup, max_tokens=max_tokens))
            assert end.stats.num_cached_tokens == 5


@pytest.mark.parametrize(
    ("sizes", "context_length"),
    [({"context_length": 200}, 194), ({"context_length": 300, "num_cache_tokens": 250}, 244)],
)
async def test_an_answer_has_the_room_that_sglang_has_and_no_more(text, sizes, context_length):
    """SGLang refuses prompts that fill all but the last tokens of its context or of its KV cache."""
    stand_in = SglangStandIn(text, is_incremental=True, **sizes)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar("auto")
        for num_left in range(1, 9):
            prompt = (5,) * (context_length - num_left)
            request = remote.request(lookup, messages=(), prompt=prompt, max_tokens=5_000)
            (finished,) = assert_valid(await events_of(remote, request), request)
            assert finished.stats.num_refused_tokens == 0
        with pytest.raises(PromptTooLong):
            await events_of(remote, remote.request(prompt=(5,) * context_length))
        (card,) = await remote.runtime.models()
        assert card.context_length == context_length


async def test_a_grammar_that_the_engine_cannot_have_is_published_again(text):
    """SGLang says why a grammar failed, in the stream."""
    stand_in = SglangStandIn(text)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar()
        linked, failing = stand_in.grammar_of, [1]

        def once(recipe):
            if failing:
                failing.pop()
                raise GrammarUnavailable("the store lacks the grammar of 'now'")
            return linked(recipe)

        stand_in.grammar_of = once
        await answer_of(remote, remote.request(lookup))
        failing += [1] * 9
        with pytest.raises(EngineBroke, match="the store lacks the grammar of 'now'"):
            await events_of(remote, remote.request(lookup))


@pytest.mark.parametrize(("status", "error"), [(400, EngineRefused), (500, EngineBroke), (503, EngineBroke)])
async def test_a_request_that_sglang_aborts_fails_with_its_words(text, status, error):
    stand_in = SglangStandIn(text)
    async with remote_over(text, stand_in) as remote:
        stand_in.status = status
        with pytest.raises(error, match="told to fail"):
            await events_of(remote, remote.request())


async def test_log_probabilities_that_are_repeated_with_each_token_are_not_read(text):
    """To read those of 5,000 tokens with 20 alternatives each would take a minute of the event loop."""
    async with remote_over(text, SglangStandIn(text)) as remote:
        with pytest.raises(EngineRefused, match="--incremental-streaming-output"):
            await events_of(remote, remote.request(max_tokens=6, num_logprobs=2))


async def test_only_the_canary_has_the_prompt_repeated(text):
    """SGLang does so with each token."""
    stand_in = SglangStandIn(text)
    async with remote_over(text, stand_in) as remote:
        await events_of(remote, remote.request(max_tokens=6))
    *canaries, asked = (body["sglang"] for body in stand_in.bodies)
    assert "return_prompt_token_ids" not in asked
    assert any(body.get("return_prompt_token_ids") for body in canaries)


async def test_log_probabilities_are_of_the_tokens_that_came(text):
    async with remote_over(text, SglangStandIn(text, is_incremental=True)) as remote:
        request = remote.request(max_tokens=6, num_logprobs=2)
        events = await events_of(remote, request)
        (finished,) = assert_valid(events, request)
        lookup = [one for event in events for one in getattr(event, "logprobs", ())]
        num_stops = finished.reason is FinishReason.STOP  # a stop token is no text, and has none
        assert len(lookup) == finished.stats.num_output_tokens - num_stops
        assert all(one.logprob == -0.5 for one in lookup)


async def test_the_body_is_what_sglang_expects():
    sampling = Sampling(temperature=0.0, top_k=None, seed=4, logit_bias={7: -1.5})
    request = replace(
        REQUEST,
        sampling=sampling,
        grammar="a mark",
        num_logprobs=0,
        stop_token_ids=(3,),
        min_tokens=2,
        cache_salt="s",
    )
    body = sglang_body(request)
    assert body["sampling_params"] == {
        "max_new_tokens": 9,
        "min_new_tokens": 2,
        "temperature": 0.0,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "stop_token_ids": [3],
        "sampling_seed": 4,
        "logit_bias": {"7": -1.5},
        "ebnf": "a mark",
    }
    assert (body["cache_salt"], body["return_logprob"], body["top_logprobs_num"]) == ("s", True, 0)


ENGINES = {
    sglang_body: lambda body: body["sampling_params"],
    completion_body: dict,
    generate_body: lambda body: body["sampling_params"],
    llama_body: dict,
}
"""What an engine is asked, and where the parameters are in it."""
SAMPLING = Sampling(0.5, 0.5, 3, 0.1, 7, 1.0, -1.0, {5: 2.0}, 1.5)
"""Another value in each field than the default."""


def asked_for(sampling):
    return replace(REQUEST, sampling=sampling, cache_salt="s")


@pytest.mark.parametrize(("body_of", "parameters"), ENGINES.items())
def test_no_engine_gets_a_top_p_of_0_which_vllm_and_sglang_refuse(body_of, parameters):
    assert 0 < parameters(body_of(asked_for(Sampling(top_p=0.0))))["top_p"] < 0.001


@pytest.mark.parametrize("body_of", ENGINES)
@pytest.mark.parametrize("name", [field.name for field in fields(Sampling)])
def test_every_engine_is_told_each_field_of_the_sampling(body_of, name):
    default, value = Sampling(), getattr(SAMPLING, name)
    assert value != getattr(default, name), "give it a value in SAMPLING"
    changed = replace(default, **{name: value})
    assert body_of(asked_for(changed)) != body_of(asked_for(default)), "the field does not reach the engine"


async def test_an_error_in_place_of_a_stream_names_the_engine():
    transport = transport_of(b'{"error": "struct GenerateRequest: bad"}', status=400)
    client = SglangClient(EngineAddress("http://engine"), transport=transport)
    with pytest.raises(EngineRefused, match="refuses the request: struct GenerateRequest: bad"):
        async with client.completion(REQUEST):
            pass
