"""Traces, read back."""

import json

import pytest
from fake_runtime import call, text
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode
from serving import client_of

from gateway.app import create_app
from gateway.errors import ExtraMissing
from gateway.settings import Settings
from gateway.telemetry.exporters import open_provider
from runtime.errors import GenerationFailed
from runtime.events import TextDelta

URL = "/v1/chat/completions"
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}


def body(**fields):
    return {"model": "tiny", "messages": [{"role": "user", "content": "a secret"}], **fields}


def by_name(spans):
    return {span.name: span for span in spans.get_finished_spans()}


async def test_a_request_leaves_request_grammar_and_generation_spans(client, runtime, spans, weather):
    runtime.script = call("get_weather", '{"place": "Oslo"}')
    spans.clear()
    fields = {"toolset": "weather", "tool_choice": "required", "seed": 3, "max_tokens": 50, "top_p": 0.5}
    answer = (await client.post(URL, json=body(**fields), headers=PARENT)).json()
    found = by_name(spans)
    server, grammar, chat = found["POST /v1/chat/completions"], found["grammar"], found["chat tiny"]
    assert {f"{span.context.trace_id:032x}" for span in (server, grammar, chat)} == {TRACE}
    assert f"{server.parent.span_id:016x}" == "b7ad6b7169203331"
    assert chat.parent.span_id == server.context.span_id
    assert grammar.parent.span_id == chat.context.span_id
    assert [(event.name, event.attributes["gen_ai.tool.name"]) for event in chat.events] == [
        ("call", "get_weather")
    ]
    assert server.kind is SpanKind.SERVER
    assert server.attributes["http.response.status_code"] == 200
    assert dict(grammar.attributes) == {
        "callgate.toolset": "weather",
        "callgate.toolset.revision": 1,
        "callgate.grammar.digest": answer["callgate"]["grammar_digest"],
        "callgate.grammar.source": answer["callgate"]["grammar_source"],
        "callgate.grammar.wait_ms": pytest.approx(answer["callgate"]["grammar_wait_ms"], abs=0.001),
    }
    assert dict(chat.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "callgate",
        "gen_ai.request.model": "tiny",
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.temperature": 1.0,
        "gen_ai.request.top_p": 0.5,
        "gen_ai.request.seed": 3,
        "gen_ai.response.id": answer["id"].removeprefix("chatcmpl-"),
        "gen_ai.response.model": "tiny",
        "gen_ai.response.finish_reasons": ("tool_calls",),
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 7,
        "callgate.grammar.digest": answer["callgate"]["grammar_digest"],
        "callgate.mask.fill_us.sum": 70.0,
        "callgate.mask.fill_us.max": 20.0,
        "callgate.tokens.forced": 3,
        "callgate.tokens.rescued": 2,
        "callgate.mass.removed": 0.25,
    }


async def test_a_stream_has_the_same_spans_and_the_budget_is_named(client, runtime, spans, weather):
    runtime.script = call("get_weather", '{"place": ""}', closed_by="budget")
    spans.clear()
    await client.post(URL, json=body(toolset="weather", stream=True))
    found = by_name(spans)
    assert found["chat tiny"].attributes["callgate.closed_by"] == "budget"
    assert found["chat tiny"].end_time <= found["POST /v1/chat/completions"].end_time
    assert found["chat tiny"].parent.span_id == found["POST /v1/chat/completions"].context.span_id


async def test_a_failure_is_an_error_of_both_spans(client, runtime, spans):
    runtime.script = [TextDelta(0, "x"), GenerationFailed("NaN logits")]
    assert (await client.post(URL, json=body())).status_code == 500
    found = by_name(spans)
    assert found["chat tiny"].status.status_code is StatusCode.ERROR
    assert found["chat tiny"].attributes["error.type"] == "GenerationFailed"
    assert found["POST /v1/chat/completions"].status.status_code is StatusCode.ERROR


async def test_a_request_without_a_key_leaves_no_span(tmp_path, runtime, spans):
    tracing = TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    settings = Settings(data_dir=str(tmp_path), api_key="a-key-of-many")
    async with client_of(create_app(settings, runtime=runtime, tracer_provider=tracing)) as client:
        assert (await client.post(URL, json=body(), headers=PARENT)).status_code == 401
    assert spans.get_finished_spans() == ()


async def test_a_mistake_of_the_client_is_no_error_of_the_server(client, spans):
    assert (await client.post(URL, json={})).status_code == 400
    (server,) = spans.get_finished_spans()
    assert server.attributes["http.response.status_code"] == 400
    assert server.status.status_code is StatusCode.UNSET
    assert server.events == ()


async def test_probes_leave_no_spans(client, spans):
    await client.get("/healthz")
    await client.get("/readyz")
    assert spans.get_finished_spans() == ()


async def test_content_is_not_recorded(client, runtime, spans, weather):
    runtime.script = call("get_weather", '{"place": "Oslo"}')
    await client.post(URL, json=body(toolset="weather"))
    recorded = "".join(span.to_json() for span in spans.get_finished_spans())
    assert "Oslo" not in recorded
    assert "a secret" not in recorded


@pytest.mark.parametrize(
    ("version", "provider", "asked", "answered"),
    [
        ("1.36", "gen_ai.system", "gen_ai.prompt", "gen_ai.completion"),
        ("1.37", "gen_ai.provider.name", "gen_ai.input.messages", "gen_ai.output.messages"),
    ],
)
async def test_content_is_recorded_if_switched_on(
    tmp_path, runtime, spans, version, provider, asked, answered
):
    settings = Settings(data_dir=str(tmp_path), capture_content=True, genai_conventions=version)
    tracing = TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    runtime.script = text("Hel", "lo")
    async with client_of(create_app(settings, runtime=runtime, tracer_provider=tracing)) as client:
        await client.post(URL, json=body())
    attributes = by_name(spans)["chat tiny"].attributes
    assert attributes[provider] == "callgate"
    assert json.loads(attributes[asked])[0]["content"] == "a secret"
    assert json.loads(attributes[answered]) == {"0": "Hello"}


def test_exporters(monkeypatch, capsys):
    assert open_provider(Settings(telemetry="none")) is None
    console = open_provider(Settings(telemetry="console"))
    with console.get_tracer("t").start_as_current_span("seen"):
        pass
    console.shutdown()
    assert '"name": "seen"' in capsys.readouterr().out
    otlp = open_provider(Settings(telemetry="otlp", otlp_endpoint="http://127.0.0.1:9/v1/traces"))
    otlp.shutdown()


def test_a_missing_exporter_names_the_extra(monkeypatch):
    monkeypatch.setitem(
        __import__("sys").modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None
    )
    with pytest.raises(ExtraMissing, match=r"callgate\[otlp\]"):
        open_provider(Settings(telemetry="otlp"))


@pytest.mark.parametrize(("named", "shown"), [(None, "callgate"), ("tools", "tools")])
def test_the_service_has_the_name_that_the_environment_gives_it(monkeypatch, named, shown):
    monkeypatch.delenv("OTEL_RESOURCE_ATTRIBUTES", raising=False)
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    if named:
        monkeypatch.setenv("OTEL_SERVICE_NAME", named)
    provider = open_provider(Settings(telemetry="console"))
    try:
        assert provider.resource.attributes["service.name"] == shown
    finally:
        provider.shutdown()
