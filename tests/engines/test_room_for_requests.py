"""What becomes of requests that full engines refuse: another engine, a 429, or waiting in turns."""

import asyncio
import threading
import time
from contextlib import aclosing
from dataclasses import dataclass, field

import pytest
from completions_server import StandIn, is_canary
from generate_server import SglangStandIn
from pluginless_servers import StockStandIn
from remote_engines import (
    WATCH,
    answer_of,
    assert_valid,
    events_of,
    remote_over,
    tokens_of,
    transport_of,
    until,
    until_text,
)

from runtime.engines.client import EngineAddress
from runtime.engines.completion_request import CompletionRequestBuilder
from runtime.engines.vllm_client import VllmClient
from runtime.errors import EngineFull, NoEngine
from runtime.selection import DRAFT, Selection

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
    """It has room for one request at a time, and takes `prefill_s` for a prompt."""

    num_admitted: int = 0
    prefill_s: float = 0.0

    async def complete(self, body, receive, send):
        self.status = 503 if self.num_admitted and not is_canary(body) else 200
        self.num_admitted += 1
        try:
            await super().complete(body, receive, send)
        finally:
            self.num_admitted -= 1

    def tokens(self, body):
        time.sleep(self.prefill_s)
        return super().tokens(body)


async def test_choices_that_find_no_room_wait_for_the_others(text):
    """They ended the request, also if others of its choices were half written."""
    async with remote_over(text, RoomForOne(text, token_s=0.005)) as remote:
        request = remote.request(await remote.grammar(), num_choices=3)
        assert_valid(await events_of(remote, request), request)


async def test_choices_wait_for_as_long_as_others_find_room(text, monkeypatch):
    """The last of many choices waited longer than any may, although the engine took one after another."""
    monkeypatch.setattr("runtime.engines.tries.MAX_WAIT_S", 3.0)
    async with remote_over(text, RoomForOne(text, token_s=0.01, end_bias=-50)) as remote:
        request = remote.request(num_choices=5, max_tokens=60)
        assert_valid(await events_of(remote, request), request)


async def test_choices_that_are_drafted_wait_for_each_other(text):
    """Each was refused for want of room like a request of its own, and so was the answer."""
    async with remote_over(text, RoomForOne(text, prefill_s=0.3)) as remote:
        request = remote.request(await remote.grammar(), num_choices=3, selection=DRAFT)
        assert_valid(await events_of(remote, request), request)


@pytest.mark.parametrize("selection", [Selection(), DRAFT], ids=["plain", "drafted"])
async def test_a_request_is_refused_if_no_choice_finds_room(text, selection):
    stand_in = StandIn(text)
    async with remote_over(text, stand_in) as remote:
        request = remote.request(await remote.grammar(), num_choices=3, selection=selection)
        stand_in.status = 503
        async with asyncio.timeout(0.9):
            with pytest.raises(EngineFull):
                await events_of(remote, request)


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


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("7", 7), ("0", 1), ("86400", 60), ("", 1), ("-3", 1), ("Sun, 29 Nov 2026 12:00:00 GMT", 1)],
)
async def test_clients_are_told_to_try_again_when_the_engine_says_but_within_a_minute(told, seconds):
    transport = transport_of(b"{}", status=429, **{"Retry-After": told})
    with pytest.raises(EngineFull) as refused:
        await tokens_of(VllmClient(EngineAddress("http://engine"), transport=transport))
    assert refused.value.retry_after_s == seconds
