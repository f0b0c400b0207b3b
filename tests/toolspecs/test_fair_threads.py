"""Threads that clients share keep nothing of work that is done."""

import asyncio
import gc
import threading
import weakref
from contextlib import suppress
from functools import partial

import pytest

from toolspecs.errors import ThreadsStopped
from toolspecs.fairness.fair_threads import FairThreads

TIMEOUT_S = 30


class Content:
    """What work gets and what it returns."""


def passed_on(content):
    return [content]


def failing(_content):
    raise ValueError("no")


@pytest.fixture
def threads():
    found = FairThreads(2, "test")
    gc.collect()
    gc.disable()
    yield found
    gc.enable()
    found.shutdown()


def settled(threads, client_id):
    """Wait until the threads have left what they did before."""
    for _ in range(4):
        threads.submit(client_id, int).result(TIMEOUT_S)


@pytest.mark.parametrize("work", [passed_on, failing])
def test_what_work_got_and_gave_is_freed_at_once(threads, work):
    content = Content()
    seen = weakref.ref(content)
    future = threads.submit("a", partial(work, content))
    del content
    with suppress(ValueError):
        future.result(TIMEOUT_S)
    del future
    settled(threads, "a")
    assert seen() is None


@pytest.mark.parametrize("work", [passed_on, failing])
def test_what_work_got_and_gave_is_freed_once_its_task_ends(threads, work):
    async def ask(content):
        with suppress(ValueError):
            await asyncio.wrap_future(threads.submit("a", partial(work, content)))

    async def ask_and_look():
        content = Content()
        seen = weakref.ref(content)
        await ask(content)
        del content
        await asyncio.sleep(0)
        await asyncio.to_thread(settled, threads, "a")
        return seen() is None

    assert asyncio.run(ask_and_look())


def test_what_work_got_is_freed_if_it_is_cancelled_before_it_begins(threads):
    async def ask_and_leave():
        content = Content()
        seen = weakref.ref(content)
        tasks = [
            asyncio.wrap_future(threads.submit("a", partial(passed_on, content) if number else gc.get_count))
            for number in range(20)
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        del content, tasks, task
        await asyncio.sleep(0)
        await asyncio.to_thread(settled, threads, "a")
        return seen() is None

    assert asyncio.run(ask_and_leave())
    assert threads.num_of("a") == 0


def test_work_that_comes_after_the_end_is_refused_and_what_waits_is_done(threads):
    """The refusal is an error of ours, and the work does not count for its client any more."""
    begin = threading.Event()
    waiting = [threads.submit("a", begin.wait) for _ in range(4)]
    threads.shutdown()
    with pytest.raises(ThreadsStopped, match="send it to another one, or again later"):
        threads.submit("b", int)
    assert threads.num_of("b") == 0
    begin.set()
    assert [future.result(TIMEOUT_S) for future in waiting] == [True] * 4
