"""Deadlines: asked for by a field or a header, bounded by a setting, and told as a 504."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from chat import URL, body
from fake_runtime import text
from opentelemetry.trace import StatusCode
from sse import events_of

from gateway.generation import generation
from gateway.http.request_bodies import RequestBodies
from runtime.errors import DeadlineExceeded
from runtime.events import TextDelta

NEVER_S = 3600.0


@pytest.mark.parametrize(
    ("field", "header", "most"),
    [(None, None, None), (50, None, 50), (None, "20.5", 20.5), (50, "20", 20), (20, "50", 20)],
)
async def test_the_runtime_gets_what_is_left_of_the_shortest_timeout(client, runtime, field, header, most):
    fields = body() if field is None else body(timeout=field)
    await client.post(URL, json=fields, headers={"X-Request-Timeout": header} if header else None)
    (asked,) = runtime.requests
    assert asked.timeout_s is None if most is None else 0 < asked.timeout_s <= most


@pytest.mark.parametrize("header", ["soon", "0", "-1", "nan", "inf", ""])
async def test_a_header_that_is_no_timeout_is_refused_by_name(client, header):
    answer = await client.post(URL, json=body(), headers={"X-Request-Timeout": header})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "X-Request-Timeout"


async def test_a_setting_bounds_every_request(client_with, runtime):
    async with client_with(request_seconds=1.5) as client:
        await client.post(URL, json=body())
        await client.post(URL, json=body(timeout=600))
    assert all(0 < asked.timeout_s <= 1.5 for asked in runtime.requests)


async def test_a_passed_deadline_is_an_error_that_clients_do_not_repeat(client, runtime, spans):
    runtime.script = [TextDelta(0, "x"), DeadlineExceeded()]
    answer = await client.post(URL, json=body())
    assert answer.status_code == 504
    assert answer.json()["error"]["code"] == "deadline_exceeded"
    assert answer.headers["x-should-retry"] == "false"
    assert runtime.num_aborted == 1
    found = {span.name: span for span in spans.get_finished_spans()}
    assert found["chat tiny"].attributes["error.type"] == "DeadlineExceeded"
    assert found["chat tiny"].status.status_code is StatusCode.ERROR


async def test_a_stream_ends_with_the_error(client, runtime, caplog):
    runtime.script = [TextDelta(0, "x"), DeadlineExceeded()]
    answer = await client.post(URL, json=body(stream=True))
    assert events_of(answer)[-1]["error"]["code"] == "deadline_exceeded"
    assert [bool(record.exc_info) for record in caplog.records if "ended early" in record.message] == [False]


async def test_waiting_for_a_grammar_counts(client, app, runtime, monkeypatch):
    async def never(*_, **__):
        await asyncio.sleep(60)

    monkeypatch.setattr(app.state.views.whole.grammars, "find_format", never)
    choice = {"type": "choice", "choices": ["a"]}
    answer = await client.post(URL, json=body(response_format=choice, timeout=0.05))
    assert answer.status_code == 504
    assert runtime.requests == []


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("begun", [[], [TextDelta(0, "x")]])
async def test_a_runtime_that_never_answers_is_not_waited_for(
    client, runtime, monkeypatch, begun, is_streamed
):
    monkeypatch.setattr(generation, "GRACE_S", 0.0)
    runtime.script = [*begun, NEVER_S]
    answer = await client.post(URL, json=body(timeout=0.5, stream=is_streamed))
    assert '"deadline_exceeded"' in answer.text
    assert runtime.num_aborted == 1


async def test_what_has_come_before_the_deadline_is_delivered_behind_it(client, runtime):
    runtime.script = [0.06, *text("Hello.")]
    answer = await client.post(URL, json=body(timeout=0.05))
    assert answer.json()["choices"][0]["message"]["content"] == "Hello."


async def test_waiting_for_a_store_counts(client, app, runtime, monkeypatch):
    async def never(*_, **__):
        await asyncio.sleep(NEVER_S)

    monkeypatch.setattr(app.state.views.whole.store, "get", never)
    answer = await client.post(URL, json=body(toolset="any", timeout=0.05))
    assert answer.status_code == 504
    assert runtime.requests == []


async def test_a_body_that_comes_slowly_counts(client, runtime, monkeypatch):
    read = RequestBodies.read

    async def slowly(*arguments, **options):
        await asyncio.sleep(0.06)
        return await read(*arguments, **options)

    monkeypatch.setattr(RequestBodies, "read", slowly)
    answer = await client.post(URL, json=body(timeout=0.05))
    assert answer.status_code == 504
    assert runtime.requests == []


async def test_waiting_for_a_turn_counts(client, app, runtime, monkeypatch):
    @asynccontextmanager
    async def never(*_, **__):
        await asyncio.sleep(NEVER_S)
        yield

    monkeypatch.setattr(app.state.views.whole.bodies, "turn", never)
    long = [{"role": "user", "content": "Hi" * 1_000}]
    answer = await client.post(URL, json=body(messages=long), headers={"X-Request-Timeout": "0.05"})
    assert answer.status_code == 504
    assert "X-Request-Timeout" in answer.json()["error"]["message"], "it says who sets the time"
    assert runtime.requests == []
