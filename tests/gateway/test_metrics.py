"""`/metrics`, read by Prometheus' own parser."""

import itertools
import re
from pathlib import Path

import pytest
from chat import URL, body
from fake_runtime import ELSEWHERE, LOAD, STATS, call, text
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families
from sample_tools import TIME, WEATHER, chat_tool

from gateway.app import create_app
from gateway.errors import SettingsError
from gateway.settings import Settings
from gateway.telemetry import metrics
from gateway.telemetry.metrics import (
    GRAMMAR_WAIT,
    MAX_TOOLSETS,
    METRICS,
    OTHER,
    QUEUE_DURATION,
    REQUEST_DURATION,
    TIME_TO_FIRST_TOKEN,
    TOOLSET,
    Kind,
)
from runtime.errors import GenerationFailed, GrammarTooSlow
from runtime.events import BrokenDraft, Finished, FinishReason, GenerationStats, SelectionStats, TextDelta
from runtime.inspection import TokenPlace
from runtime.protocol import Health

MODEL = {"gen_ai_request_model": "tiny"}
IMPOSSIBLE = {"type": "object", "properties": {"a": {"type": "string", "pattern": r"(a+)\1"}}}
CHAT = {**MODEL, "gen_ai_operation_name": "chat", "gen_ai_provider_name": "callgate"}
REQUEST_S = 300
"""How long an answer may take by the chart's defaults."""


async def read(client, **headers):
    """Every sample of a scrape, by name and labels."""
    response = await client.get("/metrics", headers=headers)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = list(text_string_to_metric_families(response.text))
    samples = [sample for family in families for sample in family.samples]
    # To Prometheus, an empty label is none.
    labels = [frozenset(item for item in sample.labels.items() if item[1]) for sample in samples]
    found = {(sample.name, of): sample.value for sample, of in zip(samples, labels, strict=True)}
    assert len(found) == len(samples), "no series is written twice"
    return found


def value(samples, name, **labels):
    return samples.get((name, frozenset(labels.items())))


def series(samples, name):
    return [dict(labels) for found, labels in samples if found == name]


async def test_a_turn_is_measured(client, runtime, weather):
    runtime.script = call("get_weather", '{"place": "Oslo"}', closed_by="budget")
    for _ in range(2):
        await client.post(URL, json=body(toolset="weather"))
    samples = await read(client)
    assert value(samples, "gen_ai_server_request_duration_seconds_count", **CHAT) == 2
    assert value(samples, "gen_ai_server_time_to_first_token_seconds_count", **CHAT) == 2
    assert value(samples, "gen_ai_server_time_per_output_token_seconds_count", **CHAT) == 2
    of_output = {**CHAT, "gen_ai_token_type": "output"}
    assert value(samples, "gen_ai_client_token_usage_sum", **of_output) == 2 * STATS.num_output_tokens
    assert value(samples, "callgate_tokens_prompt_total", **MODEL) == 22
    assert value(samples, "callgate_tokens_cached_total", **MODEL) == 8
    assert value(samples, "callgate_tokens_forced_total", **MODEL) == 6
    assert value(samples, "callgate_tokens_rescued_total", **MODEL) == 4
    assert value(samples, "callgate_outputs_total", **MODEL, callgate_closed_by="budget") == 2
    assert value(samples, "callgate_mask_fills_total", **MODEL) == 8
    assert value(samples, "callgate_mask_fill_time_seconds_total", **MODEL) == pytest.approx(140e-6)
    assert value(samples, "callgate_mask_fill_slowest_seconds_bucket", **MODEL, le="1e-05") == 0
    assert value(samples, "callgate_mask_fill_slowest_seconds_bucket", **MODEL, le="2.5e-05") == 2
    assert value(samples, "callgate_mass_removed_sum", **MODEL) == pytest.approx(0.5)
    http = {"http_request_method": "POST", "http_route": URL, "http_response_status_code": "200"}
    assert value(samples, "http_server_request_duration_seconds_count", **http) == 2


async def test_a_text_completion_is_no_chat(client):
    await client.post("/v1/completions", json={"model": "tiny", "prompt": "Once"})
    samples = await read(client)
    labels = {**CHAT, "gen_ai_operation_name": "text_completion"}
    assert value(samples, "gen_ai_server_request_duration_seconds_count", **labels) == 1
    assert value(samples, "gen_ai_server_request_duration_seconds_count", **CHAT) is None


async def test_counters_of_rare_events_begin_at_zero(client, runtime):
    """Prometheus sees no increase in the first value of a series, so an alert would miss the first event."""
    runtime.script = text("Hello.", num_rescued_tokens=0)
    await client.post(URL, json=body())
    samples = await read(client)
    assert value(samples, "callgate_tokens_rescued_total", **MODEL) == 0
    counts = {"none": 1, "budget": 0, "verifier": 0}
    for closer, count in counts.items():
        assert value(samples, "callgate_outputs_total", **MODEL, callgate_closed_by=closer) == count


def test_waits_are_told_apart_up_to_the_longest_request():
    """An alert cannot tell waits apart that are longer than the last bucket."""
    for metric in (TIME_TO_FIRST_TOKEN, QUEUE_DURATION, REQUEST_DURATION):
        assert metric.buckets[-1] > REQUEST_S
    assert GRAMMAR_WAIT.buckets[-1] >= Settings().compile_request_seconds


async def test_a_request_without_an_engine_is_counted_by_its_error(client, runtime):
    runtime.health_now = Health(is_ready=False, reason="the engine a:1 cannot be reached")
    await client.post(URL, json=body())
    [labels] = series(await read(client), "http_server_request_duration_seconds_count")
    assert (labels["http_response_status_code"], labels["error_type"]) == ("503", "NotReady")


async def test_grammars_are_counted_by_tier_and_keyword(client, runtime):
    tools = [WEATHER, TIME]
    refused = {"type": "object", "properties": {"a": {"type": "string", "format": "my-own"}}}
    await client.post(URL, json=body(tools=tools))
    await client.post(URL, json=body(tools=tools))
    for schema in ({"$ref": "#/nowhere"}, refused | {"x-secret-word": {}}, False):
        await client.put("/v1/toolsets/bad", json={"tools": [{"name": "f", "parameters": schema}]})
    samples = await read(client)
    assert value(samples, "callgate_grammar_lookups_total", callgate_grammar_source="compiled") >= 2
    assert value(samples, "callgate_grammar_lookups_total", callgate_grammar_source="memory") == 2
    assert (
        value(samples, "callgate_grammar_compile_duration_seconds_count", callgate_grammar_kind="tool") >= 2
    )
    assert value(samples, "callgate_grammar_wait_seconds_count", callgate_grammar_source="memory") == 1
    assert value(samples, "callgate_grammar_refusals_total", callgate_schema_keyword="$ref") == 1
    assert value(samples, "callgate_grammar_queue") == 0
    assert value(samples, "callgate_grammar_cache_size_bytes") > 0


async def test_engines_are_measured_when_they_are_read(client, runtime):
    runtime.health_now = Health(is_ready=True, loads=(LOAD,), engines=(ELSEWHERE,))
    samples = await read(client)
    here = {**MODEL, "callgate_engine": "embedded"}
    there = {"gen_ai_request_model": "big", "callgate_engine": "vllm:8000"}
    assert value(samples, "callgate_engine_ready", **here) == 1
    assert value(samples, "callgate_engine_ready", **there) == 0
    assert value(samples, "callgate_engine_sequences", **here, callgate_state="waiting") == 2
    assert value(samples, "callgate_engine_sequences", **there, callgate_state="running") == 4
    assert value(samples, "callgate_engine_kv_pages", **here, callgate_state="used") == 24
    assert value(samples, "callgate_engine_step_sequences_total", **here) == 25
    assert value(samples, "callgate_engine_preemptions_total", **here) == 1
    assert value(samples, "callgate_engine_requests_total", **there, callgate_state="failed") == 2
    assert value(samples, "callgate_engine_canary_age_seconds", **there) == 12.54
    refused = "callgate_engine_refused_tokens_total"
    assert value(samples, refused, **there, callgate_state="unexpected") == 3
    assert value(samples, refused, **there, callgate_state="expected") == 2


async def test_what_an_engine_cannot_tell_is_absent_and_not_zero(client, runtime, spans):
    stats = GenerationStats(
        num_prompt_tokens=11, num_cached_tokens=0, num_output_tokens=7, num_refused_tokens=1
    )
    runtime.script = [*text("Hello.")[:-1], Finished(0, FinishReason.STOP, stats)]
    answer = (await client.post(URL, json=body())).json()
    assert answer["callgate"]["rescued_tokens"] is None
    samples = await read(client)
    for name in (
        "callgate_tokens_rescued_total",
        "callgate_mass_removed_count",
        "callgate_mask_fills_total",
    ):
        assert series(samples, name) == []
    assert (await client.get("/v1/system")).json()["totals"]["rescued_tokens"] is None
    kept = (await client.get("/v1/requests")).json()["requests"][0]
    assert (kept["rescued_tokens"], kept["mass_removed"]) == (None, None)
    chat = next(span for span in spans.get_finished_spans() if span.name == "chat tiny")
    assert not {"callgate.tokens.rescued", "callgate.mass.removed"} & chat.attributes.keys()


async def test_failures_are_labelled_with_their_kind(client, runtime):
    runtime.script = [GenerationFailed("a secret of the engine")]
    await client.post(URL, json=body())
    samples = await read(client)
    name = "gen_ai_server_request_duration_seconds_count"
    assert value(samples, name, **CHAT, error_type="GenerationFailed") == 1
    http = {"http_request_method": "POST", "http_route": URL, "http_response_status_code": "500"}
    name = "http_server_request_duration_seconds_count"
    assert value(samples, name, **http, error_type="GenerationFailed") == 1


@pytest.mark.parametrize(
    ("error", "label"),
    [
        (GenerationFailed("NaN logits"), {"error_type": "GenerationFailed"}),
        (GrammarTooSlow(1.0), {}),  # a mistake of the client, as in an answer with a 4xx
    ],
)
async def test_a_stream_that_fails_is_no_success(client, runtime, error, label):
    """Although it has sent the status 200."""
    runtime.script = [TextDelta(0, "And "), error]
    assert (await client.post(URL, json=body(stream=True))).status_code == 200
    http = {"http_request_method": "POST", "http_route": URL, "http_response_status_code": "200"}
    samples = await read(client)
    assert value(samples, "http_server_request_duration_seconds_count", **http, **label) == 1


async def test_nothing_that_clients_choose_is_a_label(client, runtime):
    """Neither names nor headers nor paths; however many come, there are as many series as before."""
    runtime.script = call("hidden_tool", "{}")
    for number in range(3):
        name = f"hidden-{number}"
        tool = chat_tool(f"hidden_{number}", hidden=number)
        await client.put(f"/v1/toolsets/{name}", json={"tools": [tool]})
        await client.post(
            URL,
            json=body(model=f"tiny:{name}", user=f"hidden-{number}"),
            headers={"x-request-id": f"hidden-{number}", "user-agent": "hidden"},
        )
        await client.post(URL, json=body(model=name))
        await client.get(f"/v1/toolsets/{name}/tools/hidden_{number}")
        await client.get(f"/v1/models/{name}")
        await client.get(f"/{name}")
        await client.request("HIDDEN", URL)
    text = (await client.get("/metrics")).text
    assert "hidden" not in text.lower()
    labels = {label for _, labels in await read(client) for label, _ in labels}
    known = {re.sub(r"\W", "_", label) for metric in METRICS for label in metric.labels}
    assert labels - known <= {"le", "service_instance_id", "service_name"} | {
        label for label in labels if label.startswith("telemetry_sdk")
    }


async def test_names_of_toolsets_are_labels_if_allowed_and_only_so_many(client_with):
    async with client_with(metrics_toolsets=True) as client:
        for number in range(MAX_TOOLSETS + 3):
            await client.put(f"/v1/toolsets/t{number}", json={"tools": []})
            assert (await client.post(URL, json=body(toolset=f"t{number}"))).status_code == 200
        samples = await read(client)
    names = {labels["callgate_toolset"] for labels in series(samples, "callgate_tokens_prompt_total")}
    assert names == {*(f"t{number}" for number in range(MAX_TOOLSETS)), OTHER}
    assert value(samples, "callgate_tokens_prompt_total", **MODEL, callgate_toolset=OTHER) == 33


async def test_drafts_are_counted_by_where_they_ended(client, runtime):
    broken = tuple(BrokenDraft(3, TokenPlace(part)) for part in ("syntax", "arguments", "arguments"))
    selection = SelectionStats("accept", 4, is_exact=True, num_computed_tokens=None, broken=broken)
    runtime.script = text("Hi", selection=selection)
    await client.post(URL, json=body())
    samples = await read(client)
    counts = {"taken": 1, "syntax": 1, "arguments": 2}
    for end, count in counts.items():
        assert value(samples, "callgate_drafts_total", **MODEL, callgate_draft_end=end) == count


async def test_every_metric_of_the_table_is_served(client, runtime, weather):
    runtime.health_now = Health(is_ready=True, loads=(LOAD,), engines=(ELSEWHERE,))
    refusing = GenerationStats(
        num_prompt_tokens=5,
        num_cached_tokens=1,
        num_output_tokens=3,
        num_forced_tokens=1,
        num_rescued_tokens=1,
        num_masks=2,
        num_masked_steps=2,
        mask_fill_us_sum=3.0,
        mask_fill_us_max=2.0,
        mass_removed=0.5,
        num_refused_tokens=1,
        selection=SelectionStats("draft", 1, is_exact=True, num_computed_tokens=8),
    )
    runtime.script = [*call("get_weather", "{}")[:-1], Finished(0, FinishReason.LENGTH, refusing, "budget")]
    runtime.steps = ("note_queued", "note_begun", "note_token")
    await client.post(URL, json=body(toolset="weather"))
    await client.put("/v1/toolsets/bad", json={"tools": [chat_tool("f", **IMPOSSIBLE)]})
    served = {name for name, _ in await read(client)}
    for metric in METRICS:
        stem = re.sub(r"\W", "_", metric.name)
        suffix = {Kind.HISTOGRAM: "_count", Kind.COUNTER: "_total", Kind.OBSERVABLE_COUNTER: "_total"}.get(
            metric.kind, ""
        )
        assert any(re.fullmatch(f"{stem}(_seconds|_bytes)?{suffix}", name) for name in served), metric.name


async def test_a_key_of_their_own_opens_metrics_and_nothing_else(client_with, tmp_path):
    keys = tmp_path / "metrics-keys"
    keys.write_text("# of Prometheus\nscrapers-key\n")
    async with client_with(
        api_key="a-key-of-a-client", metrics_key_file=str(keys), allowed_hosts="g.example"
    ) as client:
        assert await read(client, authorization="Bearer scrapers-key", host="10.0.0.7:8080")
        statuses = {"a-key-of-a-client": 403, "scrapers-ke": 401, "": 401}
        paths = ("/metrics", "/metrics/", "/metrics//", "/%2Fmetrics", "/%6detrics")
        for (key, status), path in itertools.product(statuses.items(), paths):
            response = await client.get(path, headers={"authorization": f"Bearer {key}"})
            assert response.status_code == status
        refused = await client.get("/metrics", headers={"authorization": "Bearer a-key-of-a-client"})
        assert "one of the keys of the setting metrics_key_file" in refused.text
        assert "a key with the scope admin" in refused.text
        for path, status in {"/v1/models": 403, "/v1/toolsets": 403, "/metrics/x": 404}.items():
            response = await client.get(path, headers={"authorization": "Bearer scrapers-key"})
            assert response.status_code == status, path


async def test_a_page_of_another_site_cannot_read_metrics(client):
    assert (await client.get("/metrics", headers={"origin": "http://evil.example"})).status_code == 403
    assert (await client.get("/metrics", headers={"host": "rebound.example"})).status_code == 403


async def test_without_metrics_there_is_no_route(client_with):
    async with client_with(metrics=False) as client:
        assert (await client.post(URL, json=body())).status_code == 200
        response = await client.get("/metrics")
        assert (response.status_code, response.json()["error"]["code"]) == (404, "no_metrics")


@pytest.mark.parametrize("content", ["", "# nothing\n", "short\n", "a-key-of-a-client\n", None])
def test_a_file_that_holds_no_key_of_its_own_fails_the_start(settings, tmp_path, content):
    keys = tmp_path / "metrics-keys"
    if content is not None:
        keys.write_text(content)
    settings = replace(settings, api_key="a-key-of-a-client", metrics_key_file=str(keys))
    with pytest.raises(SettingsError, match="metrics_key_file"):
        create_app(settings)


def test_every_metric_is_in_the_table():
    defined = {each.name for each in vars(metrics).values() if isinstance(each, metrics.Metric)}
    assert defined == {each.name for each in METRICS}, "list it in METRICS in gateway/telemetry/metrics.py"


def test_the_documented_table_is_the_table():
    rows = [
        f"| `{each.name}` | {each.kind.name.lower().removeprefix('observable_')} | `{each.unit}` | {each.description} |"
        f" {', '.join(f'`{label}`' for label in each.labels if label != TOOLSET)} |".replace("  ", " ")
        for each in METRICS
    ]
    text = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text("utf-8")
    section = text.partition("## Metrics\n")[2].partition("\n## ")[0]
    written = [line for line in section.splitlines() if line.startswith("| `")]
    lacking = "\n".join(row for row in rows if row not in written)
    assert not lacking, f"write these rows into docs/telemetry.md:\n{lacking}"
    assert written == rows, "a row of docs/telemetry.md is of no metric, or not in its place"
