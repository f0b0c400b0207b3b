"""Traces, read back."""

import asyncio
import base64
import dataclasses
import json
import logging
import sys

import pytest
from chat import URL, body
from fake_runtime import call, text
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode
from serving import client_of

from compiler.isolation.pools import ThreadPool
from gateway.app import create_app
from gateway.errors import ExtraMissing, SettingsError
from gateway.generation.turn import Turn
from gateway.settings import Settings
from gateway.telemetry.exporters import open_meters, open_provider
from runtime.errors import DeadlineExceeded, GenerationFailed
from runtime.events import BrokenDraft, SelectionStats, TextDelta
from runtime.inspection import TokenPlace
from runtime.protocol import Health
from runtime.request import Message
from toolspecs.tool import Tool

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}


SECRET = {"role": "user", "content": "a secret"}


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


async def test_the_span_of_a_turn_that_fails_early_tells_its_model(client, spans):
    await client.post(URL, json=body(toolset="none"))
    assert dict(by_name(spans)["chat tiny"].attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "callgate",
        "gen_ai.request.model": "tiny",
        "error.type": "UnknownToolset",
    }


async def test_a_stream_has_the_same_spans_and_the_budget_is_named(client, runtime, spans, weather):
    runtime.script = call("get_weather", '{"place": ""}', closed_by="budget")
    spans.clear()
    await client.post(URL, json=body(toolset="weather", stream=True))
    found = by_name(spans)
    assert found["chat tiny"].attributes["callgate.closed_by"] == "budget"
    assert found["chat tiny"].end_time <= found["POST /v1/chat/completions"].end_time
    assert found["chat tiny"].parent.span_id == found["POST /v1/chat/completions"].context.span_id


async def test_the_span_says_how_the_answers_of_all_choices_were_selected(client, runtime, spans):
    accepted = SelectionStats("accept", 3, is_exact=True, num_computed_tokens=90)
    chosen = SelectionStats("accept", 8, is_exact=False, num_computed_tokens=200, effective_size=2.5)
    runtime.script = [
        event
        for choice, selection in enumerate((accepted, chosen))
        for event in text("Hello", choice=choice, selection=selection)
    ]
    spans.clear()
    await client.post(URL, json=body(n=2))
    attributes = by_name(spans)["chat tiny"].attributes
    assert {name: value for name, value in attributes.items() if "selection" in name} == {
        "callgate.selection.strategy": "accept",
        "callgate.selection.answers": 11,
        "callgate.selection.accepted": 1,
        "callgate.selection.computed_tokens": 290,
        "callgate.selection.effective_size": 2.5,
    }


@pytest.mark.parametrize(("is_streamed", "status"), [(False, 500), (True, 200)])
async def test_a_failure_is_an_error_of_both_spans(client, runtime, spans, is_streamed, status):
    runtime.script = [TextDelta(0, "x"), GenerationFailed("NaN logits")]
    assert (await client.post(URL, json=body(stream=is_streamed))).status_code == status
    found = by_name(spans)
    assert found["chat tiny"].status.status_code is StatusCode.ERROR
    assert found["chat tiny"].attributes["error.type"] == "GenerationFailed"
    assert found["POST /v1/chat/completions"].status.status_code is StatusCode.ERROR
    assert found["POST /v1/chat/completions"].attributes["error.type"] == "GenerationFailed"


async def test_a_failure_before_the_turn_has_its_kind(client, runtime, spans):
    """The request's span has it: there is none of a turn."""
    runtime.health_now = Health(is_ready=False, reason="the engine a:1 cannot be reached")
    assert (await client.post(URL, json=body())).status_code == 503
    (server,) = spans.get_finished_spans()
    assert server.attributes["error.type"] == "NotReady"


async def test_a_mistake_of_the_client_is_no_error_of_the_server(client, spans):
    assert (await client.post(URL, json={})).status_code == 400
    (server,) = spans.get_finished_spans()
    assert server.attributes["http.response.status_code"] == 400
    assert server.status.status_code is StatusCode.UNSET
    assert "error.type" not in server.attributes
    assert server.events == ()


async def test_probes_leave_no_spans(client, spans):
    await client.get("/healthz")
    await client.get("/readyz")
    assert spans.get_finished_spans() == ()


@pytest.mark.parametrize(
    ("version", "provider", "asked", "answered"),
    [
        ("1.36", "gen_ai.system", "gen_ai.prompt", "gen_ai.completion"),
        ("1.37", "gen_ai.provider.name", "gen_ai.input.messages", "gen_ai.output.messages"),
    ],
)
async def test_content_is_recorded_if_switched_on(
    attributes_with, runtime, version, provider, asked, answered
):
    runtime.script = text("Hel", "lo")
    attributes = await attributes_with(capture_content=True, genai_conventions=version)
    assert attributes[provider] == "callgate"
    assert json.loads(attributes[asked])[0]["content"] == "a secret"
    assert json.loads(attributes[answered]) == {"0": "Hello"}


@pytest.mark.parametrize("prompt", ["a secret", [97, 98]])
async def test_the_prompt_of_a_text_completion_is_content(client_with, spans, prompt):
    """In the place of a chat's messages."""
    async with client_with(capture_content=True) as client:
        await client.post("/v1/completions", json={"model": "tiny", "prompt": prompt})
    attributes = by_name(spans)["text_completion tiny"].attributes
    assert attributes["gen_ai.operation.name"] == "text_completion"
    assert json.loads(attributes["gen_ai.input.messages"]) == prompt


@pytest.mark.parametrize("is_captured", [False, True])
async def test_stop_sequences_are_content(attributes_with, is_captured):
    found = await attributes_with({"stop": ["a secret end"]}, capture_content=is_captured)
    assert found.get("gen_ai.request.stop_sequences") == ('["a secret end"]' if is_captured else None)
    assert ("secret" in str(dict(found))) == is_captured


async def test_where_a_draft_left_the_grammar_is_told_without_the_keys_that_the_model_wrote(
    attributes_with, runtime
):
    broken = BrokenDraft(7, TokenPlace("arguments", 0, "get_weather", ("a secret",), "value"))
    drafted = SelectionStats("draft", 2, is_exact=False, num_computed_tokens=None, broken=(broken,))
    runtime.script = text("Hello.", selection=drafted)
    found = await attributes_with()
    assert found["callgate.selection.broken"] == ("arguments get_weather",)
    assert "secret" not in str(dict(found))


async def test_more_tokens_than_otlp_has_numbers_can_be_asked_for(attributes_with, spans, caplog):
    """The exporter would log a traceback for each such request."""
    found = await attributes_with({"max_tokens": 10**30})
    encode_spans(spans.get_finished_spans())
    assert found["gen_ai.request.max_tokens"] == 2**63 - 1
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_of_images_only_places_and_sizes_are_recorded(attributes_with):
    """With their data, spans would have megabytes."""
    pixel = base64.b64encode(b"GIF89a\x02\x00\x03\x00\0\0\0\x2c\0\0\0\0\x02\x00\x03\x00\0").decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{pixel}"}}
    content = [{"type": "text", "text": "See:"}, image]
    asked = {"messages": [{"role": "user", "content": content}]}
    found = await attributes_with(asked, capture_content=True)
    [message] = json.loads(found["gen_ai.input.messages"])
    assert message["content"] == "See:"
    assert message["images"] == [{"at": 4, "num_pixels": 6}]


def test_spans_go_where_the_setting_says(monkeypatch, capsys):
    assert open_provider(Settings(telemetry="none")) is None
    console = open_provider(Settings(telemetry="console"))
    with console.get_tracer("t").start_as_current_span("seen"):
        pass
    console.shutdown()
    assert '"name": "seen"' in capsys.readouterr().out
    otlp = open_provider(Settings(telemetry="otlp", otlp_endpoint="http://127.0.0.1:9/v1/traces"))
    otlp.shutdown()


def test_a_missing_exporter_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
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


def hook(attribute, text):
    return text.replace("secret", "[redacted]") if attribute == "gen_ai.input.messages" else None


def failing_hook(attribute, text):
    raise ValueError(text)


@pytest.fixture
def attributes_with(client_with, spans):
    """Asks a gateway with some other settings; returns the attributes of the turn's span."""

    async def asked(fields=None, **changes):
        async with client_with(**changes) as client:
            assert (await client.post(URL, json=body(messages=[SECRET]) | (fields or {}))).status_code == 200
        return by_name(spans)["chat tiny"].attributes

    return asked


async def test_a_redactor_sees_content_before_it_is_recorded(attributes_with):
    found = await attributes_with(capture_content=True, content_redactor="test_telemetry:hook")
    assert "a [redacted]" in found["gen_ai.input.messages"]
    assert "gen_ai.output.messages" not in found


@pytest.mark.parametrize(
    ("settings", "warning"),
    [
        ({"otlp_endpoint": "http://127.0.0.1:9/v1/traces"}, "otlp_endpoint is set, but nothing is sent"),
        (
            {"telemetry": "console", "otlp_metrics_endpoint": "http://127.0.0.1:9/v1/metrics"},
            "otlp_metrics_endpoint is set, but nothing is sent",
        ),
        ({"telemetry": "otlp", "otlp_endpoint": "http://127.0.0.1:9"}, "no metrics are sent"),
        ({"telemetry": "otlp", "otlp_endpoint": "http://127.0.0.1:9", "metrics": False}, ""),
        ({}, ""),
    ],
)
def test_the_log_says_if_a_collector_gets_nothing(caplog, settings, warning):
    meters, provider = open_meters(Settings(**settings)), open_provider(Settings(**settings))
    if provider is not None:
        provider.shutdown()
    assert len(caplog.messages) == bool(warning)
    assert warning in caplog.text
    meters.close()


async def test_a_redactor_that_fails_lets_nothing_through(attributes_with, caplog):
    found = await attributes_with(capture_content=True, content_redactor="test_telemetry:failing_hook")
    assert not any("messages" in name for name in found)
    assert "ValueError" in caplog.text
    assert "a secret" not in caplog.text


@pytest.mark.parametrize("named", ["test_telemetry:no_such", "no_such_module:f", "test_telemetry:URL"])
def test_a_redactor_that_is_none_fails_the_start(app_with, named):
    with pytest.raises(SettingsError, match="content_redactor"):
        app_with(capture_content=True, content_redactor=named)
    with pytest.raises(SettingsError, match="capture_content"):
        app_with(content_redactor="test_telemetry:hook")


class Started(SpanProcessor):
    """The names of the spans that have begun."""

    def __init__(self):
        self.names = []

    def on_start(self, span, parent_context=None):
        self.names.append(span.name)


class GatedPool(ThreadPool):
    """Compiles when it may."""

    def __init__(self):
        super().__init__()
        self.may_run = asyncio.Event()

    async def run(self, *arguments, **options):
        await self.may_run.wait()
        return await super().run(*arguments, **options)


async def test_a_request_that_waits_for_anothers_compilation_is_linked_to_it(settings, runtime, spans):
    tracing, started, pool = TracerProvider(), Started(), GatedPool()
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    tracing.add_span_processor(started)

    async def until_compile_spans(number):
        while started.names.count("compile") < number:
            await asyncio.sleep(0)

    app = create_app(settings, runtime=runtime, tracer_provider=tracing, compile_pool=pool)
    async with client_of(app):
        completions = app.state.views.whole.completions
        turn = Turn("tiny", (Message("user", "?"),), tools=(Tool("f", "", {"type": "object"}),))
        turns = {
            client_id: dataclasses.replace(turn, client_id=client_id)
            for client_id in ("one client", "another")
        }
        first = asyncio.create_task(completions.start(turns["one client"]))
        await until_compile_spans(1)
        # Of the same client and of another: they wait at different places.
        others = [asyncio.create_task(completions.start(turn)) for turn in turns.values()]
        await until_compile_spans(3)
        pool.may_run.set()
        for generation in [await first, *[await other for other in others]]:
            await generation.aclose()
    own, *joined = sorted(
        (span for span in spans.get_finished_spans() if span.name == "compile"),
        key=lambda span: span.attributes["callgate.compile.is_joined"],
    )
    assert own.links == ()
    assert own.attributes["callgate.grammar.kind"] == "tool"
    assert [[link.context.span_id for link in span.links] for span in joined] == [[own.context.span_id]] * 2
    grammars = [span for span in spans.get_finished_spans() if span.name == "grammar"]
    assert {span.parent.span_id for span in (own, *joined)} == {span.context.span_id for span in grammars}


async def test_a_request_that_ends_in_the_queue_shows_how_long_it_waited(client, runtime, spans):
    runtime.script, runtime.steps = [DeadlineExceeded()], ("note_queued",)
    assert (await client.post(URL, json=body())).status_code == 504
    found = by_name(spans)
    assert found["queue"].parent.span_id == found["chat tiny"].context.span_id
    assert "prefill" not in found


async def test_an_engine_elsewhere_gets_the_context_of_the_turn(client, runtime, spans):
    await client.post(URL, json=body(), headers=PARENT | {"tracestate": "vendor=1"})
    chat = by_name(spans)["chat tiny"]
    sent = runtime.requests[-1].trace_headers
    assert sent["traceparent"] == f"00-{TRACE}-{chat.context.span_id:016x}-01"
    assert sent["tracestate"] == "vendor=1"
