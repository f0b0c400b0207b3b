"""Engines that break off, lie, lose their plugin or their store: an answer is valid, or an error names the engine."""

import asyncio
import random
import threading
from contextlib import asynccontextmanager

import pytest
from completions_server import SECRET, StandIn, is_canary
from remote_engines import (
    GUARDED,
    TOOLS,
    answer_of,
    assert_valid,
    events_of,
    forbidden,
    remote_over,
    until,
)
from whole_outputs import calls_of

from compiler.cache.grammar_cache import GrammarCache
from runtime.engines import verified_output
from runtime.engines.canary import Canary
from runtime.engines.client import ServedModel
from runtime.engines.published_grammars import PublishedGrammars
from runtime.engines.remote import RemoteSettings, _Answer
from runtime.engines.replica import WatchSettings
from runtime.engines.sent_grammars import MarkedGrammars
from runtime.engines.tries import MAX_BROKEN
from runtime.engines.verified_output import VerifiedOutput
from runtime.errors import (
    EngineBroke,
    EngineFault,
    EngineStopped,
    GrammarNotStored,
    NoEngine,
    PluginMissing,
)
from runtime.events import ArgumentsDelta
from runtime.text.detokenizer import TokenBytes
from toolspecs.errors import StoreUnavailable


@pytest.mark.parametrize("fault", ["die", "garbage", "error", "empty", "stall"])
@pytest.mark.parametrize("place", [0, 12])
async def test_an_engine_that_breaks_off_is_replaced_by_another(text, fault, place):
    """If both do, the error names one."""
    stand_ins = [StandIn(text), StandIn(text)]
    async with remote_over(text, *stand_ins) as remote:
        await remote.all_ready()
        lookup = await remote.grammar(tools=TOOLS[:1])
        for stand_in in stand_ins:
            stand_in.writes, stand_in.num_faults = dict.fromkeys(range(place, 300), fault), 1
        with pytest.raises(EngineFault, match=r"the engine 127\.0\.0\.1:\d+ "):
            await events_of(remote, remote.request(lookup))
        await remote.all_ready()
        stand_ins[0].num_faults = 1
        calls, _ = await answer_of(remote, remote.request(lookup))
        assert calls


class BreaksOff(StandIn):
    """Canaries find no fault with it."""

    def fault(self, body, place):
        return None if is_canary(body) else super().fault(body, place)


@pytest.mark.parametrize(("num_faults", "num_asked"), [(3, 4), (10**9, MAX_BROKEN)])
async def test_an_answer_goes_on_while_each_engine_writes_more_of_it(text, num_faults, num_asked):
    """Engines that are restarted one after another ended it, although each of them had taken it further."""
    stand_in = BreaksOff(text, end_bias=-50)
    async with remote_over(text, stand_in) as remote:
        stand_in.writes, stand_in.num_faults = {2: "die"}, num_faults
        request = remote.request(max_tokens=30)
        if num_asked < MAX_BROKEN:
            assert_valid(await events_of(remote, request), request)
        else:
            with pytest.raises(EngineBroke, match="broke off"):
                await events_of(remote, request)
        assert len(stand_in.requests) == num_asked


async def test_an_engine_whose_answers_have_no_end_takes_no_requests(text):
    """Such answers count as failures: the circuit opens, and the metrics show them."""
    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:
        stand_in.writes = dict.fromkeys(range(300), "empty")
        for client_id in ("one", "other"):
            with pytest.raises(EngineBroke, match="it sent no finish_reason"):
                await events_of(remote, remote.request(client_id=client_id))
        [engine] = (await remote.runtime.health()).engines
        assert (engine.num_served, engine.num_failed) == (0, 3)
        assert engine.circuit != "closed"


async def test_an_engine_that_loses_its_plugin_fails_closed(text):
    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar("auto")
        stand_in.has_plugin = False
        with pytest.raises(PluginMissing, match="install callgate"):
            await events_of(remote, remote.request(lookup))


async def test_a_paused_engine_loses_its_requests_to_another(text):
    one, other = stand_ins = [StandIn(text), StandIn(text)]
    async with remote_over(text, one, other) as remote:
        await remote.all_ready()
        lookup = await remote.grammar(tools=TOOLS[:1])
        for stand_in in stand_ins:
            stand_in.writes, stand_in.num_faults = dict.fromkeys(range(15, 300), "stall"), 1
        request = remote.request(lookup)
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
        await remote.all_ready()


async def test_while_the_store_fails_engines_are_asked_for_what_they_may_remember_and_for_nothing_else(text):
    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:
        known, unknown = await remote.grammar(), await remote.grammar(tools=(GUARDED,))
        await answer_of(remote, remote.request(known))

        async def publish(recipe, client_id):
            raise StoreUnavailable("of tests", "told to fail")

        remote.grammars.publish = publish
        for fault in ("die", None):  # a failure makes it look again
            stand_in.writes, stand_in.num_faults = {8: fault}, 1
            await answer_of(remote, remote.request(known))
        num_asked = len(stand_in.requests)
        for _ in range(5):
            with pytest.raises(GrammarNotStored, match="the store does not take it"):
                await events_of(remote, remote.request(unknown))
        assert len(stand_in.requests) == num_asked
        assert (await remote.runtime.health()).is_ready


async def test_what_is_verified_while_its_engine_is_found_dead_reaches_the_client(text, monkeypatch):
    """Else the client would read an answer with a hole, after which another engine went on."""
    take, entered, may_go_on = VerifiedOutput.take, [], threading.Event()

    def held_once(self, tokens, **options):
        events = take(self, tokens, **options)
        is_in_thread = threading.current_thread() is not threading.main_thread()
        if is_in_thread and not entered and any(isinstance(event, ArgumentsDelta) for event in events):
            entered.append(self)
            assert may_go_on.wait(20)
        return events

    monkeypatch.setattr(VerifiedOutput, "take", held_once)
    monkeypatch.setattr(verified_output, "SLOW_S", -1.0)
    async with remote_over(text, StandIn(text), StandIn(text)) as remote:
        await remote.all_ready()
        request = remote.request(await remote.grammar(parallel=False), max_tokens=200)
        answer = asyncio.create_task(events_of(remote, request))
        await until(lambda: entered)
        busy = next(replica for replica in remote.runtime._replicas if replica.num_running)
        busy.mark_dead("was found dead")
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


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_engines_do_answers_are_valid_or_errors_that_name_them(text, seed):
    rng = random.Random(seed)
    stand_ins = [StandIn(text), StandIn(text)]
    async with remote_over(text, *stand_ins) as remote:
        await remote.all_ready()
        lookup = await remote.grammar("required")
        num_answered, errors = 0, []
        for _ in range(12):
            for stand_in in stand_ins:
                kinds = ["die", "garbage", "error", "empty", "stop", "length", 3, 10**7, forbidden(text)]
                stand_in.writes = {rng.randrange(60): rng.choice(kinds) for _ in range(rng.randrange(4))}
            request = remote.request(lookup, max_tokens=rng.randrange(30, 120), num_choices=2)
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


async def test_why_an_engine_is_dead_is_told_once(text, caplog):
    """Its answers are ended for that reason, and are no further failures that have a reason of their own."""
    stand_in = StandIn(text, end_bias=-50)
    async with remote_over(text, stand_in) as remote:
        stand_in.token_s = 0.005
        requests = [remote.request(max_tokens=3_000, client_id=f"client {number}") for number in range(4)]
        answers = [asyncio.create_task(events_of(remote, request)) for request in requests]
        await until(lambda: all(request.times.decode_ns for request in requests))
        stand_in.is_healthy = False
        await asyncio.gather(*answers, return_exceptions=True)
        health = await remote.runtime.health()
        assert "not healthy" in health.reason
        assert health.engines[0].num_failed == len(requests)
        [told] = [message for message in caplog.messages if "takes no requests" in message]
        assert "not healthy" in told


async def test_closing_tells_every_answer_before_it_waits_for_one(text, monkeypatch):
    """Else one that waits for its thread would hold up the others, until the server cut them off without an error."""
    stop, stopping, may_stop = _Answer.stop, set(), asyncio.Event()

    async def stop_later(self):
        stopping.add(self)
        await may_stop.wait()
        await stop(self)

    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:
        stand_in.writes = dict.fromkeys(range(300), "stall")
        answers = [asyncio.create_task(events_of(remote, remote.request())) for _ in range(3)]
        await until(lambda: stand_in.num_running == 3)
        monkeypatch.setattr(_Answer, "stop", stop_later)
        closing = asyncio.create_task(remote.runtime.close())
        try:
            await asyncio.wait_for(until(lambda: len(stopping) == 3), 10)
        finally:
            may_stop.set()
        await closing
        assert {type(error) for error in await asyncio.gather(*answers, return_exceptions=True)} == {
            EngineStopped
        }


async def test_a_request_whose_prompt_is_rendered_while_the_runtime_closes_is_told_so(text, caplog):
    """And so is a request that comes later, of whose threads none is left."""
    async with remote_over(text) as remote:
        lookup = await remote.grammar()
        rendering = asyncio.create_task(events_of(remote, remote.request(lookup)))
        await asyncio.sleep(0)
        await remote.runtime.close()
        with pytest.raises(EngineStopped):
            await rendering
        with pytest.raises(EngineStopped):
            await events_of(remote, remote.request(lookup))
        with pytest.raises(EngineStopped):
            await remote.runtime.prompt_ids(remote.request(lookup))
    assert "failed" not in caplog.text


@pytest.mark.parametrize("num_turns", range(6))
async def test_a_canary_that_fails_while_it_is_stopped_is_stopped(text, num_turns):
    """A group of tasks would forget it, and its watch go on for ever behind a gateway that closes."""
    fails = asyncio.Event()

    class Failing:
        name = "an engine"
        repeats_prompts = True
        has_unmasked_logprobs = False

        @asynccontextmanager
        async def completion(self, body):
            await fails.wait()
            raise EngineBroke(self.name, "broke off")
            yield

    grammars = GrammarCache(None, secret=SECRET)
    sent = MarkedGrammars(SECRET, TokenBytes(text.vocabulary), PublishedGrammars())
    sent.start(grammars)
    canary = Canary(text, grammars, sent, SECRET)
    checking = asyncio.create_task(canary.check(Failing(), ServedModel("m", None)))
    await until(lambda: len(asyncio.all_tasks()) > 3)
    fails.set()
    for _ in range(num_turns):
        await asyncio.sleep(0)
    is_stopped = checking.cancel()
    await asyncio.wait([checking])
    assert checking.cancelled() == is_stopped
    await grammars.close()
