"""Prompts are rendered and tokenized fairly: one client's do not hold up another's, also if it leaves."""

import asyncio
import threading
from concurrent.futures import wait

import pytest

from runtime.fair_threads import FairThreads

TIMEOUT_S = 30


@pytest.fixture
def threads():
    found = FairThreads(4, "test")
    yield found
    found.shutdown()


@pytest.fixture
def gate():
    opened = threading.Event()
    yield opened
    opened.set()


def test_one_client_leaves_half_of_the_threads_to_others(threads, gate):
    held = [threads.submit("heavy", lambda: gate.wait(TIMEOUT_S)) for _ in range(50)]
    assert threads.submit("light", lambda: "done").result(TIMEOUT_S) == "done"
    assert threads.num_of("heavy") == 50
    gate.set()
    assert all(future.result(TIMEOUT_S) for future in held)


def test_a_client_that_leaves_holds_its_threads_until_they_are_free(threads, gate):
    started = threading.Semaphore(0)

    def hold():
        started.release()
        gate.wait(TIMEOUT_S)

    async def ask_and_leave():
        asked = asyncio.wrap_future(threads.submit("heavy", hold))
        await asyncio.sleep(0)
        asked.cancel()

    async def flood():
        for _ in range(2):
            threads.submit("heavy", hold)
        for _ in range(2):
            await asyncio.to_thread(started.acquire, timeout=TIMEOUT_S)
        for _ in range(20):
            await ask_and_leave()

    asyncio.run(flood())
    assert threads.num_of("heavy") == 2  # what had not begun is forgotten, what has begun counts
    assert threads.submit("light", lambda: "done").result(TIMEOUT_S) == "done"


def test_clients_take_turns(threads, gate):
    for share in ("a", "b"):
        for _ in range(2):
            threads.submit(share, lambda: gate.wait(TIMEOUT_S))
    done = []
    futures = [threads.submit("a", lambda: done.append("a")) for _ in range(50)]
    futures.append(threads.submit("c", lambda: done.append("c")))
    gate.set()
    assert not wait(futures, TIMEOUT_S).not_done
    assert "c" in done[:10]


def test_all_work_is_done(threads):
    futures = [threads.submit(str(i % 3), lambda i=i: i) for i in range(600)]
    assert [future.result(TIMEOUT_S) for future in futures] == list(range(600))
    failing = threads.submit("a", lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        failing.result(TIMEOUT_S)
