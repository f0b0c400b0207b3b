"""What a collector receives of a request, from a gateway with a model of its own, over real sockets."""

import pytest
from otlp_receiver import RECEIVING, counts, value_of, values
from sample_tools import TIME, WEATHER
from serving import served, server_of

from gateway.app import create_app
from gateway.settings import Settings
from runtime.models.random_model import RandomModelSettings, ensure_random_model

TRACE = "0af7651916cd43dd8448eb211c80319c"
MODEL = "small"
BODY = {
    "model": f"{MODEL}:city",
    "messages": [{"role": "user", "content": "a secret"}],
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "max_tokens": 60,
    "seed": 1,
}


@pytest.fixture(scope="module", params=RECEIVING)
def asked(request, tmp_path_factory):
    """What was answered, and what the collector received, once the gateway had ended."""
    folder = tmp_path_factory.mktemp("otlp")
    source = ensure_random_model(folder, RandomModelSettings(hidden_size=64, num_layers=2))
    with RECEIVING[request.param]() as (url, received):
        settings = Settings(
            model=str(source),
            model_name=MODEL,
            data_dir=str(folder),
            compile_workers=0,
            num_threads=1,
            telemetry="otlp",
            otlp_protocol=request.param,
            otlp_endpoint=url,
        )
        with served(server_of(create_app(settings), settings)) as client:
            first = client.put("/v1/toolsets/city", json={"tools": [WEATHER]})
            assert first.status_code == 201, first.text
            tools = [{"type": "function", "function": {**TIME["function"], "name": "time_of_day"}}]
            headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
            answer = client.post("/v1/chat/completions", json=BODY | {"tools": tools}, headers=headers)
            assert answer.status_code == 200, answer.text
            scraped = client.get("/metrics").text
        yield answer.json(), received, scraped


def test_the_tree_of_a_request(asked):
    _, received, _ = asked
    registering, tree = received.trees()
    assert registering[0] == "PUT /v1/toolsets/{toolset}"
    below = [("grammar", [("compile", [])]), ("queue", []), ("prefill", []), ("decode", [])]
    assert tree == ("POST /v1/chat/completions", [(f"chat {MODEL}", below)])


def test_each_step_lasts_until_the_next(asked):
    _, received, _ = asked
    [chat], [grammar] = received.named(f"chat {MODEL}"), received.named("grammar")
    [queue], [prefill], [decode] = map(received.named, ("queue", "prefill", "decode"))
    moments = [
        *(chat.start_time_unix_nano, grammar.start_time_unix_nano, grammar.end_time_unix_nano),
        *(queue.start_time_unix_nano, prefill.start_time_unix_nano, decode.start_time_unix_nano),
        *(decode.end_time_unix_nano, chat.end_time_unix_nano),
    ]
    assert moments == sorted(moments)
    assert queue.end_time_unix_nano == prefill.start_time_unix_nano
    assert prefill.end_time_unix_nano == decode.start_time_unix_nano


def test_what_the_spans_say(asked):
    answer, received, _ = asked
    [chat], [grammar] = received.named(f"chat {MODEL}"), received.named("grammar")
    assert chat.trace_id.hex() == TRACE
    said, usage, own = values(chat.attributes), answer["usage"], answer["callgate"]
    assert (said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]) == (
        usage["prompt_tokens"],
        usage["completion_tokens"],
    )
    assert said["callgate.tokens.rescued"] == own["rescued_tokens"] > 0
    assert 0 < said["callgate.mass.removed"] < 1
    [event] = [event for event in chat.events if event.name == "call"]
    [call] = answer["choices"][0]["message"]["tool_calls"]
    assert values(event.attributes)["gen_ai.tool.name"] == call["function"]["name"]
    found = values(grammar.attributes)
    assert (found["callgate.toolset"], found["callgate.grammar.source"]) == ("city", "compiled")
    assert found["callgate.grammar.digest"] == said["callgate.grammar.digest"] == own["grammar_digest"]
    assert received.resources[0]["service.name"] == "callgate"


def test_no_content_is_sent(asked):
    answer, received, scraped = asked
    arguments = answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    sent = [value_of(each.value) for span in received.spans for each in span.attributes]
    sent += [value_of(each.value) for span in received.spans for e in span.events for each in e.attributes]
    assert not any("a secret" in str(value) or arguments in str(value) for value in sent)
    assert "a secret" not in scraped


def test_the_same_metrics_are_sent_as_are_scraped(asked):
    answer, received, scraped = asked
    labels = frozenset({("gen_ai.request.model", MODEL)})
    num_rescued = answer["callgate"]["rescued_tokens"]
    assert counts(received.metrics["callgate.tokens.rescued"]) == {labels: num_rescued}
    assert f'callgate_tokens_rescued_total{{gen_ai_request_model="{MODEL}"}} {num_rescued}.0' in scraped
    [(turn, number)] = counts(received.metrics["gen_ai.server.request.duration"]).items()
    assert (dict(turn)["gen_ai.request.model"], number) == (MODEL, 1)
    [steps] = counts(received.metrics["callgate.engine.steps"]).values()
    [stepped] = counts(received.metrics["callgate.engine.step.sequences"]).values()
    assert steps == stepped > 0, "one sequence was alone in each step"
    assert "# TYPE callgate_engine_steps_total counter" in scraped
    names = {name.replace(".", "_") for name in received.metrics}
    assert all(any(f"# TYPE {name}" in scraped for name in names if name in stem) for stem in names)
