"""The cheap half of `make chaos`: writers that are killed, and gateways that write one toolset at once."""

from contextlib import ExitStack

import httpx
import pytest
from fake_runtime import FakeRuntime
from serving import served

from chaos.cluster import LATER_LOWERING, LATER_MARK, SMALL_RULE_CACHE
from chaos.contention import contended
from chaos.histories import Write, violation
from chaos.load import Load
from chaos.sqlite_kills import killed_writers
from compiler import prepared_vocabulary
from compiler.isolation import compile_job
from gateway.app import create_app
from gateway.settings import Settings
from runtime.engines import request_mark


def test_what_killed_writers_have_acknowledged_is_there(tmp_path):
    wrong, num_acknowledged = killed_writers(tmp_path / "killed.db", 6)
    assert not wrong
    assert num_acknowledged >= 6


@pytest.mark.parametrize("kind", ["redis", "sqlite"])
async def test_two_gateways_that_write_one_toolset_are_linearizable(kind, redis_url, tmp_path):
    store = {"redis": redis_url, "sqlite": f"sqlite://{tmp_path}/shared.db"}[kind]

    settings = Settings(data_dir=str(tmp_path), secret="0123456789abcdef", store=store, compile_workers=0)
    with ExitStack() as stack:
        apps = [create_app(settings, runtime=FakeRuntime()) for _ in range(2)]
        urls = [str(stack.enter_context(served(app)).base_url) for app in apps]
        async with httpx.AsyncClient(base_url=urls[0]) as one, httpx.AsyncClient(base_url=urls[1]) as other:
            history = await contended([one, other], seconds=1.0)
    assert not violation(history.operations)
    assert not history.unclear
    assert history.num_refused, "they have met"
    assert sum(isinstance(each, Write) for each in history.operations) > 1


@pytest.mark.parametrize(
    ("calls", "reason", "is_wrong"),
    [
        ([("close_ticket", '{"number": 5}')], "tool_calls", False),
        ([("close_ticket", '{"number": 6}')], "tool_calls", True),
        ([("close_ticket", '{"number": 5')], "length", True),
        ([("other", "{}")], "tool_calls", True),
        ([], "tool_calls", True),
        ([("close_ticket", '{"number": 5}')], None, True),
    ],
)
def test_the_load_tells_valid_calls_from_others(calls, reason, is_wrong):
    load = Load([])
    assert load.judged("registered", calls, reason) == ("wrong" if is_wrong else "")
    assert bool(load.wrong) == is_wrong


@pytest.mark.parametrize(
    ("program", "module", "name"),
    [
        (LATER_LOWERING, compile_job, "LOWERING_VERSION"),
        (LATER_MARK, request_mark, "VERSION"),
        (SMALL_RULE_CACHE, prepared_vocabulary, "CACHE_LIMIT_BYTES"),
    ],
    ids=["LATER_LOWERING", "LATER_MARK", "SMALL_RULE_CACHE"],
)
def test_what_runs_before_a_program_changes_it(program, module, name, monkeypatch):
    before = getattr(module, name)
    monkeypatch.setattr(module, name, before)  # so that it is as before after the test
    exec(program)
    assert getattr(module, name) != before
