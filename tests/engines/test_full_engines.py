"""Engines that are full stay in use: what health checks and canaries make of them."""

import asyncio
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from itertools import chain, islice

import pytest
from completions_server import StandIn, answer, is_canary
from remote_engines import (
    SETTINGS,
    TOOLS,
    WATCH,
    events_of,
    forbidden,
    remote_over,
    until,
    until_text,
)

from runtime.errors import EngineFault

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
