"""Prompts are rendered and tokenized fairly: one client's do not hold up another's, also if it leaves."""

import asyncio
import threading
import time
from concurrent.futures import wait

import pytest

from runtime.models.random_model import RandomModelSettings, ensure_random_model
from runtime.text.prompts import PromptRenderer
from runtime.text.tokenizer import load_tokenizer
from toolspecs.fairness.fair_threads import FairThreads

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
    for client_id in ("a", "b"):
        for _ in range(2):
            threads.submit(client_id, lambda: gate.wait(TIMEOUT_S))
    done = []
    futures = [threads.submit("a", lambda: done.append("a")) for _ in range(50)]
    futures.append(threads.submit("c", lambda: done.append("c")))
    gate.set()
    assert not wait(futures, TIMEOUT_S).not_done
    assert "c" in done[:10]


def test_every_task_is_done_and_tells_its_error(threads):
    futures = [threads.submit(str(i % 3), lambda i=i: i) for i in range(600)]
    assert [future.result(TIMEOUT_S) for future in futures] == list(range(600))
    failing = threads.submit("a", lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        failing.result(TIMEOUT_S)


def test_other_threads_run_while_a_text_is_tokenized(tmp_path):
    """The tokenizer's `encode` holds the interpreter's lock: 400 kB at once would stop everything for 0.7 s."""
    folder = ensure_random_model(tmp_path, RandomModelSettings(hidden_size=64, num_layers=2))
    text = load_tokenizer(folder, model_id="tiny")
    renderer = PromptRenderer(text, 10**9, max_per_client=1, num_sequences=lambda _: 0)

    def pause_and_duration():
        tokenizing = threading.Thread(target=renderer._given_token_ids, args=("a b " * 100_000,))
        longest, started = 0.0, time.perf_counter()
        last = started
        tokenizing.start()
        while tokenizing.is_alive():
            time.sleep(0.001)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
        return max(longest, time.perf_counter() - last), time.perf_counter() - started

    assert any(2 * longest < duration for longest, duration in (pause_and_duration() for _ in range(3)))
    renderer.close()
