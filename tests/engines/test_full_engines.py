"""Engines that are full stay in use, whether requests wait in their queue or are refused for want of room."""

import asyncio
import threading
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice

import pytest
from completions_server import StandIn, answer, is_canary
from generate_server import SglangStandIn
from pluginless_servers import StockStandIn
from remote_engines import (
    SETTINGS,
    TOOLS,
    WATCH,
    answer_of,
    assert_valid,
    events_of,
    forbidden,
    remote_over,
    tokens_of,
    transport_of,
    until,
)

from runtime.engines.client import EngineAddress
from runtime.engines.completion_request import CompletionRequestBuilder
from runtime.engines.vllm_client import VllmClient
from runtime.errors import EngineFault, EngineFull, NoEngine
from runtime.events import TextDelta
from runtime.selection import DRAFT

FEW = 5


@dataclass
class FullStandIn(StandIn):
    """While it `is_full`, canaries and requests for few tokens wait in its queue."""

    is_full: bool = False
    num_waited: int = 0

    def must_wait(self, body):
        return is_canary(body) or body["max_tokens"] <= FEW

    async def complete(self, body, receive, send):
        if self.is_full and self.must_wait(body):
            self.num_waited += 1
            while self.is_full:
                await asyncio.sleep(0.01)
        await super().complete(body, receive, send)


class StuckStandIn(FullStandIn):
    """While it `is_full`, no request with a grammar begins; all others do."""

    def must_wait(self, body):
        return self.grammar_in(body) is not None


@pytest.fixture
def short_canary(monkeypatch):
    monkeypatch.setattr("runtime.engines.canary.TIMEOUT_S", 1.0)
    monkeypatch.setattr("runtime.engines.canary.CALL_S", 0.3)


async def health_while_it_writes(remote, stand_in, request, is_enough):
    """The health after an answer has been read until it is enough, while canaries wait."""
    stand_in.is_full, stand_in.token_s = True, 0.005
    async with aclosing(remote.runtime.generate(request)) as events:
        async for _ in events:
            if is_enough(health := await remote.runtime.health()):
                return health
    raise AssertionError("the answer ended before that")


async def test_an_engine_that_is_only_full_keeps_its_requests(text, short_canary):
    """A llama-server with a queue of a minute was used by nobody for as long, and cut its answers off."""
    stand_in = FullStandIn(text, end_bias=-50)
    often = replace(SETTINGS, watch=replace(WATCH, canary_s=0.1))
    async with remote_over(text, stand_in, settings=often) as remote:
        long = remote.request(max_tokens=3_000)
        health = await health_while_it_writes(
            remote, stand_in, long, lambda health: not health.is_ready or stand_in.num_waited >= 6
        )
        assert health.is_ready, health.reason
        idle = await remote.settled(lambda health: not health.is_ready)
        assert "did not finish the canary" in idle.reason


async def test_an_engine_where_grammars_are_stuck_is_not_excused_for_being_full(text, short_canary):
    """Requests without a grammar, for which it goes on to write, would keep it in use for ever."""
    stand_in = StuckStandIn(text, end_bias=-50)
    often = replace(SETTINGS, watch=replace(WATCH, canary_s=0.1))
    async with remote_over(text, stand_in, settings=often) as remote:
        plain = remote.request(max_tokens=3_000)
        health = await health_while_it_writes(remote, stand_in, plain, lambda health: not health.is_ready)
        assert "began no answer with one" in health.reason


async def test_requests_that_wait_for_long_in_a_full_engine_leave_it_in_use(text):
    """Three in a row, of several clients, would open its circuit if nothing were written meanwhile."""
    stand_in = FullStandIn(text, end_bias=-50)
    impatient = replace(SETTINGS, watch=replace(WATCH, stall_s=0.4, probe_s=1))

    async def waiting_is_given_up():
        for client_id in ("one", "other"):
            with pytest.raises(EngineFault, match="stopped answering"):
                await events_of(remote, remote.request(max_tokens=FEW, client_id=client_id))

    async with remote_over(text, stand_in, settings=impatient) as remote:
        stand_in.is_full, stand_in.token_s = True, 0.005
        async with aclosing(remote.runtime.generate(remote.request(max_tokens=3_000))) as events:
            waiting = asyncio.create_task(waiting_is_given_up())
            async for _ in events:
                if waiting.done():
                    break
        await waiting
        [engine] = (await remote.runtime.health()).engines
        assert (engine.circuit, engine.num_failed) == ("closed", 4)
        while (await remote.runtime.health()).is_ready:
            await waiting_is_given_up()


@dataclass
class PartlyHung(FullStandIn):
    """While it `is_full`, what must wait hangs after `num_written` tokens."""

    num_written: int = 0

    async def complete(self, body, receive, send):
        await StandIn.complete(self, body, receive, send)

    def sampled(self, body, matcher, num_before):
        tokens = super().sampled(body, matcher, num_before)
        hangs = self.is_full and self.must_wait(body)
        return chain(islice(tokens, self.num_written), [("stall", None)]) if hangs else tokens


@pytest.mark.parametrize("num_written", [0, 2])
async def test_an_engine_of_which_a_part_hangs_is_not_taken_for_full(text, short_canary, num_written):
    """Others of its workers go on writing, so that nothing opened its circuit, and each of these answers stalled."""
    stand_in = PartlyHung(text, end_bias=-50, num_written=num_written)
    impatient = replace(SETTINGS, watch=replace(WATCH, stall_s=1, probe_s=1))
    async with remote_over(text, stand_in, settings=impatient) as remote:
        stand_in.is_full = True

        async def answers(max_tokens):
            while True:
                with suppress(EngineFault):
                    await events_of(remote, remote.request(max_tokens=max_tokens))

        clients = [asyncio.create_task(answers(max_tokens)) for max_tokens in (FEW, 2 * FEW)]
        health = await remote.settled(lambda health: not health.is_ready)
        assert "did not finish the canary" in health.reason
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        stand_in.is_full = False
        await remote.ready()


async def test_a_full_engine_that_dies_is_noticed_before_its_canary_ends(text):
    stand_in = FullStandIn(text)
    async with remote_over(
        text, stand_in, settings=replace(SETTINGS, watch=replace(WATCH, canary_s=0.1))
    ) as remote:
        stand_in.is_full = True
        await until(lambda: stand_in.num_waited)
        stand_in.is_healthy = False
        health = await remote.settled(lambda health: not health.is_ready)
        assert "not healthy" in health.reason


async def test_an_engine_that_refused_tokens_is_not_excused_for_being_full(text, short_canary):
    stand_in = FullStandIn(text, end_bias=-50)
    settings = replace(SETTINGS, jump_forward=False, watch=replace(WATCH, probe_s=0.01))
    async with remote_over(text, stand_in, settings=settings) as remote:
        lookup = await remote.grammar(tools=TOOLS[:1])
        stand_in.writes, stand_in.num_faults = {12: forbidden(text)}, 1
        long = remote.request(lookup, max_tokens=3_000)
        health = await health_while_it_writes(remote, stand_in, long, lambda health: not health.is_ready)
        assert "did not finish the canary in 1 s: perhaps it is full" in health.reason
        assert health.reason.endswith("it says it computes: 1")


async def until_text(events):
    async for event in events:
        if isinstance(event, TextDelta):
            return


REFUSING = [(StandIn, 503), (StandIn, 429), (SglangStandIn, 503)]


def refusing(test):
    """Each way in which engines, or proxies before them, say that they have no room."""
    ids = [f"{kind.kind} {status}" for kind, status in REFUSING]
    return pytest.mark.parametrize(("kind", "status"), REFUSING, ids=ids)(test)


@refusing
async def test_what_a_full_engine_refuses_is_refused_and_the_engine_stays_in_use(text, kind, status):
    """While it writes for others. If it writes for nobody, three refusals in a row end its use."""
    stand_in = kind(text, end_bias=-50)

    async def all_are_refused():
        for client_id in ("one", "other", "third"):
            with pytest.raises(EngineFull, match="has no room for the request: told to fail") as refused:
                await events_of(remote, remote.request(client_id=client_id))
            assert refused.value.retry_after_s == 1

    async with remote_over(text, stand_in) as remote:
        stand_in.token_s = 0.005
        async with aclosing(remote.runtime.generate(remote.request(max_tokens=3_000))) as events:
            await until_text(events)
            stand_in.status = status
            refused = asyncio.create_task(all_are_refused())
            async for _ in events:
                if refused.done():
                    break
        await refused
        assert (await remote.runtime.health()).is_ready
        await asyncio.sleep(WATCH.probe_s)
        await all_are_refused()
        health = await remote.settled(lambda health: not health.is_ready)
        assert "has no room" in health.reason


async def test_a_request_goes_to_whichever_engine_has_room(text):
    """Also if it is the last of three."""
    stand_ins = [StandIn(text, end_bias=-20) for _ in range(3)]
    async with remote_over(text, *stand_ins) as remote:
        await remote.all_ready()
        for free in stand_ins:
            for stand_in in stand_ins:
                stand_in.status = 200 if stand_in is free else 503
            calls, _ = await answer_of(remote, remote.request(await remote.grammar()))
            assert calls
        for stand_in in stand_ins:
            stand_in.status = 503
        with pytest.raises(EngineFull):
            await events_of(remote, remote.request(await remote.grammar()))


@dataclass
class FullForAWhile(StockStandIn):
    """It refuses `num_refusals` requests after the first one of an answer."""

    num_refusals: int = 0

    async def complete(self, body, receive, send):
        is_first = len(self.requests) == 0
        self.status = 503 if not is_first and self.num_refusals > 0 else 200
        self.num_refusals -= self.status != 200
        await super().complete(body, receive, send)


async def test_an_answer_that_has_begun_waits_for_room(text, monkeypatch):
    """Without the plugin, a call takes two requests: its header, and then the rest.

    A request that was not taken is none that brought no token: after some of these the closer ends an answer.
    """
    monkeypatch.setattr("runtime.engines.output_writer.MAX_IDLE", 0)
    stand_in = FullForAWhile(text)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar(parallel=False)
        stand_in.bodies.clear()
        stand_in.num_refusals = 2
        calls, end = await answer_of(remote, remote.request(lookup, temperature=0.0))
        assert len(calls) == 1
        assert (end.stats.num_refused_tokens, end.closed_by) == (0, None)
        assert stand_in.num_refusals == 0
        stand_in.bodies.clear()
        stand_in.num_refusals = 3
        monkeypatch.setattr("runtime.engines.tries.MAX_WAIT_S", 1.0)
        with pytest.raises(EngineFull):
            await answer_of(remote, remote.request(lookup, temperature=0.0))


@dataclass
class FullForGrammars(StandIn):
    """It refuses `num_refusals` requests with a grammar."""

    num_refusals: int = 0

    async def complete(self, body, receive, send):
        self.status = 503 if self.grammar_in(body) and self.num_refusals > 0 else 200
        self.num_refusals -= self.status != 200
        await super().complete(body, receive, send)


async def test_an_answer_waits_for_room_behind_its_drafts(text):
    """Each draft is a request of its own. One that found no room ended the answer, whatever others had cost."""
    stand_in = FullForGrammars(text)
    async with remote_over(text, stand_in) as remote:
        request = remote.request(await remote.grammar(), temperature=0.0, selection=DRAFT, num_choices=2)
        stand_in.num_refusals = 3
        ends = assert_valid(await events_of(remote, request), request)
        assert [end.stats.selection.num_draws for end in ends] == [2, 2]
        assert stand_in.num_refusals == 0


@dataclass
class ClosedBehindHeaders(StockStandIn):
    """While it `is_full`, it refuses all but the first request of an answer; it notes who is not refused."""

    is_full: bool = True
    num_refused: int = 0
    admitted: list = field(default_factory=list)

    async def complete(self, body, receive, send):
        is_first = body["prompt"] == self.requests[0]["prompt"] if self.requests else True
        is_refused = self.is_full and not is_first and not is_canary(body)
        self.status = 503 if is_refused else 200
        self.num_refused += is_refused
        if not is_first:
            self.admitted += [] if is_refused else [body["cache_salt"]]
        await super().complete(body, receive, send)


async def test_answers_that_wait_for_room_take_turns_and_so_do_their_clients(text):
    """One of them asks a full engine again. The others follow when it is taken, and not a second later."""
    stand_in = ClosedBehindHeaders(text)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar(parallel=False)
        stand_in.bodies.clear()
        waiting = []
        for num_waiting, client_id in enumerate(("heavy", "heavy", "heavy", "light"), start=1):
            request = remote.request(lookup, temperature=0.0, client_id=client_id)
            waiting.append(asyncio.create_task(answer_of(remote, request)))
            await until(lambda num=num_waiting: stand_in.num_refused >= num)
        num_refused = stand_in.num_refused
        await until(lambda: stand_in.num_refused > num_refused)
        await asyncio.sleep(0.5)
        assert stand_in.num_refused == num_refused + 1
        stand_in.is_full = False
        for calls, end in await asyncio.gather(*waiting):
            assert (len(calls), end.closed_by) == (1, None)
        heavy, *_, last = stand_in.admitted
        assert [salt == heavy for salt in stand_in.admitted] == [True, True, False, True]
        assert last == heavy


async def test_who_prepares_its_request_does_not_keep_others_from_asking(text, monkeypatch):
    """That needs a thread, for which an answer may have to wait behind slow grammars of its own client."""
    goes_on, build = threading.Event(), CompletionRequestBuilder.build

    def built(self, model_id, output, grammar):
        if not stand_in.is_full and output.request.client_id == "heavy":
            goes_on.wait()
        return build(self, model_id, output, grammar)

    monkeypatch.setattr(CompletionRequestBuilder, "build", built)
    stand_in = ClosedBehindHeaders(text)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar(parallel=False)
        stand_in.bodies.clear()
        waiting = {}
        for num_waiting, client_id in enumerate(("heavy", "light"), start=1):
            request = remote.request(lookup, temperature=0.0, client_id=client_id)
            waiting[client_id] = asyncio.create_task(answer_of(remote, request))
            await until(lambda num=num_waiting: stand_in.num_refused >= num)
        stand_in.is_full = False
        done, _ = await asyncio.wait(waiting.values(), timeout=10, return_when=asyncio.FIRST_COMPLETED)
        goes_on.set()
        assert done == {waiting["light"]}
        await waiting["heavy"]


@dataclass
class LimitsTheFirst(StockStandIn):
    """The engine that is asked first has room for one request only, and the other one refuses one."""

    asked: list = field(default_factory=list)

    async def complete(self, body, receive, send):
        self.status = 200
        if not is_canary(body):
            is_first = not self.asked
            self.asked.append(self)
            has_room = is_first if self.asked[0] is self else self.asked.count(self) > 1
            self.status, self.retry_after = (200 if has_room else 429), "30" if self.asked[0] is self else "1"
        await super().complete(body, receive, send)


async def test_an_answer_waits_for_the_engine_that_may_be_asked_first(text):
    """It waited for as long as the engine said that it would have chosen, although another one had room."""
    asked = []
    stand_ins = [LimitsTheFirst(text, asked=asked) for _ in range(2)]
    async with remote_over(text, *stand_ins) as remote:
        await remote.all_ready()
        request = remote.request(await remote.grammar(parallel=False), temperature=0.0)
        async with asyncio.timeout(10):
            calls, _ = await answer_of(remote, request)
        assert len(calls) == 1


@dataclass
class RoomForOne(StandIn):
    """It has room for one request at a time."""

    num_admitted: int = 0

    async def complete(self, body, receive, send):
        self.status = 503 if self.num_admitted and not is_canary(body) else 200
        self.num_admitted += 1
        try:
            await super().complete(body, receive, send)
        finally:
            self.num_admitted -= 1


async def test_choices_that_find_no_room_wait_for_the_others(text):
    """They ended the request, also if others of its choices were half written."""
    async with remote_over(text, RoomForOne(text, token_s=0.005)) as remote:
        request = remote.request(await remote.grammar(), num_choices=3)
        assert_valid(await events_of(remote, request), request)


async def test_a_request_is_refused_if_no_choice_finds_room(text):
    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:
        stand_in.status = 503
        async with asyncio.timeout(0.9):
            with pytest.raises(EngineFull):
                await events_of(remote, remote.request(num_choices=3))


async def test_an_engine_that_dies_while_an_answer_waits_for_its_room_is_not_asked(text):
    stand_in = FullForAWhile(text)
    async with remote_over(text, stand_in) as remote:
        lookup = await remote.grammar(parallel=False)
        stand_in.bodies.clear()
        stand_in.num_refusals = 1
        waiting = asyncio.create_task(answer_of(remote, remote.request(lookup, temperature=0.0)))
        await until(lambda: stand_in.num_refusals == 0)
        stand_in.is_healthy = False
        with pytest.raises(NoEngine, match="not healthy"):
            await waiting
        assert len(stand_in.requests) == 2


@dataclass
class LittleRoom(StandIn):
    """It has room for one request at a time and, while it `is_full`, for none with a grammar."""

    is_full: bool = True
    num_admitted: int = 0

    async def complete(self, body, receive, send):
        self.status = 503 if self.num_admitted or (self.is_full and self.grammar_in(body)) else 200
        self.num_admitted += 1
        try:
            await super().complete(body, receive, send)
        finally:
            self.num_admitted -= 1


async def test_a_canary_waits_for_room_with_each_of_its_requests(text, monkeypatch):
    """A gateway that starts before a full engine would else never use it, as the three never find room at once."""
    monkeypatch.setattr("runtime.engines.canary.CALL_S", 1.5)
    stand_in = LittleRoom(text)
    async with remote_over(text, stand_in, wait=False) as remote:
        await until(lambda: any(not stand_in.grammar_in(body) for body in stand_in.bodies))
        await asyncio.sleep(2)
        assert "not been checked" in (await remote.runtime.health()).reason
        stand_in.is_full = False
        await remote.ready()


@dataclass
class AtItsLimit(StandIn):
    """While it `is_at_limit`, a proxy before it refuses everything; what has begun goes on."""

    is_at_limit: bool = False
    num_refused: int = 0

    async def respond(self, scope, receive, send):
        if self.is_at_limit:
            self.num_refused += 1
            await answer(send, {"error": "too many requests"}, 429)
        else:
            await super().respond(scope, receive, send)


@pytest.mark.parametrize("canary_s", [300, 0.1])
async def test_a_proxy_that_limits_rates_does_not_end_what_runs_behind_it(text, canary_s):
    """What it refuses, such as a question for the engine's health or models, says nothing about the engine."""
    stand_in = AtItsLimit(text, end_bias=-50)
    often = replace(SETTINGS, watch=replace(WATCH, canary_s=canary_s))
    async with remote_over(text, stand_in, settings=often) as remote:
        stand_in.token_s = 0.005
        async with aclosing(remote.runtime.generate(remote.request(max_tokens=3_000))) as events:
            await until_text(events)
            stand_in.is_at_limit = True
            async for _ in events:
                if stand_in.num_refused >= 5:
                    break
        assert (await remote.runtime.health()).is_ready


@dataclass
class LimitsRates(StandIn):
    """It refuses the first two requests with a grammar, and says when to come again."""

    num_refusals: int = 2

    async def complete(self, body, receive, send):
        self.status = 429 if self.num_refusals > 0 and self.grammar_in(body) else 200
        self.num_refusals -= self.status != 200
        await super().complete(body, receive, send)


async def test_a_canary_that_comes_when_it_is_told_to_is_not_late(text, monkeypatch):
    """Else a proxy that says `Retry-After: 60` would have each of its engines taken for one where grammars are stuck."""
    monkeypatch.setattr("runtime.engines.canary.CALL_S", 0.5)
    stand_in = LimitsRates(text, retry_after="2")
    async with remote_over(text, stand_in, wait=False) as remote:
        await until(lambda: stand_in.num_refusals == 0)
        reasons = set()
        while not (health := await remote.runtime.health()).is_ready:
            reasons.add(health.reason)
            await asyncio.sleep(0.05)
        assert not any("began no answer" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("7", 7), ("0", 1), ("86400", 60), ("", 1), ("-3", 1), ("Sun, 29 Nov 2026 12:00:00 GMT", 1)],
)
async def test_clients_are_told_to_try_again_when_the_engine_says_but_within_a_minute(told, seconds):
    transport = transport_of(b"{}", status=429, **{"Retry-After": told})
    with pytest.raises(EngineFull) as refused:
        await tokens_of(VllmClient(EngineAddress("http://engine"), transport=transport))
    assert refused.value.retry_after_s == seconds
