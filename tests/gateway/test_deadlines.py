"""Deadlines: asked for by a field or a header, bounded by a setting, and told as a 504."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from fake_runtime import FakeRuntime, text
from opentelemetry.trace import StatusCode
from serving import client_of

from gateway.app import create_app
from gateway.generation import generation
from gateway.http.request_bodies import RequestBodies
from runtime.errors import DeadlineExceeded
from runtime.events import TextDelta

URL = "/v1/chat/completions"
NEVER_S = 3600.0
BODY = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize(
    ("field", "header", "most"),
    [(None, None, None), (50, None, 50), (None, "20.5", 20.5), (50, "20", 20), (20, "50", 20)],
)
async def test_the_runtime_gets_what_is_left_of_the_shortest_timeout(client, runtime, field, header, most):
    fields = BODY if field is None else BODY | {"timeout": field}
    await client.post(URL, json=fields, headers={"X-Request-Timeout": header} if header else None)
    (asked,) = runtime.requests
    assert asked.timeout_s is None if most is None else 0 < asked.timeout_s <= most


@pytest.mark.parametrize("header", ["soon", "0", "-1", "nan", "inf", ""])
async def test_a_header_that_is_no_timeout_is_refused_by_name(client, header):
    answer = await client.post(URL, json=BODY, headers={"X-Request-Timeout": header})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "X-Request-Timeout"


async def test_a_setting_bounds_every_request(settings):
    runtime = FakeRuntime()
    app = create_app(_with(settings, request_seconds=1.5), runtime=runtime)
    async with client_of(app) as client:
        await client.post(URL, json=BODY)
        await client.post(URL, json=BODY | {"timeout": 600})
    assert all(0 < asked.timeout_s <= 1.5 for asked in runtime.requests)


async def test_a_passed_deadline_is_an_error_that_clients_do_not_repeat(client, runtime, spans):
    runtime.script = [TextDelta(0, "x"), DeadlineExceeded()]
    answer = await client.post(URL, json=BODY)
    assert answer.status_code == 504
    assert answer.json()["error"]["code"] == "deadline_exceeded"
    assert answer.headers["x-should-retry"] == "false"
    assert runtime.num_aborted == 1
    found = {span.name: span for span in spans.get_finished_spans()}
    assert found["chat tiny"].attributes["error.type"] == "DeadlineExceeded"
    assert found["chat tiny"].status.status_code is StatusCode.ERROR


async def test_a_stream_ends_with_the_error(client, runtime, caplog):
    runtime.script = [TextDelta(0, "x"), DeadlineExceeded()]
    answer = await client.post(URL, json=BODY | {"stream": True})
    *_, last = answer.text.removesuffix("\n\n").split("\n\n")
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "deadline_exceeded"
    assert [bool(record.exc_info) for record in caplog.records if "ended early" in record.message] == [False]


async def test_waiting_for_a_grammar_counts(client, app, runtime, monkeypatch):
    async def never(*_, **__):
        await asyncio.sleep(60)

    monkeypatch.setattr(app.state.services.grammars, "find_format", never)
    choice = {"type": "choice", "choices": ["a"]}
    answer = await client.post(URL, json=BODY | {"response_format": choice, "timeout": 0.05})
    assert answer.status_code == 504
    assert runtime.requests == []


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("begun", [[], [TextDelta(0, "x")]])
async def test_a_runtime_that_never_answers_is_not_waited_for(
    client, runtime, monkeypatch, begun, is_streamed
):
    monkeypatch.setattr(generation, "GRACE_S", 0.0)
    runtime.script = [*begun, NEVER_S]
    answer = await client.post(URL, json=BODY | {"timeout": 0.5, "stream": is_streamed})
    assert '"deadline_exceeded"' in answer.text
    assert runtime.num_aborted == 1


async def test_what_has_come_before_the_deadline_is_delivered_behind_it(client, runtime):
    runtime.script = [0.06, *text("Hello.")]
    answer = await client.post(URL, json=BODY | {"timeout": 0.05})
    assert answer.json()["choices"][0]["message"]["content"] == "Hello."


async def test_waiting_for_a_store_counts(client, app, runtime, monkeypatch):
    async def never(*_, **__):
        await asyncio.sleep(NEVER_S)

    monkeypatch.setattr(app.state.services.store, "get", never)
    answer = await client.post(URL, json=BODY | {"toolset": "any", "timeout": 0.05})
    assert answer.status_code == 504
    assert runtime.requests == []


async def test_a_body_that_comes_slowly_counts(client, runtime, monkeypatch):
    read = RequestBodies.read

    async def slowly(*arguments, **options):
        await asyncio.sleep(0.06)
        return await read(*arguments, **options)

    monkeypatch.setattr(RequestBodies, "read", slowly)
    answer = await client.post(URL, json=BODY | {"timeout": 0.05})
    assert answer.status_code == 504
    assert runtime.requests == []


async def test_waiting_for_a_turn_counts(client, app, runtime, monkeypatch):
    @asynccontextmanager
    async def never(*_, **__):
        await asyncio.sleep(NEVER_S)
        yield

    monkeypatch.setattr(app.state.services.bodies, "turn", never)
    long = [{"role": "user", "content": "Hi" * 1_000}]
    answer = await client.post(URL, json=BODY | {"messages": long}, headers={"X-Request-Timeout": "0.05"})
    assert answer.status_code == 504
    assert "X-Request-Timeout" in answer.json()["error"]["message"], "it says who sets the time"
    assert runtime.requests == []


def _with(settings, **changes):
    return type(settings)(**{name: getattr(settings, name) for name in settings.__struct_fields__} | changes)
