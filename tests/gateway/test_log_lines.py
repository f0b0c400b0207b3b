"""The log, as programs read it."""

import io
import json
import logging

import pytest
from apis import CHAT, MESSAGES, RESPONSES
from chat import URL, body
from fake_runtime import call
from keys import bearer
from moved_clock import Clock
from sample_tools import chat_tool

from gateway.settings import Settings
from gateway.telemetry.log_lines import MAX_REPEATS, REPEATS_S, FewRepeats, JSONLines, set_up_logging
from runtime.errors import GenerationFailed
from runtime.events import TextDelta

TRACE = "0af7651916cd43dd8448eb211c80319c"
KEY = "a-key-of-a-client"


@pytest.fixture
def written():
    """Everything that is logged while the test runs, as the JSON format writes it."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JSONLines())
    root, requests = logging.getLogger(), logging.getLogger("callgate.requests")
    levels = root.level, requests.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    requests.setLevel(logging.INFO)
    yield stream
    root.removeHandler(handler)
    root.setLevel(levels[0])
    requests.setLevel(levels[1])


def lines_of(stream, logger="callgate.requests"):
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [line for line in lines if line["logger"] == logger]


@pytest.fixture
async def keyed(client_with):
    async with client_with(api_key=KEY) as client:
        client.headers.update(bearer(KEY))
        yield client


def asking(**fields):
    return body(messages=[{"role": "user", "content": "a secret"}], **fields)


async def test_a_request_is_one_line_with_its_trace(keyed, runtime, written):
    runtime.script = call("hidden_tool", '{"a": "hidden"}', closed_by="budget")
    headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "x-request-id": "mine-7"}
    answer = (await keyed.post(URL, json=asking(tools=[chat_tool("hidden_tool")]), headers=headers)).json()
    await keyed.get("/healthz")
    await keyed.get("/metrics")
    [line] = lines_of(written)
    for name in ("time", "span_id", "duration_ms", "first_token_ms", "grammar_wait_ms"):
        assert line.pop(name)
    assert line == {
        "level": "info",
        "logger": "callgate.requests",
        "message": f"POST {URL}",
        "trace_id": TRACE,
        "request_id": "mine-7",
        "method": "POST",
        "route": URL,
        "key_id": "settings-1",
        "status": 200,
        "model": "tiny",
        "response_id": answer["id"].removeprefix("chatcmpl-"),
        "grammar_source": "compiled",
        "input_tokens": 11,
        "output_tokens": 7,
        "forced_tokens": 3,
        "rescued_tokens": 2,
        "finish_reasons": ["length"],
        "closed_by": "budget",
    }
    assert not any(secret in written.getvalue() for secret in ("a secret", "hidden", KEY))


@pytest.mark.parametrize("api", [CHAT, MESSAGES, RESPONSES])
async def test_a_stream_that_ends_early_is_found_by_the_id_that_its_client_has(keyed, runtime, written, api):
    """The line of the failure has it, and so has that of the request."""
    runtime.script = [TextDelta(0, "And "), GenerationFailed("NaN logits")]
    sent = (await keyed.post(api.url, json=api.body(stream=True))).text
    [failure] = lines_of(written, "gateway.routes.transport")
    [line] = lines_of(written)
    assert f"stream {line['response_id']} ended early" in failure["message"]
    assert f"_{line['response_id']}" in sent.replace("chatcmpl-", "chatcmpl_")
    assert (line["status"], line["error"]) == (200, "GenerationFailed")


async def test_a_failure_is_named(keyed, runtime, written):
    runtime.script = [GenerationFailed("NaN logits")]
    await keyed.post(URL, json=asking())
    line = lines_of(written)[-1]
    assert (line["status"], line["error"], line["model"]) == (500, "GenerationFailed", "tiny")


@pytest.mark.parametrize(
    ("sent", "key", "status", "error"),
    [
        ({"content": "{"}, KEY, 400, "MalformedBody"),
        ({"json": {"model": "tiny", "messages": "a secret"}}, KEY, 400, "InvalidField"),
        ({"json": asking(model="hidden")}, KEY, 404, "UnknownModel"),
        ({"json": asking()}, f"{KEY}x", 401, "Unauthorized"),
    ],
)
async def test_a_refusal_is_named(keyed, written, sent, key, status, error):
    """Also in the lines of requests that reach no model."""
    headers = {"content-type": "application/json"} | bearer(key)
    await keyed.post(URL, headers=headers, **sent)
    [line] = lines_of(written)
    assert (line["status"], line["error"]) == (status, error)
    assert "secret" not in str(line)
    assert "hidden" not in str(line)


async def test_paths_of_clients_are_not_written(keyed, written):
    await keyed.get("/v1/toolsets/hidden/tools/also-hidden")
    [line] = lines_of(written)
    assert (line["route"], line["status"]) == ("/v1/toolsets/{toolset}/tools/{tool}", 404)
    own = [line for line in written.getvalue().splitlines() if '"logger": "httpx"' not in line]
    assert "hidden" not in "".join(own), "the client of this test logs, too"


async def test_who_may_not_come_in_leaves_a_line_without_the_key_and_the_path(keyed, written):
    headers = bearer(f"{KEY}x")
    await keyed.get("/v1/toolsets/hidden", headers=headers)
    await keyed.get("/no/such/hidden/route")
    refused, unknown = lines_of(written)
    assert (refused["status"], refused["route"], "key_id" in refused) == (401, "_OTHER", False)
    assert (unknown["status"], unknown["route"], unknown["key_id"]) == (404, "_OTHER", "settings-1")
    own = [line for line in written.getvalue().splitlines() if '"logger": "httpx"' not in line]
    assert not any(secret in "".join(own) for secret in ("hidden", KEY))


async def test_a_key_of_the_store_is_named_by_its_id(keyed, written):
    made = (await keyed.post("/v1/keys", json={"name": "agent", "scopes": ["invoke"]})).json()
    await keyed.get("/v1/models", headers=bearer(made["key"]))
    assert lines_of(written)[-1]["key_id"] == made["id"]
    assert made["key"].split("_", 2)[2] not in written.getvalue()


def test_of_many_failures_of_one_kind_some_are_written_and_the_rest_counted():
    clock = Clock()
    few = FewRepeats(clock=clock.elapsed_s)

    def is_written(error, *, level=logging.ERROR, exc_info=None):
        record = logging.LogRecord("gateway", level, "", 0, "%s failed: %s", ("POST", error), exc_info)
        return few.filter(record), getattr(record, "fields", {}).get("num_left_out")

    assert [is_written(ValueError(i)) for i in range(MAX_REPEATS)] == [(True, None)] * MAX_REPEATS
    assert [is_written(ValueError(i)) for i in range(3)] == [(False, None)] * 3
    assert is_written(KeyError("another kind")) == (True, None)
    assert is_written(ValueError("a fault of ours"), exc_info=(ValueError, ValueError(), None)) == (
        True,
        None,
    )
    assert is_written(ValueError("no error"), level=logging.INFO) == (True, None)
    clock.pass_by(seconds=REPEATS_S)
    assert is_written(ValueError("later")) == (True, 3)
    clock.pass_by(seconds=REPEATS_S)
    assert is_written(ValueError("much later")) == (True, None)


def test_a_line_is_one_line_whatever_it_holds():
    """Of a record that is not logged: the test runner cannot pass on the text that it would capture."""
    fault, message = ValueError("a\nb\u2028c\ud800"), 'a\r\n{"level": "info"}\x00'
    record = logging.LogRecord("x", logging.ERROR, "", 0, message, None, (ValueError, fault, None))
    text = JSONLines().format(record)
    line = json.loads(text)
    assert len(text.splitlines()) == 1
    assert (line["level"], line["message"]) == ("error", message)
    assert line["exception"].endswith("ValueError: a\nb\u2028c\ud800")


@pytest.mark.parametrize(
    ("log_format", "level", "access_log", "shown"),
    [
        ("json", "info", True, True),
        ("text", "info", True, True),
        ("text", "info", False, False),
        ("json", "warning", True, False),
    ],
)
def test_the_log_has_the_lines_that_the_settings_ask_for(
    monkeypatch, capsys, log_format, level, access_log, shown
):
    root, requests = logging.getLogger(), logging.getLogger("callgate.requests")
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    for logger in (requests, logging.getLogger("httpx")):
        monkeypatch.setattr(logger, "level", logger.level)
    set_up_logging(Settings(log_format=log_format, log_level=level, access_log=access_log))
    requests.info("GET /", extra={"fields": {"status": 200}})
    logging.getLogger("other").warning("a warning")
    err = capsys.readouterr().err
    expected = {"json": '"status": 200', "text": "INFO callgate.requests: GET / status=200"}
    assert (expected[log_format] in err) == shown
    assert "a warning" in err
