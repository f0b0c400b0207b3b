"""Compiling is fair between clients: in what order jobs get workers, by a clock that the test moves."""

import asyncio
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from compiler.cache import single_flight
from compiler.cache.grammar_cache import GrammarCache
from compiler.cache.single_flight import REFUSAL_LIFETIME_S
from compiler.errors import (
    CompilerOverloaded,
    LimitReached,
    TakesLonger,
    TooManyCompilations,
    UnsupportedToolset,
)
from compiler.isolation.compile_queue import CompileQueue
from compiler.isolation.limits import CompileLimits
from compiler.isolation.pools import ThreadPool
from compiler.prepared_vocabulary import prepare
from compiler.vocabulary import Vocabulary
from toolspecs.tool import ChoiceMode, Tool, ToolChoice

LIMITS = CompileLimits(seconds=3.0, first_seconds=0.5)
VOCABULARY = prepare(Vocabulary.of_bytes())


class Workers:
    """Jobs in a queue with some workers; time passes in steps of a job's first or later seconds."""

    def __init__(self, num_workers, limits=LIMITS):
        self.now = 0.0
        self.queue = CompileQueue(num_workers, limits, clock=lambda: self.now)
        self.running = []
        self.log = []
        self.tasks = {}

    def submit(self, client_id, name, *, is_long=False):
        self.tasks[name] = asyncio.create_task(self._job(client_id, name, is_long))

    async def _job(self, client_id, name, is_long):
        async with self.queue.turn(client_id) as turn:
            await self._work(name, 0.5)
            if is_long:
                await turn.lengthen()
                await self._work(f"{name} long", 3.0)

    async def _work(self, name, seconds):
        done = asyncio.get_running_loop().create_future()
        self.log.append(name)
        self.running.append((self.now + seconds, name, done))
        await done

    async def settle(self):
        for _ in range(10):
            await asyncio.sleep(0)

    async def end(self, number=1):
        """Let the next jobs end, those that end first."""
        for _ in range(number):
            await self.settle()
            self.running.sort(key=lambda job: job[0])
            self.now, _, done = self.running.pop(0)
            done.set_result(None)
            await self.settle()

    async def end_all(self):
        await self.settle()
        while self.running:
            await self.end()


async def test_a_newcomer_does_not_wait_for_jobs_that_came_before():
    workers = Workers(4)
    for number in range(12):
        workers.submit("attacker", f"bad{number}", is_long=True)
    await workers.settle()
    workers.submit("victim", "good")
    await workers.settle()
    assert workers.log == ["bad0", "bad1", "bad2", "good"]  # one worker was kept free
    await workers.end_all()


@pytest.mark.parametrize("num_attackers", [2, 5, 20])
async def test_a_newcomer_waits_for_at_most_one_job_of_each_attacker(num_attackers):
    workers = Workers(4)
    for number in range(12):
        for attacker in range(num_attackers):
            workers.submit(f"attacker{attacker}", f"bad{attacker}.{number}", is_long=True)
    await workers.end(40)
    workers.submit("victim", "good")
    num_before = len(workers.log)
    await workers.settle()
    while "good" not in workers.log:
        await workers.end()
    meanwhile = Counter(name.partition(".")[0] for name in workers.log[num_before:])
    assert max(meanwhile.values()) == 1
    await workers.end_all()


async def test_long_jobs_never_hold_all_workers():
    workers = Workers(4)
    for number in range(8):
        workers.submit(f"client{number}", f"bad{number}", is_long=True)
    for _ in range(12):
        assert sum(name.endswith("long") for _, name, _ in workers.running) <= 3
        await workers.end()
    await workers.end_all()
    assert len(workers.log) == 16


async def test_clients_with_many_and_with_few_jobs_take_turns():
    workers = Workers(1)
    for number in range(6):
        workers.submit("many", f"many{number}")
    for number in range(3):
        workers.submit("few", f"few{number}")
    await workers.end_all()
    assert workers.log[:6] == ["many0", "few0", "many1", "few1", "many2", "few2"]


async def test_a_job_that_nobody_waits_for_any_more_frees_its_place():
    workers = Workers(1, replace(LIMITS, max_waiting_per_client=2))
    for number in range(3):
        workers.submit("a", f"a{number}")
    await workers.settle()
    workers.tasks["a1"].cancel()
    workers.submit("a", "a3")
    await workers.end_all()
    assert workers.log == ["a0", "a2", "a3"]


async def test_a_job_that_is_cancelled_as_it_gets_its_worker_gives_it_back():
    queue = CompileQueue(1, LIMITS)

    async def job():
        async with queue.turn("a"):
            await asyncio.sleep(0)

    first = asyncio.create_task(job())
    second, third = asyncio.create_task(job()), asyncio.create_task(job())
    await asyncio.sleep(0)
    second.cancel()
    await first
    await asyncio.wait_for(third, 5)


async def test_one_client_may_not_have_more_jobs_wait_than_its_bound():
    workers = Workers(1, replace(LIMITS, max_waiting_per_client=2))
    for number in range(4):
        workers.submit("a", f"a{number}")
    workers.submit("b", "b0")
    await workers.settle()
    with pytest.raises(TooManyCompilations, match="2 schemas of this client wait"):
        await workers.tasks["a3"]
    await workers.end_all()
    assert sorted(workers.log) == ["a0", "a1", "a2", "b0"]


async def test_when_the_queue_is_full_the_client_with_most_jobs_gives_way():
    workers = Workers(1, replace(LIMITS, max_waiting=4, max_waiting_per_client=4))
    for number in range(5):
        workers.submit("a", f"a{number}")
    await workers.settle()
    workers.submit("b", "b0")
    await workers.settle()
    with pytest.raises(TooManyCompilations):
        await workers.tasks["a4"]
    for client_id in "cd":
        workers.submit(client_id, f"{client_id}0")
    await workers.settle()
    workers.submit("e", "e0")
    await workers.settle()
    with pytest.raises(CompilerOverloaded, match="4 schemas wait"):
        await workers.tasks["e0"]
    await workers.end_all()
    assert {"b0", "c0", "d0"} <= set(workers.log)


class Scripted(ThreadPool):
    """Counts jobs; those with the property `hopeless` take longer than any limit."""

    def __init__(self):
        super().__init__()
        self.num_workers = 4
        self.limits = LIMITS
        self.jobs = []
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def run(self, job, prepared, *, is_long=True, client_id=""):
        self.jobs.append((job.arguments[0]["properties"], is_long))
        await self.go_on.wait()
        if "hopeless" in str(job.arguments[0]):
            raise (
                LimitReached("", "", "takes longer than 3 seconds", "Shorten it.") if is_long else TakesLonger
            )
        return await super().run(job, prepared, is_long=is_long, client_id=client_id)


def tool(name):
    return Tool(name, "", {"type": "object", "properties": {name: {}}})


def find(cache, *names, client_id):
    return cache.find_toolset(
        [tool(name) for name in names],
        prepared=VOCABULARY,
        syntax="json",
        tool_choice=ToolChoice(ChoiceMode.REQUIRED),
        client_id=client_id,
    )


@pytest.fixture
async def pool():
    return Scripted()


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(single_flight, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.fixture
def cache(pool):
    return GrammarCache(None, secret=b"secret", compile_pool=pool)


async def test_a_refused_schema_is_not_compiled_again_for_some_minutes(cache, pool, clock):
    for _ in range(3):
        with pytest.raises(UnsupportedToolset, match="takes longer than 3 seconds"):
            await find(cache, "hopeless", client_id="attacker")
    assert [is_long for _, is_long in pool.jobs] == [False, True]
    with pytest.raises(UnsupportedToolset, match=f"not tried again for {REFUSAL_LIFETIME_S:.0f} s"):
        await find(cache, "hopeless", client_id="attacker")
    clock.now += REFUSAL_LIFETIME_S
    with pytest.raises(UnsupportedToolset):
        await find(cache, "hopeless", client_id="attacker")
    assert len(pool.jobs) == 4


async def test_what_one_client_was_refused_is_tried_for_another(cache, pool):
    """A refusal may come from a busy machine, so nobody's refusals decide about another client's tools."""
    with pytest.raises(UnsupportedToolset):
        await find(cache, "hopeless", client_id="attacker")
    pool.jobs.clear()
    with pytest.raises(UnsupportedToolset):
        await find(cache, "hopeless", client_id="victim")
    assert len(pool.jobs) == 2


async def test_a_tool_that_an_attacker_also_wants_is_compiled_in_the_victims_turn(cache, pool):
    """The attacker asks for many hopeless tools and then for the victim's own; the victim does not wait."""
    pool.go_on.clear()
    attack = [
        asyncio.create_task(find(cache, f"hopeless{number}", client_id="attacker")) for number in range(12)
    ]
    attack.append(asyncio.create_task(find(cache, "good", client_id="attacker")))
    await asyncio.sleep(0.05)
    num_before = len(pool.jobs)
    victim = asyncio.create_task(find(cache, "good", client_id="victim"))
    await asyncio.sleep(0.05)
    assert [list(properties) for properties, _ in pool.jobs[num_before:]] == [["good"]]
    pool.go_on.set()
    assert (await victim).source == "compiled"
    await asyncio.gather(*attack, return_exceptions=True)
    assert sum("good" in properties for properties, _ in pool.jobs) == 1  # for both of them
    await cache.close()


async def test_what_clients_want_at_once_is_compiled_once(cache, pool):
    found = await asyncio.gather(
        *(find(cache, "a", "b", client_id=f"client{number}") for number in range(20))
    )
    assert len({lookup.grammar.digest for lookup in found}) == 1
    assert len(pool.jobs) == 2


async def test_tools_that_nobody_waits_for_any_more_are_not_compiled(cache, pool):
    pool.go_on.clear()
    left = [asyncio.create_task(find(cache, f"t{number}", client_id="attacker")) for number in range(10)]
    await asyncio.sleep(0.05)
    started = len(pool.jobs)
    assert started < 10
    for request in left:
        request.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    pool.go_on.set()
    await find(cache, "late", client_id="attacker")
    assert len(pool.jobs) == started + 1
    await cache.close()


async def test_a_job_whose_client_left_holds_its_worker_until_it_ends(cache, pool):
    """Otherwise, a client that comes and goes would have more workers than its share."""
    pool.go_on.clear()
    for number in range(10):
        request = asyncio.create_task(find(cache, f"t{number}", client_id="attacker"))
        await asyncio.sleep(0.02)
        request.cancel()
    await asyncio.sleep(0.02)
    assert len(pool.jobs) == 3
    pool.go_on.set()
    await cache.close()
