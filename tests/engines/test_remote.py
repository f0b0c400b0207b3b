"""The remote runtime: whatever an engine does, an answer is valid, or an error that names the engine."""

import asyncio
import json
import random
import threading
from contextlib import asynccontextmanager
from dataclasses import replace

import jsonschema_rs
import pytest
from completions_server import SECRET, StandIn
from remote_engines import SETTINGS, TOOLS, WATCH, remote_over, until

from compiler.cache.grammar_cache import GrammarCache
from runtime.engines import delivery, verified_output
from runtime.engines.canary import Canary
from runtime.engines.client import ServedModel
from runtime.engines.remote import RemoteSettings
from runtime.engines.replicas import WatchSettings
from runtime.engines.sent_grammars import MarkedGrammars
from runtime.engines.verified_output import VerifiedOutput
from runtime.errors import (
    DeadlineExceeded,
    EngineBroke,
    EngineFault,
    GrammarNotStored,
    NoEngine,
    PluginMissing,
    RequestRefused,
)
from runtime.events import ArgumentsDelta, CallStarted, Finished, FinishReason, PromptRead, TextDelta
from runtime.models.random_model import RandomModelSettings, ensure_random_model
from runtime.text.detokenizer import TokenBytes
from runtime.text.tokenizer import load_tokenizer
from toolspecs.errors import StoreUnavailable

"""A token that stands nowhere in a call, a stop token apart."""
SCHEMAS = {tool.name: jsonschema_rs.validator_for(dict(tool.parameters)) for tool in TOOLS}


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return load_tokenizer(
        ensure_random_model(folder, RandomModelSettings(hidden_size=64, num_layers=2)), model_id="remote"
    )


async def events_of(remote, request):
    first, *events = [event async for event in remote.runtime.generate(request)]
    assert isinstance(first, PromptRead)
    return events


def calls_of(events, choice=0):
    calls = {}
    for event in events:
        if event.choice == choice and isinstance(event, CallStarted):
            calls[event.index] = (event.name, "")
        if event.choice == choice and isinstance(event, ArgumentsDelta):
            name, arguments = calls[event.index]
            calls[event.index] = (name, arguments + event.text)
    return list(calls.values())


def forbidden(text):
    """A token that no place of a call allows: the byte 0."""
    return text.vocabulary.tokens.index(b"\0")


def assert_valid(events, request):
    finished = [event for event in events if isinstance(event, Finished)]
    assert len(finished) == request.num_choices
    for end in finished:
        assert end.stats.num_output_tokens <= request.max_tokens
        for name, arguments in calls_of(events, end.choice):
            SCHEMAS[name].validate(json.loads(arguments))
    return finished


@pytest.mark.parametrize("mode", ["required", "auto", "none"])
async def test_every_answer_is_valid_and_within_its_budget(text, mode):
    async with remote_over(text, StandIn(text)) as remote:
        found = await remote.grammar(mode)
        least = found.grammar.closer().minimum() if mode == "required" else 1
        for max_tokens in (least, least + 1, least + 7, 60, 200):
            request = remote.request(found, max_tokens=max_tokens, num_choices=3)
            events = await events_of(remote, request)
            (*_,) = assert_valid(events, request)
            if mode == "required":
                assert all(calls_of(events, choice) for choice in range(3))


@pytest.mark.parametrize("place", [0, 1, 9, 30])
async def test_a_refused_token_is_cut_and_the_output_resumed_behind_what_was_good(text, place):
    """Without jump-forward, so that every token is the engine's; its strings are long."""
    stand_in = StandIn(text, end_bias=-50)
    async with remote_over(text, stand_in, settings=replace(SETTINGS, jump_forward=False)) as remote:
        found = await remote.grammar(tools=TOOLS[:1])
        stand_in.bodies.clear()
        stand_in.writes, stand_in.num_faults = {place: forbidden(text)}, 1
        request = remote.request(found, max_tokens=200)
        events = await events_of(remote, request)
        (end,) = assert_valid(events, request)
        assert calls_of(events)
        assert end.stats.num_refused_tokens == 1
        assert end.reason is FinishReason.TOOL_CALLS or end.closed_by == "budget"
        first, second = stand_in.requests[:2]
        assert len(second["prompt"]) == len(first["prompt"]) + place
        assert second["max_tokens"] == first["max_tokens"] - place
        assert (await remote.runtime.health()).engines[0].num_refused_tokens == 1


@pytest.mark.parametrize("fault", [10**8, -1, "stop", "length"])
async def test_an_engine_that_always_leaves_the_grammar_is_completed_by_the_closer(text, fault):
    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:
        found = await remote.grammar()
        stand_in.writes = dict.fromkeys(range(300), fault)
        request = remote.request(found)
        events = await events_of(remote, request)
        (end,) = assert_valid(events, request)
        assert calls_of(events)
        assert (end.reason, end.closed_by) == (FinishReason.LENGTH, "verifier")


async def test_a_call_that_grows_too_long_is_closed_and_its_engine_aborted(text):
    stand_in = StandIn(text, end_bias=-50)
    async with remote_over(text, stand_in) as remote:
        stand_in.honours_max_tokens = False
        found = await remote.grammar(tools=TOOLS[:1])
        request = remote.request(found, max_tokens=found.grammar.closer().minimum() + 3)
        events = await events_of(remote, request)
        (end,) = assert_valid(events, request)
        assert calls_of(events)
        assert (end.reason, end.closed_by) == (FinishReason.LENGTH, "budget")
        assert stand_in.num_running == 0 or await left_alone(stand_in)


@pytest.mark.parametrize("fault", ["die", "garbage", "error", "empty", "stall"])
@pytest.mark.parametrize("place", [0, 12])
async def test_an_engine_that_breaks_off_is_replaced_by_another(text, fault, place):
    """If both do, the error names one."""
    stand_ins = [StandIn(text), StandIn(text)]
    quick = replace(SETTINGS, watch=replace(WATCH, stall_s=0.3))
    async with remote_over(text, *stand_ins, settings=quick) as remote:
        await remote.settled(lambda health: all(e.circuit == "closed" for e in health.engines))
        found = await remote.grammar(tools=TOOLS[:1])
        for stand_in in stand_ins:
            stand_in.writes, stand_in.num_faults = dict.fromkeys(range(place, 300), fault), 1
        with pytest.raises(EngineFault, match=r"the engine 127\.0\.0\.1:\d+ "):
            await events_of(remote, remote.request(found))
        await remote.settled(lambda health: all(e.circuit == "closed" for e in health.engines))
        stand_ins[0].num_faults = 1
        request = remote.request(found)
        events = await events_of(remote, request)
        assert_valid(events, request)
        assert calls_of(events)


async def left_alone(stand_in):
    await until(lambda: not stand_in.num_running)
    return True


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ({"has_plugin": False}, "runs without Callgate's plugin"),
        ({"secret": b"another secret..."}, "different secrets"),
        ({"masks_tokens": False}, "its masks are not in force"),
        ({"honours_max_tokens": False}, "more tokens than the 5"),
        ({"echoes_prompt": False}, "does not repeat"),
        ({"is_healthy": False}, "not healthy"),
        ({"status": 500}, "told to fail (HTTP 500)"),
        ({"writes": {2: 5}}, "as token 3 of an output"),
        ({"aborts": False}, "whose client has left"),
        ({"context_length": "long"}, "such an engine would not"),
    ],
)
async def test_an_engine_that_fails_the_canary_gets_no_request(text, monkeypatch, faults, said):
    monkeypatch.setattr("runtime.engines.canary.NUM_LOOKS", 3)
    stand_in = StandIn(text, **faults)
    async with remote_over(text, stand_in, wait=False) as remote:
        health = await remote.settled(lambda health: said in health.reason)
        assert not health.is_ready
        stand_in.bodies.clear()
        with pytest.raises(NoEngine, match="takes requests") as refused:
            await events_of(remote, remote.request(await remote.grammar()))
        assert said in str(refused.value)
        for name in faults:
            setattr(stand_in, name, getattr(StandIn(text), name))
        await remote.ready()
        assert_valid(*[await events_of(remote, request := remote.request(await remote.grammar())), request])


async def test_an_engine_that_loses_its_plugin_fails_closed(text):
    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:
        found = await remote.grammar("auto")
        stand_in.has_plugin = False
        with pytest.raises(PluginMissing, match="install callgate"):
            await events_of(remote, remote.request(found))


async def test_a_paused_engine_loses_its_requests_to_another(text):
    one, other = stand_ins = [StandIn(text), StandIn(text)]
    async with remote_over(text, one, other) as remote:
        await remote.settled(lambda health: all(e.circuit == "closed" for e in health.engines))
        found = await remote.grammar(tools=TOOLS[:1])
        for stand_in in stand_ins:
            stand_in.writes, stand_in.num_faults = dict.fromkeys(range(15, 300), "stall"), 1
        request = remote.request(found)
        answering = asyncio.ensure_future(events_of(remote, request))
        await until(lambda: any(stand_in.num_running for stand_in in stand_ins))
        paused = one if one.num_running else other
        another = other if paused is one else one
        another.num_faults = 0
        paused.is_healthy = False
        events = await answering
        assert_valid(events, request)
        await remote.settled(lambda health: any(e.circuit == "open" for e in health.engines))
        paused.is_healthy = True
        await remote.settled(lambda health: all(e.circuit == "closed" for e in health.engines))


async def test_a_client_that_leaves_frees_the_engine(text):
    stand_in = StandIn(text, end_bias=-50)
    async with remote_over(text, stand_in) as remote:
        stand_in.num_aborted = 0
        events = remote.runtime.generate(remote.request(await remote.grammar("auto"), max_tokens=2000))
        async for event in events:
            if isinstance(event, TextDelta):
                break
        await events.aclose()
        assert await left_alone(stand_in)
        assert stand_in.num_aborted == 1


async def test_a_deadline_ends_the_request_at_the_engine_too(text):
    stand_in = StandIn(text, end_bias=-50)
    async with remote_over(text, stand_in) as remote:
        stand_in.writes = {5: "stall"}
        with pytest.raises(DeadlineExceeded):
            await events_of(remote, remote.request(max_tokens=2000, timeout_s=0.2))
        assert await left_alone(stand_in)


async def test_text_without_a_grammar_passes(text):
    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:
        stand_in.bodies.clear()
        request = remote.request(max_tokens=12, stop_token_ids=(7,), min_tokens=3)
        events = await events_of(remote, request)
        assert events[-1].reason in {FinishReason.STOP, FinishReason.LENGTH}
        (body,) = stand_in.bodies
        assert "structured_outputs" not in body
        assert body["stop_token_ids"] == [7]
        assert body["min_tokens"] == 3


async def test_what_its_masks_removed_an_engine_elsewhere_cannot_tell(text):
    async with remote_over(text, StandIn(text)) as remote:
        with pytest.raises(RequestRefused, match="ask for `logprobs`") as refusal:
            await events_of(remote, remote.request(is_inspected=True))
        assert refusal.value.parameter == "callgate.inspect"


async def test_no_choice_asks_an_engine_before_its_grammar_is_published_once(text):
    stand_in, published, may_end = StandIn(text), [], asyncio.Event()
    async with remote_over(text, stand_in) as remote:

        async def publish(recipe, share):
            published.append((recipe, share))
            await may_end.wait()
            return True

        remote.grammars.publish = publish
        request = remote.request(await remote.grammar(), num_choices=3, share="a client")
        running = asyncio.create_task(events_of(remote, request))
        await until(lambda: published)
        assert not stand_in.requests
        may_end.set()
        assert_valid(await running, request)
        assert published == [(request.recipe, "a client")]


async def test_an_engine_is_not_asked_for_a_grammar_that_it_cannot_read(text):
    """And none looks broken by it, however often it is tried."""
    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:

        async def publish(recipe, share):
            return False

        remote.grammars.publish = publish
        found = await remote.grammar()
        for _ in range(5):
            with pytest.raises(RequestRefused, match="cannot read the compiled grammar"):
                await events_of(remote, remote.request(found))
        assert not stand_in.requests
        assert (await remote.runtime.health()).is_ready


@pytest.mark.parametrize(("told", "expected"), [(None, 0), (0, 0), (5, 5), (10**6, "all")])
@pytest.mark.parametrize("mode", ["required", "text"])
async def test_what_an_engine_had_in_its_cache_is_reported(text, told, expected, mode):
    stand_in = StandIn(text, num_cached=told)
    async with remote_over(text, stand_in) as remote:
        found = await remote.grammar(parallel=False) if mode == "required" else None
        request = remote.request(found, temperature=0.0)
        (finished,) = assert_valid(await events_of(remote, request), request)
        stats = finished.stats
        assert stats.num_cached_tokens == (stats.num_prompt_tokens if expected == "all" else expected)


async def test_an_answer_is_whole_whatever_its_engine_does_where_only_its_end_is_missing(text, monkeypatch):
    """An engine that tells what it had in its cache may write its stop token first."""
    monkeypatch.setattr(delivery, "LAST_WORDS_S", 0.05)
    stand_in = StandIn(text, num_cached=5)
    async with remote_over(text, stand_in) as remote:
        found = await remote.grammar(parallel=False)
        request = remote.request(found, temperature=0.0)
        (finished,) = assert_valid(await events_of(remote, request), request)
        assert finished.stats.num_cached_tokens == 5
        for fault in ("stall", "die", "garbage", "error", "empty", forbidden(text)):
            stand_in.writes, stand_in.num_faults = {finished.stats.num_output_tokens: fault}, 1
            (again,) = assert_valid(await events_of(remote, request), request)
            assert (again.reason, again.stats.num_cached_tokens) == (finished.reason, 0)
            assert stand_in.num_faults == 0
        assert (await remote.runtime.health()).is_ready


async def test_while_the_store_fails_engines_are_asked_for_what_they_may_remember_and_for_nothing_else(text):
    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:
        known, unknown = await remote.grammar(), await remote.grammar("auto")
        request = remote.request(known)
        assert_valid(await events_of(remote, request), request)

        async def publish(recipe, share):
            raise StoreUnavailable("of tests", "told to fail")

        remote.grammars.publish = publish
        for fault in ("die", None):  # a failure makes it look again
            stand_in.writes, stand_in.num_faults = {8: fault}, 1
            request = remote.request(known)
            assert_valid(await events_of(remote, request), request)
        num_asked = len(stand_in.requests)
        for _ in range(5):
            with pytest.raises(GrammarNotStored, match="the store does not answer"):
                await events_of(remote, remote.request(unknown))
        assert len(stand_in.requests) == num_asked
        assert (await remote.runtime.health()).is_ready


async def test_whether_a_prompt_ends_in_a_thought_is_found_out_once_and_in_a_thread(text, monkeypatch):
    asked = []

    def is_thinking(*_):
        asked.append(threading.current_thread())
        return False

    monkeypatch.setattr(TokenBytes, "is_thinking", is_thinking)
    async with remote_over(text) as remote:
        request = remote.request(await remote.grammar(), num_choices=3)
        assert_valid(await events_of(remote, request), request)
    (thread,) = asked
    assert thread is not threading.main_thread()


async def test_outputs_that_are_slow_to_verify_are_verified_in_threads(text, monkeypatch):
    take, threads = VerifiedOutput.take, []

    def noted(self, tokens):
        threads.append(threading.current_thread())
        return take(self, tokens)

    monkeypatch.setattr(VerifiedOutput, "take", noted)
    monkeypatch.setattr(verified_output, "SLOW_S", -1.0)
    async with remote_over(text) as remote:
        request = remote.request(await remote.grammar())
        events = await events_of(remote, request)
        assert_valid(events, request)
        assert calls_of(events)
    assert len(threads) > 2
    assert [thread is threading.main_thread() for thread in threads] == [True] + [False] * (len(threads) - 1)


async def test_what_is_verified_while_its_engine_is_found_dead_reaches_the_client(text, monkeypatch):
    """Else the client would read an answer with a hole, behind which another engine went on."""
    take, entered, may_go_on = VerifiedOutput.take, [], threading.Event()

    def held_once(self, tokens):
        events = take(self, tokens)
        is_in_thread = threading.current_thread() is not threading.main_thread()
        if is_in_thread and not entered and any(isinstance(event, ArgumentsDelta) for event in events):
            entered.append(self)
            assert may_go_on.wait(20)
        return events

    monkeypatch.setattr(VerifiedOutput, "take", held_once)
    monkeypatch.setattr(verified_output, "SLOW_S", -1.0)
    async with remote_over(text, StandIn(text), StandIn(text)) as remote:
        await remote.settled(lambda health: all(e.circuit == "closed" for e in health.engines))
        request = remote.request(await remote.grammar(), max_tokens=200)
        answer = asyncio.create_task(events_of(remote, request))
        await until(lambda: entered)
        busy = next(replica for replica in remote.runtime._replicas if replica.num_running)
        busy.open("was found dead")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        may_go_on.set()
        events = await answer
        assert_valid(events, request)
        (output,) = entered
        assert output.num_requests == 2
        written = TokenBytes(text.vocabulary).of(output.ids).decode()
        name, arguments = calls_of(events)[0]
        assert f'"name": "{name}", "arguments": {arguments}' in written


async def test_what_is_forced_goes_with_the_prompt(text):
    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:
        stand_in.bodies.clear()
        found = await remote.grammar("required", allowed=("set_color",), parallel=False)
        request = remote.request(found)
        events = await events_of(remote, request)
        (end,) = assert_valid(events, request)
        (body,) = stand_in.bodies
        prompt_ids = await remote.runtime.prompt_ids(request)
        assert body["prompt"][: len(prompt_ids)] == prompt_ids
        spelled = text.tokenizer.decode(body["prompt"][len(prompt_ids) :])
        assert spelled.startswith('<tool_call>\n{"name": "set_color", "arguments": {"color":')
        assert end.stats.num_forced_tokens >= len(body["prompt"]) - len(prompt_ids)


async def test_each_choice_has_its_seed_and_each_client_its_cache(text):
    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:
        stand_in.bodies.clear()
        await events_of(remote, remote.request(max_tokens=3, num_choices=2, seed=5, share="one"))
        await events_of(remote, remote.request(max_tokens=3, seed=5, share="other"))
        await events_of(remote, remote.request(max_tokens=3, share="other"))
        seeds = [body.get("seed") for body in stand_in.bodies]
        assert len(set(seeds[:2])) == 2
        assert seeds[2] in seeds[:2]
        assert seeds[3] is None
        salts = [body["cache_salt"] for body in stand_in.bodies]
        assert salts[0] == salts[1] != salts[2] == salts[3]
        assert "one" not in salts[0]


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_engines_do_answers_are_valid_or_errors_that_name_them(text, seed):
    rng = random.Random(seed)
    stand_ins = [StandIn(text), StandIn(text)]
    async with remote_over(text, *stand_ins) as remote:
        await remote.settled(lambda health: all(e.circuit == "closed" for e in health.engines))
        found = await remote.grammar("required")
        num_answered, errors = 0, []
        for _ in range(12):
            for stand_in in stand_ins:
                kinds = ["die", "garbage", "error", "empty", "stop", "length", 3, 10**7, forbidden(text)]
                stand_in.writes = {rng.randrange(60): rng.choice(kinds) for _ in range(rng.randrange(4))}
            request = remote.request(found, max_tokens=rng.randrange(30, 120), num_choices=2)
            try:
                events = await events_of(remote, request)
            except (EngineBroke, NoEngine) as error:
                errors.append(str(error))
                for stand_in in stand_ins:
                    stand_in.writes = {}
                await remote.ready()
                continue
            assert_valid(events, request)
            assert all(calls_of(events, choice) for choice in range(2))
            num_answered += 1
        assert num_answered
        assert all("127.0.0.1:" in error for error in errors)


async def test_a_dead_engine_is_asked_for_its_health_as_often_as_one_that_works(text):
    """Else a model whose engines were all down would stay down for half a minute more."""
    watch = WatchSettings(probe_s=0.05, first_retry_s=3600, last_retry_s=3600)
    dead = StandIn(text, is_healthy=False)
    async with remote_over(text, dead, settings=RemoteSettings(watch=watch), wait=False) as remote:
        await remote.settled(lambda health: "is not healthy" in health.reason)
        dead.is_healthy = True
        await remote.ready()


@pytest.mark.parametrize("num_turns", range(6))
async def test_a_canary_that_fails_while_it_is_stopped_is_stopped(text, num_turns):
    """A group of tasks would forget it, and its watch go on for ever behind a gateway that closes."""
    fails = asyncio.Event()

    class Failing:
        name = "an engine"
        repeats_prompts = True

        @asynccontextmanager
        async def completion(self, body):
            await fails.wait()
            raise EngineBroke(self.name, "broke off")
            yield

    grammars = GrammarCache(None, secret=SECRET)
    sent = MarkedGrammars(SECRET, TokenBytes(text.vocabulary), retry_after_s=1)
    canary = Canary(text, grammars, sent)
    checking = asyncio.create_task(canary.check(Failing(), ServedModel("m", None)))
    await until(lambda: len(asyncio.all_tasks()) > 3)
    fails.set()
    for _ in range(num_turns):
        await asyncio.sleep(0)
    is_stopped = checking.cancel()
    await asyncio.wait([checking])
    assert checking.cancelled() == is_stopped
    await grammars.close()
