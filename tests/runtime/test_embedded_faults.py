"""How requests end before their time: aborted, too late, refused, or with the engine."""

import asyncio
import dataclasses
import threading

import pytest
from embedded import SETTINGS, begun, events_of, request, settled

from runtime.errors import (
    DeadlineExceeded,
    EngineStopped,
    GenerationFailed,
    Overloaded,
    PromptTooLong,
    RequestRefused,
    UnknownModel,
)
from runtime.events import FinishReason
from runtime.request import Message
from runtime.settings import EngineSettings
from runtime.text.private_markers import PrivateMarkers
from runtime.transcript import Transcript

FEW = EngineSettings(num_pages=64, max_batch=1, max_waiting=2, num_threads=1)
"""One sequence at a time, and two that wait."""


@pytest.fixture
def write_endlessly(monkeypatch):
    """Let outputs of a runtime end only with their budgets."""

    def patch(runtime):
        monkeypatch.setattr(runtime._thread.engine.writer, "stop_ids", frozenset())
        return runtime

    return patch


async def test_what_fails_for_one_request_leaves_the_others(runtime, monkeypatch, caplog):
    add = runtime._thread.engine.add

    def fail_once(sequence):
        monkeypatch.setattr(runtime._thread.engine, "add", add)
        raise ValueError("broken at 10.0.0.7")

    monkeypatch.setattr(runtime._thread.engine, "add", fail_once)
    with pytest.raises(GenerationFailed, match="log says why") as failed:
        await events_of(runtime, request("bad"))
    assert "10.0.0.7" not in str(failed.value)
    assert "broken at 10.0.0.7" in caplog.text
    assert (await events_of(runtime, request("good")))[-1].reason in FinishReason


async def test_closing_the_iterator_aborts(runtime):
    async with begun(runtime, request(num_choices=3, max_tokens=20_000)):
        pass
    await settled(runtime)
    assert (await runtime.health()).is_ready
    assert not (await runtime.health()).is_lost


async def test_a_deadline_ends_a_request_that_runs_or_waits(make_runtime, write_endlessly):
    runtime = write_endlessly(make_runtime(dataclasses.replace(SETTINGS, max_batch=1)))
    running = request("running", max_tokens=20_000, timeout_s=0.3)
    waiting = request("waiting", max_tokens=20_000, timeout_s=0.2)
    answers = await asyncio.wait_for(
        asyncio.gather(events_of(runtime, running), events_of(runtime, waiting), return_exceptions=True), 20
    )
    assert [type(answer) for answer in answers] == [DeadlineExceeded] * 2
    await settled(runtime)
    assert (await events_of(runtime, request(timeout_s=100, max_tokens=3)))[-1].reason in FinishReason


async def test_an_output_that_cannot_be_read_fails_its_request_alone(runtime, monkeypatch):
    feed = Transcript.feed

    def explode(transcript, token):
        if transcript._choice == 1:
            raise ValueError("unreadable")
        return feed(transcript, token)

    monkeypatch.setattr(Transcript, "feed", explode)
    with pytest.raises(GenerationFailed, match="log says why"):
        await events_of(runtime, request("bad", num_choices=2))
    assert (await events_of(runtime, request("good")))[-1].reason in FinishReason
    await settled(runtime)


async def test_requests_that_cannot_be_served_are_refused(runtime):
    for asked, error in [
        (request(model="other"), UnknownModel),
        (request(messages=()), RequestRefused),
        (request(temperature=-1), RequestRefused),
        (request(messages=(Message("user", "x" * 40_000),)), PromptTooLong),
    ]:
        with pytest.raises(error):
            await events_of(runtime, asked)
    await settled(runtime)


async def test_a_full_queue_refuses_the_whole_request(make_runtime, write_endlessly):
    runtime = write_endlessly(make_runtime(FEW))
    async with begun(runtime, request("first", num_choices=2, max_tokens=900)):
        with pytest.raises(Overloaded):
            await events_of(runtime, request(num_choices=2))
    await settled(runtime)


async def test_more_choices_than_may_wait_are_refused_for_good(make_runtime):
    runtime = make_runtime(FEW)
    with pytest.raises(RequestRefused, match="n must be from 1 to 2"):
        await events_of(runtime, request(num_choices=3))


async def test_what_cannot_be_a_prompt_is_refused_before_it_is_tokenized(runtime, monkeypatch):
    def explode(seams, prompt):
        raise AssertionError(f"{len(prompt)} characters reach the tokenizer")

    monkeypatch.setattr(PrivateMarkers, "encode", explode)
    with pytest.raises(PromptTooLong, match="at least 1000000 tokens"):
        await events_of(runtime, request(messages=(Message("user", ""),) * 1_000_000))
    with pytest.raises(PromptTooLong, match="at least"):
        await events_of(runtime, request(messages=(Message("user", "word " * 1_000_000),)))


async def test_stopping_ends_what_runs_and_what_comes(make_runtime, write_endlessly):
    runtime = write_endlessly(make_runtime())
    async with begun(runtime, request(max_tokens=20_000)) as stream:
        await runtime.close()
        with pytest.raises(GenerationFailed, match="stopped"):
            [event async for event in stream]
    assert not (await runtime.health()).is_ready
    with pytest.raises(EngineStopped):
        await events_of(runtime, request())
    await runtime.close()  # once more does no harm


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("is_broken", [False, True], ids=["whole", "in pieces"])
async def test_the_death_of_the_engine_ends_every_request(make_runtime, monkeypatch, is_broken):
    """Those that run, those that wait, those not yet taken, and those that come later."""
    runtime = make_runtime(dataclasses.replace(SETTINGS, max_batch=1))
    thread = runtime._thread
    is_going, may_die = threading.Event(), threading.Event()

    def explode(*_):
        raise RuntimeError("boom")

    def explode_later(batch):
        is_going.set()
        may_die.wait(20)
        if is_broken:  # what ends a request cannot be relied on any more
            monkeypatch.setattr(thread.engine, "stop", explode)
        explode()

    monkeypatch.setattr("runtime.engine.MAX_FAILED_ALONE", 1)
    monkeypatch.setattr(thread.engine.runner, "run", explode_later)
    asked = [asyncio.create_task(events_of(runtime, request(f"r{i}"))) for i in range(3)]
    await asyncio.to_thread(is_going.wait, 20)
    asked += [asyncio.create_task(events_of(runtime, request(f"late{i}"))) for i in range(2)]
    for _ in range(1000):
        if thread._inbox.qsize() + len(thread._jobs) == len(asked):
            break
        await asyncio.sleep(0.01)
    thread.abort("r0")
    may_die.set()
    answers = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 20)
    assert all(isinstance(answer, GenerationFailed) for answer in answers)
    health = await runtime.health()
    assert not health.is_ready
    assert "log says why" in health.reason
    assert "boom" not in health.reason
    assert health.is_lost
    with pytest.raises(GenerationFailed):
        await asyncio.wait_for(events_of(runtime, request("later")), 5)
