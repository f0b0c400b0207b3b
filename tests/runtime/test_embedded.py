"""The embedded runtime, end to end, with the random model."""

import asyncio
import dataclasses
import json
import threading
import time
from collections import Counter

import jsonschema_rs
import pytest
from embedded import SETTINGS, all_events_of, assert_valid, compiled, events_of, linked, request, settled
from whole_outputs import calls_of, text_of

from compiler import ResponseFormat, compile_format
from compiler.linker.linker import link_format
from compiler.prepared_vocabulary import prepare
from compiler.syntaxes import find_syntax
from runtime import embedded as embedded_module
from runtime.embedded import run_in_short_lived_thread
from runtime.errors import BudgetTooSmall, DeadlineExceeded, TooManySequences
from runtime.events import Finished, FinishReason, ThoughtDelta
from runtime.request import Message
from runtime.text import prompts
from runtime.text.prompts import NUM_TEMPLATE_THREADS
from runtime.text.template import ChatTemplate


@pytest.mark.parametrize("tool_choice", ["required", "auto", "none"])
async def test_calls_are_valid(runtime, tool_choice):
    grammar = await linked(runtime, tool_choice)
    asked = [request(f"r{seed}", constraint=grammar, seed=seed) for seed in range(12)]
    num_calls = 0
    for events in await all_events_of(runtime, asked):
        calls = calls_of(events)
        num_calls += len(calls)
        assert_valid(calls)
        (end,) = [e for e in events if isinstance(e, Finished)]
        assert end is events[-1]
        assert end.reason is (FinishReason.TOOL_CALLS if calls else FinishReason.STOP)
        assert "<tool_call>" not in text_of(events)
    assert num_calls >= {"required": 12, "auto": 3, "none": 0}[tool_choice]
    assert tool_choice != "none" or num_calls == 0
    await settled(runtime)


def open_prompts(runtime, monkeypatch, opening):
    """Let the runtime's chat template end every prompt with `opening`."""
    tokenizer = runtime._loaded.tokenizer
    monkeypatch.setattr(tokenizer, "chat_template", tokenizer.chat_template + opening)
    monkeypatch.setattr(runtime._prompts, "_chat_template", ChatTemplate(tokenizer))


@pytest.mark.parametrize("opening", ["", "<think>\n"])
async def test_a_thought_that_the_prompt_begins_is_ended(make_runtime, monkeypatch, opening):
    runtime = make_runtime(syntax="hermes+think")
    open_prompts(runtime, monkeypatch, opening)
    grammar = await linked(runtime, "required")
    events = await events_of(runtime, request(constraint=grammar, max_tokens=150))
    assert_valid(calls_of(events))
    assert calls_of(events)
    assert not opening or any(isinstance(event, ThoughtDelta) for event in events)
    assert text_of(events) == ""


@pytest.mark.parametrize("opening", ["", "<think>\n"])
@pytest.mark.parametrize("syntax", ["hermes+think", "harmony"])
async def test_a_format_is_kept_behind_thoughts_that_are_free(make_runtime, monkeypatch, syntax, opening):
    runtime = make_runtime(syntax=syntax)
    open_prompts(runtime, monkeypatch, opening)
    (card,) = await runtime.models()
    compiled = compile_format(ResponseFormat("pattern", "(?:yes|no)!{1,3}"), tokenizer=card.vocabulary)
    constraint = link_format(compiled, find_syntax(syntax), prepare(card.prepared))
    asked = [
        request(f"r{seed}", constraint=constraint, seed=seed, max_tokens=80 + 20 * seed) for seed in range(6)
    ]
    thoughts = ""
    for events in await all_events_of(runtime, asked):
        assert compiled.accepts(text_of(events)), text_of(events)
        assert not calls_of(events)
        thoughts += "".join(event.text for event in events if isinstance(event, ThoughtDelta))
    assert thoughts or not opening or syntax == "harmony"


@pytest.mark.parametrize("syntax", ["qwen3_coder", "deepseek_v3_2", "glm_4_7", "harmony", "mistral_v13"])
async def test_calls_are_valid_in_any_syntax(make_runtime, syntax):
    runtime = make_runtime(syntax=syntax)
    grammar = await linked(runtime, "required")
    asked = [
        request(f"r{seed}", constraint=grammar, seed=seed, max_tokens=100 + 60 * seed) for seed in range(3)
    ]
    for events in await all_events_of(runtime, asked):
        calls = calls_of(events)
        assert calls
        assert_valid(calls)
        assert not text_of(events) or syntax == "harmony"
    await settled(runtime)


async def test_a_seed_repeats_an_answer_alone_or_in_company(runtime):
    grammar = await linked(runtime, "required")
    alone = await events_of(runtime, request(constraint=grammar, seed=5))
    many = await all_events_of(runtime, [request(f"r{s}", constraint=grammar, seed=s) for s in range(8)])
    assert calls_of(many[5]) == calls_of(alone)
    assert len({str(calls_of(events)) for events in many}) > 1


async def test_choices_differ_and_share_their_prompt(runtime):
    grammar = await linked(runtime, "required")
    messages = (Message("user", "a long prompt " * 40),)
    events = await events_of(runtime, request(constraint=grammar, num_choices=4, messages=messages))
    answers = [calls_of(events, choice) for choice in range(4)]
    for calls in answers:
        assert_valid(calls)
    assert len({str(calls) for calls in answers}) > 1
    cached = {e.choice: e.stats.num_cached_tokens for e in events if isinstance(e, Finished)}
    assert cached[0] == 0
    assert all(cached[choice] > 100 for choice in (1, 2, 3))


@pytest.mark.parametrize("shares_prefixes", [False, True])
async def test_clients_do_not_find_each_others_prompts_in_the_cache(make_runtime, shares_prefixes):
    """The count of cached tokens would tell a client whether another one asked what it asks."""
    runtime = make_runtime(dataclasses.replace(SETTINGS, shares_prefixes=shares_prefixes))
    asked = request(messages=(Message("user", "a secret " * 40),), max_tokens=2)
    cached = []
    for client_id in ("key a", "key b", "key b"):
        events = await events_of(
            runtime, dataclasses.replace(asked, request_id=client_id, client_id=client_id)
        )
        cached += [event.stats.num_cached_tokens for event in events if isinstance(event, Finished)]
    first, other, again = cached
    assert first == 0
    assert again > 100
    assert other == (again if shares_prefixes else 0)


async def test_json_output_validates(runtime):
    properties = {"a": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "required": ["a"], "additionalProperties": False}
    events = await events_of(runtime, request(constraint=await compiled(runtime, schema)))
    assert set(json.loads(text_of(events))) == {"a"}
    assert events[-1].reason is FinishReason.STOP


@pytest.mark.parametrize("tool_choice", ["required", "auto"])
async def test_no_budget_cuts_a_call(runtime, tool_choice):
    """Every budget is either refused, naming the least that is enough, or gives whole, valid calls."""
    grammar = await linked(runtime, tool_choice, parallel=True)
    with pytest.raises(BudgetTooSmall) as refused:
        await events_of(runtime, request(constraint=await linked(runtime, "required"), max_tokens=1))
    minimum = refused.value.minimum
    budgets = range(minimum, minimum + 30)
    asked = [request(f"r{b}", constraint=grammar, max_tokens=b, seed=b) for b in budgets]
    answers = await all_events_of(runtime, asked)
    reasons = Counter()
    for budget, events in zip(budgets, answers, strict=True):
        end = events[-1]
        assert end.stats.num_output_tokens <= budget
        assert_valid(calls_of(events))
        if end.closed_by == "budget":
            assert end.reason is FinishReason.LENGTH
            reasons["closed"] += 1
        elif calls_of(events):
            assert end.reason is FinishReason.TOOL_CALLS
        elif end.reason is FinishReason.LENGTH:
            assert end.stats.num_output_tokens == budget, "text goes on to the end of its budget"
        if tool_choice == "required":
            assert calls_of(events)
    assert reasons["closed"] > 3


async def test_text_goes_on_where_no_call_fits_any_more(runtime):
    grammar = await linked(runtime, "auto")
    asked = [request(f"r{seed}", constraint=grammar, max_tokens=12, seed=seed) for seed in range(40)]
    for events in await all_events_of(runtime, asked):
        assert not calls_of(events)
        assert events[-1].closed_by is None
        is_whole = events[-1].reason is FinishReason.STOP
        assert is_whole or events[-1].stats.num_output_tokens == 12


async def test_a_request_without_a_budget_gets_the_default(make_runtime):
    runtime = make_runtime(dataclasses.replace(SETTINGS, default_max_tokens=7))
    events = await events_of(runtime, request(max_tokens=None, temperature=0))
    assert events[-1].stats.num_output_tokens <= 7


async def test_the_default_budget_grows_for_an_output_that_needs_more(make_runtime):
    """Nobody set the budget that the shortest array of twenty items exceeds."""
    runtime = make_runtime(dataclasses.replace(SETTINGS, default_max_tokens=7))
    schema = {"type": "array", "items": {"const": True}, "minItems": 20, "maxItems": 20}
    constraint = await compiled(runtime, schema)
    events = await events_of(runtime, request(max_tokens=None, constraint=constraint))
    assert json.loads(text_of(events)) == [True] * 20
    assert events[-1].stats.num_output_tokens > 7


async def test_json_output_is_closed_at_its_budget(runtime):
    schema = {"type": "array", "items": {"type": "string", "minLength": 3}, "minItems": 3}
    constraint = await compiled(runtime, schema)
    for budget in range(24, 40):
        asked = request(constraint=constraint, max_tokens=budget, seed=budget)
        text = text_of(await events_of(runtime, asked))
        assert jsonschema_rs.is_valid(schema, json.loads(text))


async def test_what_a_step_wrote_may_be_sent_while_the_next_is_computed(make_runtime):
    """As where a device computes by itself: the same events, and whoever stops meanwhile gets no more."""
    runtimes = [make_runtime(), make_runtime()]
    runtimes[1]._thread.engine.runner.is_async = True
    stop = text_of(await events_of(runtimes[0], request(seed=3)))[2:4]
    answers = []
    for runtime in runtimes:
        grammar = await linked(runtime, "auto")
        asked = [request(f"{s}", constraint=grammar, seed=s) for s in range(4)]
        asked += [request("stop", seed=3, stop=(stop,)), request("late", timeout_s=1e-6)]
        answers.append(
            await asyncio.gather(*(events_of(runtime, one) for one in asked), return_exceptions=True)
        )
        await settled(runtime)
        runtime._thread.engine.check_integrity()
    for events, expected in zip(*reversed(answers), strict=True):
        if isinstance(expected, DeadlineExceeded):
            assert isinstance(events, DeadlineExceeded)
        else:
            assert (text_of(events), calls_of(events)) == (text_of(expected), calls_of(expected))
            assert events[-1].reason is expected[-1].reason
            assert events[-1].stats.num_output_tokens == expected[-1].stats.num_output_tokens


async def test_a_timeout_covers_the_wait_for_a_template_thread(runtime):
    """Other people's long prompts hold all threads that render prompts."""
    is_released = threading.Event()
    for number in range(NUM_TEMPLATE_THREADS):
        runtime._prompts._threads.submit(f"client {number}", lambda: is_released.wait(30))
    start = time.monotonic()
    try:
        with pytest.raises(DeadlineExceeded):
            await events_of(runtime, request(timeout_s=0.05))
        assert time.monotonic() - start < 10
    finally:
        is_released.set()
    assert text_of(await events_of(runtime, request(seed=3, timeout_s=60)))
    await settled(runtime)


def test_a_short_lived_thread_has_ended_when_its_result_is_there():
    thread = run_in_short_lived_thread(threading.current_thread)
    assert thread is not threading.current_thread()
    assert not thread.is_alive()


def test_what_is_raised_in_a_short_lived_thread_is_raised_here():
    with pytest.raises(ZeroDivisionError):
        run_in_short_lived_thread(lambda: 1 // 0)


def test_a_model_is_loaded_by_a_short_lived_thread(make_runtime, monkeypatch):
    loaders = []
    load_model = embedded_module.load_model

    def noted(*arguments, **options):
        loaders.append(threading.current_thread())
        return load_model(*arguments, **options)

    monkeypatch.setattr(embedded_module, "load_model", noted)
    make_runtime()
    (loader,) = loaders
    assert loader is not threading.current_thread()
    assert not loader.is_alive()


@pytest.mark.parametrize("has_room_later", [False, True])
async def test_a_client_that_is_full_waits_a_moment_for_room(runtime, monkeypatch, has_room_later):
    """Refused at once, it could ask again at once, and keep the event loop busy."""
    monkeypatch.setattr(prompts, "FULL_PAUSE_S", 0)
    most = runtime._settings.max_sequences_per_client
    nums = iter([most, most - 1 if has_room_later else most])
    monkeypatch.setattr(runtime._prompts, "_num_sequences", lambda client_id: next(nums))
    if has_room_later:
        await events_of(runtime, request(max_tokens=2))
    else:
        with pytest.raises(TooManySequences):
            await events_of(runtime, request(max_tokens=2))
    assert not list(nums), "it was asked again after the pause"
