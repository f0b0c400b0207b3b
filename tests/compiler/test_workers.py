"""Worker processes: a schema that ends its worker is refused, and nothing else suffers."""

import asyncio
import ctypes
import json
import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import pytest_asyncio
from hostile import greedy, laborious

from compiler.cache_entry import CacheEntry
from compiler.errors import LimitReached, TakesLonger, UnsupportedSchema, WorkersUnavailable
from compiler.isolation.compile_job import MAX_TRACEBACK, CompileJob, read_answer, read_faults
from compiler.isolation.limits import CompileLimits
from compiler.isolation.pools import WorkerPool
from compiler.prepared_vocabulary import prepare
from compiler.response_format import ResponseFormat
from compiler.vocabulary import Vocabulary
from toolspecs.tool import Tool

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = CompileLimits(seconds=1.0, memory_bytes=128 * 2**20)
PR_SET_CHILD_SUBREAPER = 36
VOCABULARY = prepare(Vocabulary.of_bytes())


def job_of(parameters):
    return CompileJob.tool(Tool("t", "", parameters), "json")


FINE = job_of({"type": "object", "properties": {"a": {"type": "integer"}}})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def workers():
    workers = WorkerPool(2, LIMITS)
    await workers.start(VOCABULARY)
    yield workers
    await workers.close()


def children(pid: int) -> list[int]:
    pids = (int(folder.name) for folder in Path("/proc").glob("[0-9]*"))
    return [child for child in pids if state_and_parent(child)[1] == pid]


def is_running(pid: int) -> bool:
    """Whether a process has not ended; one that has may stay a zombie for as long as nobody waits for it."""
    return state_and_parent(pid)[0] not in ("gone", "Z", "X")


def state_and_parent(pid: int) -> tuple[str, int]:
    """The letter of a process' state and its parent; processes of others end while they are looked at."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return "gone", 0
    return state, int(parent)


def num_threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def zygote_pid(workers) -> int:
    return workers._zygote._process.pid


async def is_fine(workers) -> bool:
    content = await workers.run(FINE, VOCABULARY)
    return CacheEntry.from_bytes(content, VOCABULARY, "tool").unit.consumed(b'{"a": 1}}') is not None


async def test_a_result_is_what_compiling_here_gives(workers):
    here = CacheEntry.from_bytes(FINE.answer(VOCABULARY, LIMITS)[1:], VOCABULARY, "tool")
    there = CacheEntry.from_bytes(await workers.run(FINE, VOCABULARY), VOCABULARY, "tool")
    assert (there.unit.digest, there.report) == (here.unit.digest, here.report)


async def test_a_refusal_comes_back_whole(workers):
    job = job_of({"type": "object", "properties": {"p": {"$ref": "#/nowhere"}}})
    with pytest.raises(UnsupportedSchema) as refused:
        await workers.run(job, VOCABULARY)
    with pytest.raises(UnsupportedSchema) as refused_here:
        read_answer(job.answer(VOCABULARY, LIMITS))
    assert str(refused.value) == str(refused_here.value)
    assert not isinstance(refused.value, LimitReached)


async def test_one_that_takes_too_long_is_refused_and_the_next_is_compiled(workers):
    with pytest.raises(LimitReached, match="takes longer than 1 seconds"):
        await workers.run(job_of(laborious()), VOCABULARY)
    assert await is_fine(workers)


async def test_judging_arguments_has_the_limits_of_compiling(workers):
    """A schema that compiles in 0.2 s, and on which a validator takes seconds for every two levels more."""
    levels = {f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i - 1}"}] * 2} for i in range(1, 30)}
    parameters = {"$defs": {"a0": {"type": "string"}, **levels}, "properties": {"v": {"$ref": "#/$defs/a29"}}}
    assert CacheEntry.from_bytes(await workers.run(job_of(parameters), VOCABULARY), VOCABULARY, "tool")
    with pytest.raises(LimitReached, match="takes longer than 1 seconds"):
        await workers.run(CompileJob.judge(Tool("t", "", parameters), {"v": 1}), VOCABULARY)
    good = await workers.run(CompileJob.judge(Tool("t", "", {"required": ["v"]}), {}), VOCABULARY)
    assert [fault.keyword for fault in read_faults(good)] == ["required"]


async def test_one_that_takes_too_much_memory_is_refused(workers):
    with pytest.raises(LimitReached):
        await workers.run(job_of(greedy()), VOCABULARY)
    assert await is_fine(workers)


async def test_others_are_compiled_while_one_takes_long(workers):
    long = asyncio.create_task(workers.run(job_of(laborious()), VOCABULARY))
    await asyncio.sleep(0)
    assert await is_fine(workers)
    assert not long.done()
    with pytest.raises(LimitReached):
        await long


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
async def test_a_worker_that_crashes_is_one_refusal(workers, number):
    assert await is_fine(workers)
    running = asyncio.create_task(workers.run(job_of(laborious()), VOCABULARY))
    await asyncio.sleep(0.2)
    for pid in children(zygote_pid(workers)):
        os.kill(pid, number)
    # Told from one that ran out of time by the time it took, which a busy machine stretches.
    with pytest.raises(LimitReached, match=r"compile worker ended|takes longer"):
        await running
    assert await is_fine(workers)


async def test_a_first_try_whose_worker_is_killed_is_followed_by_another(workers):
    """The system kills workers first when memory runs out. The schema is not refused for that."""
    assert await is_fine(workers)
    running = asyncio.create_task(workers.run(job_of(laborious()), VOCABULARY, is_long=False))
    await asyncio.sleep(0.2)
    for pid in children(zygote_pid(workers)):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(TakesLonger):
        await running


async def test_idle_workers_that_die_are_nobodys_refusal(workers):
    assert await is_fine(workers)
    for pid in children(zygote_pid(workers)):
        os.kill(pid, signal.SIGKILL)
    await asyncio.sleep(0.1)
    assert await is_fine(workers)


async def test_a_vocabulary_is_learned_when_it_is_first_used(workers):
    other = prepare(
        Vocabulary.from_tokens([*VOCABULARY.vocabulary.tokens[:-1], b"true"], stop_ids=(0,), width=300)
    )
    job = CompileJob.format(ResponseFormat("schema", {"type": "boolean"}))
    found = CacheEntry.from_bytes(await workers.run(job, other), other, "schema")
    assert found.compiled_format.matcher().accept(256)
    assert await is_fine(workers)


async def test_workers_are_forked_from_a_process_with_one_thread(workers):
    assert await is_fine(workers)
    assert num_threads(zygote_pid(workers)) == 1


async def test_a_schema_too_large_or_too_deep_is_not_handed_on(workers):
    deep = {}
    for _ in range(100_000):
        deep = {"not": deep}
    with pytest.raises(UnsupportedSchema, match="nested"):
        await workers.run(CompileJob.format(ResponseFormat("schema", deep)), VOCABULARY)
    with pytest.raises(UnsupportedSchema, match="the schema has"):
        await workers.run(
            CompileJob.format(ResponseFormat("schema", {"const": "x" * LIMITS.schema_bytes})), VOCABULARY
        )


async def test_the_processes_of_a_pool_from_its_launch_to_its_end():
    workers = WorkerPool(2, LIMITS)
    workers.launch()
    zygote = zygote_pid(workers)
    workers.learn(VOCABULARY)
    await workers.start(VOCABULARY)
    assert zygote_pid(workers) == zygote
    ready = children(zygote)
    assert len(ready) == 2
    assert await is_fine(workers)
    assert children(zygote) == ready
    await workers.close()
    assert not is_running(zygote)
    await ended(ready)


async def test_what_is_launched_serves_a_vocabulary_that_it_does_not_know_yet():
    workers = WorkerPool(1, LIMITS)
    workers.launch()
    launched = zygote_pid(workers)
    assert await is_fine(workers)
    assert zygote_pid(workers) == launched
    await workers.close()


async def test_a_zygote_that_cannot_start_is_no_fault_of_the_schemas(monkeypatch):
    monkeypatch.setattr("compiler.isolation.zygote._ENTRY", "raise SystemExit(1)")
    workers = WorkerPool(1, LIMITS)
    with pytest.raises(WorkersUnavailable):
        await workers.run(FINE, VOCABULARY)
    await workers.close()


async def test_a_zygote_that_hangs_is_replaced_and_holds_up_no_end(monkeypatch):
    """Neither schemas nor the end of the gateway wait for it without end."""
    workers = WorkerPool(1, LIMITS)
    assert await is_fine(workers)
    with stopped(zygote_pid(workers)) as first, monkeypatch.context() as patched:
        patched.setattr("compiler.isolation.pools._START_S", 0.2)
        with pytest.raises(WorkersUnavailable):
            async with asyncio.timeout(5):
                await workers.run(FINE, VOCABULARY, client_id="another")
        assert not is_running(first)
    assert await is_fine(workers)
    with stopped(zygote_pid(workers)):
        async with asyncio.timeout(5):
            await workers.close()


@contextmanager
def stopped(pid: int) -> Iterator[int]:
    """A process that does nothing for ten seconds."""
    os.kill(pid, signal.SIGSTOP)
    going_on = threading.Timer(10, _go_on, [pid])
    going_on.start()
    yield pid
    going_on.cancel()


def _go_on(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


async def test_closing_ends_priming_after_one_schema(monkeypatch):
    begun, go_on, ended, steps = threading.Event(), threading.Event(), threading.Event(), []

    def priming(_, is_unwanted):
        while not is_unwanted():
            steps.append("compiled")
            begun.set()
            go_on.wait()
        ended.set()

    monkeypatch.setattr("compiler.isolation.pools.prime", priming)
    workers = WorkerPool(1, LIMITS)
    starting = asyncio.create_task(workers.start(VOCABULARY))
    await asyncio.to_thread(begun.wait)
    await workers.close()
    go_on.set()
    await asyncio.to_thread(ended.wait)
    await starting
    assert steps == ["compiled"]


async def test_a_fault_of_the_compiler_is_logged_here(workers, caplog):
    """Workers do not write it to their standard error, as plain lines between the JSON objects of the log."""
    with pytest.raises(UnsupportedSchema, match="the compiler failed on it"):
        await workers.run(CompileJob("covers", ("no pair of schemas",)), VOCABULARY)
    [record] = [record for record in caplog.records if record.name == "compiler.isolation.compile_job"]
    shown = logging.Formatter().format(record)
    assert "in _covers" in shown
    assert "ValueError" in shown
    assert shown == shown.rstrip()


async def test_a_worker_that_was_taken_over_does_not_fill_the_log(caplog):
    with pytest.raises(UnsupportedSchema, match="the compiler failed on it"):
        read_answer(b"?" + json.dumps(["KeyError: 1", "x" * 9 * MAX_TRACEBACK]).encode())
    assert len(caplog.text) < 2 * MAX_TRACEBACK


async def test_workers_whose_zygote_died_leave_no_zombies(adopting, monkeypatch):
    """In a container they become children of the gateway, its first process, which has to wait for them."""
    monkeypatch.setattr("compiler.isolation.pools.prime", lambda *_: None)
    workers = WorkerPool(1, LIMITS)
    await workers.start(VOCABULARY)
    former = children(zygote_pid(workers))
    os.kill(zygote_pid(workers), signal.SIGKILL)
    assert await is_fine(workers)  # the worker does this job and then ends, since the job is a long one
    await ended(former)
    await workers.start(VOCABULARY)
    assert [state_and_parent(pid)[0] for pid in former] == ["gone"]
    await workers.close()


async def ended(pids):
    """Return when none of these processes runs, within four seconds."""
    for _ in range(200):
        if not any(map(is_running, pids)):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(pids)


@pytest.fixture
def adopting():
    """Children of this process' children become its own when their parents end, as those of a first process."""
    libc = ctypes.CDLL(None)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1) == 0
    yield
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 0) == 0
