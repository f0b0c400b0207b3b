"""The compile budget: how much compiling one request may ask for."""

import asyncio
from types import SimpleNamespace

import pytest
from grammar_caches import PREPARED, SECRET, Counting, find, tool

from compiler.cache.grammar_cache import GrammarCache
from compiler.errors import CompilingUnfinished, LimitReached, UnsupportedToolset
from compiler.isolation.limits import CompileLimits
from compiler.isolation.pools import ThreadPool


async def test_one_request_tries_few_hopeless_schemas():
    class TooSlow(Counting):
        async def run(self, job, prepared, *, is_long=True, client_id=""):
            self.jobs.append(job)
            raise LimitReached("", "", "takes long")

    compile_pool = TooSlow()
    tools = [tool(f"t{i}", **{f"p{i}": {}}) for i in range(50)]
    with pytest.raises(UnsupportedToolset) as refused:
        await find(GrammarCache(None, secret=SECRET, compile_pool=compile_pool), tools)
    assert len(refused.value.refusals) == 50
    assert len(compile_pool.jobs) < 10


class Slow(Counting):
    """Every job takes seconds of `clock`, and `request_seconds` is short."""

    def __init__(self, clock, num_seconds):
        super().__init__()
        self.limits = CompileLimits(request_seconds=num_seconds)
        self.clock = clock

    async def run(self, job, prepared, *, is_long=True, client_id=""):
        self.clock.now += 1
        return await super().run(job, prepared, is_long=is_long, client_id=client_id)


@pytest.fixture
def clock(monkeypatch):
    """The clock of compile budgets; it only moves when a test moves it."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("compiler.isolation.limits.time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


async def test_a_request_compiles_no_longer_than_it_may_and_goes_on_when_sent_again(clock):
    compile_pool = Slow(clock, 3.5)
    cache = GrammarCache(None, secret=SECRET, compile_pool=compile_pool)
    tools = [tool(f"t{i}", **{f"p{i}": {}}) for i in range(10)]
    num_left = []
    for _ in range(2):
        with pytest.raises(CompilingUnfinished, match="Send it again") as unfinished:
            await find(cache, tools)
        assert {tool.name for tool in tools} > set(unfinished.value.tools)
        num_left.append(len(unfinished.value.tools))
    assert num_left == [6, 2]
    assert (await find(cache, tools)).source == "compiled"
    assert len(compile_pool.jobs) == len(tools)


async def test_refusals_are_told_with_what_was_not_reached(clock):
    cache = GrammarCache(None, secret=SECRET, compile_pool=Slow(clock, 0.5))
    bad = tool("bad", p={"pattern": "(?<=a)b"})
    with pytest.raises(UnsupportedToolset) as refused:
        await find(cache, [bad, tool("late")])
    assert [(name, "not reached" in error.reason) for name, error in refused.value.refusals] == [
        ("bad", False),
        ("late", True),
    ]


async def test_a_request_is_not_refused_because_another_ones_time_is_over(clock):
    """Both requests want the same tool; the time of the first one, which was to compile it, is over."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    class Blocked(Slow):
        async def run(self, job, prepared, *, is_long=True, client_id=""):
            begun.set()
            await go_on.wait()
            return await ThreadPool.run(self, job, prepared, is_long=is_long, client_id=client_id)

    cache = GrammarCache(None, secret=SECRET, compile_pool=Blocked(clock, 0.5))
    first = asyncio.create_task(find(cache, [tool("a"), tool("b", p={})]))
    await begun.wait()
    clock.now = 1.0
    second = asyncio.create_task(find(cache, [tool("b", p={})]))
    await asyncio.sleep(0.05)
    go_on.set()
    with pytest.raises(CompilingUnfinished):
        await first
    assert (await second).source == "compiled"


async def test_nothing_is_compared_when_a_requests_time_is_over(clock):
    compile_pool = Slow(clock, 1.0)
    cache = GrammarCache(None, secret=SECRET, compile_pool=compile_pool)
    budget = cache.compile_budget()
    assert await cache.covers(tool("t"), tool("t"), prepared=PREPARED, budget=budget)
    clock.now += 1
    assert not await cache.covers(tool("t", b={}), tool("t"), prepared=PREPARED, budget=budget)
    assert len(compile_pool.jobs) == 1


async def test_what_was_compared_is_not_compared_again(clock):
    """A hundred requests for the same toolset do not use up the time of each other."""
    compile_pool = Slow(clock, 4.5)
    cache = GrammarCache(None, secret=SECRET, compile_pool=compile_pool)
    budgets = [cache.compile_budget() for _ in range(100)]
    number, whole = tool("t", a={"type": "number"}), tool("t", a={"type": "integer"})
    for budget in budgets:
        assert await cache.covers(number, whole, prepared=PREPARED, budget=budget)
        assert not await cache.covers(whole, number, prepared=PREPARED, budget=budget)
    assert len(compile_pool.jobs) == 2


async def test_what_is_asked_many_times_at_once_is_compared_once():
    compile_pool = Counting()
    cache = GrammarCache(None, secret=SECRET, compile_pool=compile_pool)
    number, whole, prepared = tool("t", a={"type": "number"}), tool("t"), PREPARED
    budget = cache.compile_budget()
    compared = (cache.covers(number, whole, prepared=prepared, budget=budget) for _ in range(20))
    assert all(await asyncio.gather(*compared))
    assert len(compile_pool.jobs) == 1


async def test_what_takes_too_long_to_compare_is_not_contained():
    class TooSlow(ThreadPool):
        async def run(self, job, prepared, *, is_long=True, client_id=""):
            raise LimitReached("", "", "takes long")

    whole, number = (tool("t", a={"type": kind}) for kind in ("integer", "number"))
    cache = GrammarCache(None, secret=SECRET)
    budget = cache.compile_budget()
    assert await cache.covers(number, whole, prepared=PREPARED, budget=budget)
    assert not await cache.covers(whole, number, prepared=PREPARED, budget=budget)
    too_slow = GrammarCache(None, secret=SECRET, compile_pool=TooSlow())
    assert not await too_slow.covers(number, whole, prepared=PREPARED, budget=budget)
