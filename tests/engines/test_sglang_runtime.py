"""The gateway's side of SGLang, over a stand-in with its routes and shapes."""

import dataclasses

import httpx
import pytest
from generate_server import SglangStandIn
from remote_engines import assert_valid, events_of, forbidden, remote_over, until
from whole_outputs import calls_of

from runtime.engines.client import EngineAddress
from runtime.engines.completion_request import CompletionRequest
from runtime.engines.grammar_loader import GrammarUnavailable
from runtime.engines.llama_client import llama_body
from runtime.engines.sglang_client import SglangClient, sglang_body
from runtime.engines.vllm_client import completion_body, generate_body
from runtime.errors import EngineBroke, EngineRefused
from runtime.events import FinishReason
from runtime.request import Sampling


def sglang_over(text, *stand_ins, **options):
    return remote_over(text, *(stand_ins or (SglangStandIn(text),)), kind="sglang", **options)


@pytest.mark.parametrize("is_incremental", [False, True])
@pytest.mark.parametrize("mode", ["required", "auto", "none"])
async def test_every_answer_is_valid_and_within_its_budget(text, mode, is_incremental):
    async with sglang_over(text, SglangStandIn(text, is_incremental=is_incremental)) as remote:
        lookup = await remote.grammar(mode)
        least = lookup.grammar.closer().minimum() if mode == "required" else 1
        for max_tokens in (least, least + 9, 100):
            request = remote.request(lookup, max_tokens=max_tokens)
            events = await events_of(remote, request)
            (finished,) = assert_valid(events, request)
            assert finished.stats.num_refused_tokens == 0
            assert calls_of(events) or mode != "required"


async def test_a_token_against_the_grammar_is_cut_and_the_output_resumed(text):
    stand_in = SglangStandIn(text)
    async with sglang_over(text, stand_in) as remote:
        lookup = await remote.grammar(parallel=False)
        stand_in.writes, stand_in.num_faults = {12: forbidden(text)}, 1
        request = remote.request(lookup)
        (finished,) = assert_valid(await events_of(remote, request), request)
        assert finished.stats.num_refused_tokens == 1
        assert len(stand_in.requests) == 2


async def test_what_was_in_the_cache_is_known_without_waiting_for_the_end(text):
    """Also where the gateway leaves the engine."""
    stand_in = SglangStandIn(text, num_cached=5)
    async with sglang_over(text, stand_in) as remote:
        lookup = await remote.grammar()
        for max_tokens in (lookup.grammar.closer().minimum(), 100):
            request = remote.request(lookup, max_tokens=max_tokens)
            (finished,) = assert_valid(await events_of(remote, request), request)
            assert finished.stats.num_cached_tokens == 5


async def test_a_server_that_has_no_plugin_gets_no_requests(text):
    async with sglang_over(text, SglangStandIn(text, has_plugin=False), wait=False) as remote:
        health = await remote.settled(lambda health: "plugin" in health.reason)
        assert "--grammar-backend xgrammar" in health.reason
        assert not health.is_ready


async def test_a_server_that_goes_on_without_its_client_gets_no_requests(text):
    async with sglang_over(text, SglangStandIn(text, aborts=False, token_s=0.001), wait=False) as remote:
        await remote.settled(lambda health: "client has left" in health.reason)
        for stand_in in remote.stand_ins:
            stand_in.aborts = True


async def test_an_answer_that_is_left_is_aborted(text):
    stand_in = SglangStandIn(text, token_s=0.002)
    async with sglang_over(text, stand_in) as remote:
        before = stand_in.num_aborted
        events = remote.runtime.generate(remote.request(max_tokens=1000))
        for _ in range(4):
            await anext(events)
        await events.aclose()
        await until(lambda: stand_in.num_aborted > before)


async def test_a_grammar_that_the_engine_cannot_have_is_published_again(text):
    """SGLang says why a grammar failed, in the stream."""
    stand_in = SglangStandIn(text)
    async with sglang_over(text, stand_in) as remote:
        lookup = await remote.grammar()
        linked, failing = stand_in.grammar_of, [1]

        def once(recipe):
            if failing:
                failing.pop()
                raise GrammarUnavailable("the store lacks the grammar of 'now'")
            return linked(recipe)

        stand_in.grammar_of = once
        request = remote.request(lookup)
        assert_valid(await events_of(remote, request), request)
        failing += [1] * 9
        with pytest.raises(EngineBroke, match="the store lacks the grammar of 'now'"):
            await events_of(remote, remote.request(lookup))


@pytest.mark.parametrize(("status", "error"), [(400, EngineRefused), (500, EngineBroke), (503, EngineBroke)])
async def test_a_request_that_sglang_aborts_fails_with_its_words(text, status, error):
    stand_in = SglangStandIn(text)
    async with sglang_over(text, stand_in) as remote:
        stand_in.status = status
        with pytest.raises(error, match="told to fail"):
            await events_of(remote, remote.request())


async def test_log_probabilities_that_are_repeated_with_each_token_are_not_read(text):
    """Those of 5,000 tokens with 20 alternatives each would take a minute of the event loop."""
    async with sglang_over(text, SglangStandIn(text)) as remote:
        with pytest.raises(EngineRefused, match="--incremental-streaming-output"):
            await events_of(remote, remote.request(max_tokens=6, num_logprobs=2))


async def test_only_the_canary_has_the_prompt_repeated(text):
    """SGLang does so with each token."""
    stand_in = SglangStandIn(text)
    async with sglang_over(text, stand_in) as remote:
        await events_of(remote, remote.request(max_tokens=6))
    *canaries, asked = (body["sglang"] for body in stand_in.bodies)
    assert "return_prompt_token_ids" not in asked
    assert any(body.get("return_prompt_token_ids") for body in canaries)


async def test_log_probabilities_are_of_the_tokens_that_came(text):
    async with sglang_over(text, SglangStandIn(text, is_incremental=True)) as remote:
        request = remote.request(max_tokens=6, num_logprobs=2)
        events = await events_of(remote, request)
        (finished,) = assert_valid(events, request)
        lookup = [one for event in events for one in getattr(event, "logprobs", ())]
        num_stops = finished.reason is FinishReason.STOP  # a stop token is no text, and has none
        assert len(lookup) == finished.stats.num_output_tokens - num_stops
        assert all(one.logprob == -0.5 for one in lookup)


async def test_the_body_is_what_sglang_expects():
    sampling = Sampling(temperature=0.0, top_k=None, seed=4, logit_bias={7: -1.5})
    request = CompletionRequest(
        model_id="m",
        prompt_ids=[1, 2],
        max_tokens=9,
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
    return CompletionRequest(model_id="m", prompt_ids=[1], max_tokens=9, sampling=sampling, cache_salt="s")


@pytest.mark.parametrize(("body_of", "parameters"), ENGINES.items())
def test_no_engine_gets_a_top_p_of_0_which_vllm_and_sglang_refuse(body_of, parameters):
    assert 0 < parameters(body_of(asked_for(Sampling(top_p=0.0))))["top_p"] < 0.001


@pytest.mark.parametrize("body_of", ENGINES)
@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Sampling)])
def test_every_engine_is_told_each_field_of_the_sampling(body_of, name):
    default, value = Sampling(), getattr(SAMPLING, name)
    assert value != getattr(default, name), "give it a value in SAMPLING"
    changed = dataclasses.replace(default, **{name: value})
    assert body_of(asked_for(changed)) != body_of(asked_for(default)), "the field does not reach the engine"


async def test_an_error_in_place_of_a_stream_names_the_engine():
    async def said():
        yield b'{"error": "struct GenerateRequest: bad"}'

    transport = httpx.MockTransport(lambda _: httpx.Response(400, content=said()))
    client = SglangClient(EngineAddress("http://engine"), transport=transport)
    request = CompletionRequest(model_id="", prompt_ids=[1], max_tokens=9, sampling=Sampling())
    with pytest.raises(EngineRefused, match="refuses the request: struct GenerateRequest: bad"):
        async with client.completion(request):
            pass
    await client.close()
