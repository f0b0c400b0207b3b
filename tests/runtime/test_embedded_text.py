"""Text of the embedded runtime: where it ends, its log probabilities, and prompts that clients render themselves."""

import dataclasses

import pytest
from embedded import all_events_of, compiled, events_of, linked, request, settled
from whole_outputs import calls_of, text_of

from compiler import ResponseFormat, compile_format
from runtime.errors import RequestRefused
from runtime.events import FinishReason, InspectedToken, TextDelta

CONCLUSION = {
    "type": "object",
    "properties": {"conclusion": {"type": "boolean"}},
    "required": ["conclusion"],
    "additionalProperties": False,
}


async def test_a_temperature_near_zero_is_greedy(runtime):
    texts = [
        text_of(await events_of(runtime, request(temperature=t, max_tokens=20))) for t in (0.0, 1e-45, 1e-9)
    ]
    assert len(set(texts)) == 1


async def test_text_ends_at_a_stop_string(runtime):
    whole = text_of(await events_of(runtime, request(seed=3)))
    stop = whole[2:4]
    events = await events_of(runtime, request(seed=3, stop=(stop,)))
    assert text_of(events) == whole[: whole.index(stop)]
    assert events[-1].reason is FinishReason.STOP


async def test_text_ends_at_a_stop_token_which_is_no_part_of_it(runtime):
    (card,) = await runtime.models()
    texts = [text_of(await events_of(runtime, request(seed=seed))) for seed in range(12)]
    whole = max(texts, key=len)
    ends = {i for i, token in enumerate(card.vocabulary.tokens) if token and token in whole[9:].encode()}
    asked = request(seed=texts.index(whole), stop_token_ids=tuple(ends))
    events = await events_of(runtime, asked)
    assert whole.startswith(text_of(events))
    assert len(text_of(events)) < len(whole)
    assert events[-1].reason is FinishReason.STOP
    inspected = await events_of(runtime, dataclasses.replace(asked, is_inspected=True))
    tokens = [event for event in inspected if isinstance(event, InspectedToken)]
    assert len(tokens) == events[-1].stats.num_output_tokens
    assert (tokens[-1].text, tokens[-1].place.part) == ("", "end")
    assert tokens[-1].token_id in ends


async def test_text_does_not_end_before_its_least_tokens(runtime):
    lengths = [
        (await events_of(runtime, request(seed=seed, min_tokens=least, max_tokens=60)))[-1].stats
        for seed in range(8)
        for least in (0, 50)
    ]
    counts = [stats.num_output_tokens for stats in lengths]
    assert min(counts[1::2]) >= 50
    assert min(counts[::2]) < 50


async def test_neither_cuts_off_nor_fills_up_a_call(runtime):
    grammar = await linked(runtime, "required", parallel=False)
    (card,) = await runtime.models()
    every_token = tuple(range(card.vocabulary.width))[:200]
    for seed in range(4):
        plain = await events_of(runtime, request(constraint=grammar, seed=seed))
        asked = request(constraint=grammar, seed=seed, min_tokens=390, stop_token_ids=every_token)
        *same, end = await events_of(runtime, asked)
        assert (same, end.reason) == (plain[:-1], FinishReason.TOOL_CALLS)


async def test_logprobs_cover_the_text(runtime):
    events = await events_of(runtime, request(seed=3, num_logprobs=2))
    logprobs = [p for e in events if isinstance(e, TextDelta) for p in e.logprobs]
    assert b"".join(p.token_bytes for p in logprobs).decode(errors="replace") == text_of(events)
    assert all(p.logprob <= 0 and len(p.top) == 2 for p in logprobs)


async def test_a_stop_string_ends_a_forced_text(runtime):
    constraint = await compiled(runtime, CONCLUSION)
    events = await events_of(runtime, request(constraint=constraint, stop=("clusi",)))
    assert text_of(events) == '{"con'
    assert events[-1].reason is FinishReason.STOP
    assert events[-1].stats.num_forced_tokens > 0
    await settled(runtime)


async def test_a_stop_string_does_not_end_the_prose_before_a_required_call(make_runtime):
    runtime = make_runtime(syntax="harmony")
    options = {"constraint": await linked(runtime, "required"), "stop": (" ", "e", "a"), "max_tokens": 80}

    async def numbers_of_calls(**more):
        asked = [request(f"r{seed}", seed=seed, **options, **more) for seed in range(8)]
        return {len(calls_of(events)) for events in await all_events_of(runtime, asked)}

    assert await numbers_of_calls(must_call=True) == {1}
    assert 0 in await numbers_of_calls()


async def test_log_probabilities_of_forced_tokens_spell_the_text(runtime):
    constraint = await compiled(runtime, CONCLUSION)
    events = await events_of(runtime, request(constraint=constraint, num_logprobs=2))
    logprobs = [entry for event in events if isinstance(event, TextDelta) for entry in event.logprobs]
    assert "".join(entry.token for entry in logprobs) == text_of(events)
    is_certain = [entry.logprob == 0.0 and len(entry.top) == 1 for entry in logprobs]
    assert is_certain.count(True) >= events[-1].stats.num_forced_tokens > 3
    assert not all(is_certain)


async def test_a_prompt_of_the_clients_own_is_read_as_it_is(runtime):
    """As text, in which a marker is a marker, and as token ids."""
    tokenizer = runtime._loaded.tokenizer
    prompt = f"Once {tokenizer.eos_token} upon"
    asked = request(messages=(), prompt=prompt, temperature=0, max_tokens=20)
    ids = await runtime.prompt_ids(asked)
    assert ids == tokenizer(prompt)["input_ids"]
    assert tokenizer.eos_token_id in ids
    by_ids = dataclasses.replace(asked, prompt=tuple(ids))
    assert text_of(await events_of(runtime, asked)) == text_of(await events_of(runtime, by_ids))
    with pytest.raises(RequestRefused, match="prompt"):
        await events_of(runtime, dataclasses.replace(asked, prompt=(10**6,)))
    for nothing in ("", ()):
        with pytest.raises(RequestRefused):
            await events_of(runtime, dataclasses.replace(asked, prompt=nothing))


async def test_what_continues_a_prompt_has_the_format(runtime):
    (card,) = await runtime.models()
    constraint = compile_format(ResponseFormat("choice", ["yes", "no"]), tokenizer=card.vocabulary)
    options = {"messages": (), "prompt": "Is it? ", "constraint": constraint}
    for events in await all_events_of(runtime, [request(f"r{s}", seed=s, **options) for s in range(4)]):
        assert text_of(events) in {"yes", "no"}
