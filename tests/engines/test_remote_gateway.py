"""A gateway in front of two external engines, from its settings to what OpenAI's client reads."""

import json
from dataclasses import replace

import jsonschema_rs
import openai
import pytest
from completions_server import SECRET, StandIn, serving
from fake_runtime import FakeRuntime
from serving import served, server_of, wait_for
from typer.testing import CliRunner

from gateway.app import create_app
from gateway.cli import cli
from gateway.setting_sources import load
from gateway.settings import Settings
from runtime.engines.grammar_loader import GrammarLoader
from runtime.models.random_model import RandomModelSettings, ensure_random_model
from runtime.protocol import Circuit, ReplicaState
from runtime.text.tokenizer import load_tokenizer
from toolspecs.stores import open_store

PAY = {
    "type": "object",
    "properties": {"to": {"type": "string", "maxLength": 20}, "cents": {"type": "integer", "minimum": 1}},
    "required": ["to", "cents"],
}
TOOLS = [
    {"type": "function", "function": {"name": "pay", "parameters": PAY}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}},
]
NAMED = {"type": "function", "function": {"name": "pay"}}
HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def configured(tmp_path_factory):
    """The settings of a gateway over two engines that link grammars from its store, as the plugin does."""
    folder = tmp_path_factory.mktemp("gateway")
    model = ensure_random_model(folder, RandomModelSettings(hidden_size=64, num_layers=2))
    text = load_tokenizer(model)
    url = f"sqlite://{folder}/callgate.db"
    loader = GrammarLoader(lambda: open_store(url), SECRET, text.prepared, cache_bytes=2**28)
    stand_ins = [StandIn(text, grammar_of=loader.grammar) for _ in range(2)]
    with serving(stand_ins[0]) as one, serving(stand_ins[1]) as other:
        config = folder / "callgate.toml"
        config.write_text(
            f"""
            data_dir = "{folder}"
            secret = "{SECRET.decode()}"
            compile_workers = 0
            [[models]]
            model = "{model}"
            model_name = "big"
            aliases = ["gpt-4o", "claude-*"]
            engine = "vllm"
            engine_url = ["{one}", "{other}"]
            engine_headers = {{ X-Team = "tools" }}
            prompt_tools = "allowed"
            [[models]]
            model = "{model}"
            model_name = "small"
            """
        )
        yield load({}, environment={}, config=config), stand_ins
    loader.close()


@pytest.fixture(scope="module")
def engines(configured):
    """A gateway over two engines, and these."""
    settings, stand_ins = configured
    with served(server_of(create_app(settings), settings)) as client:
        wait_for(lambda: all(e["circuit"] == "closed" for e in client.get("/v1/engines").json()["data"]))
        yield client, stand_ins


@pytest.fixture
def client(engines):
    return engines[0]


@pytest.fixture
def openai_client(client):
    return openai.OpenAI(base_url=f"{client.base_url}/v1", api_key="none", max_retries=0)


@pytest.mark.parametrize("model", ["big", "small", "claude-9", "gpt-4o"])
@pytest.mark.parametrize("choice", ["required", NAMED])
def test_calls_are_valid_whatever_runs_the_model(openai_client, model, choice):
    answer = openai_client.chat.completions.create(
        model=model, messages=HELLO, tools=TOOLS, tool_choice=choice, max_tokens=80, n=2
    )
    assert answer.model == ("small" if model == "small" else "big")
    for one in answer.choices:
        for call in one.message.tool_calls:
            schema = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
            jsonschema_rs.validate(schema[call.function.name], json.loads(call.function.arguments))


def test_an_engines_spans_belong_to_the_callers_trace(engines):
    client, stand_ins = engines
    trace = "0af7651916cd43dd8448eb211c80319c"
    asked = {"model": "big", "messages": HELLO, "tools": TOOLS, "tool_choice": "required", "max_tokens": 80}
    sent = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
    answer = client.post("/v1/chat/completions", json=asked, headers=sent)
    assert answer.status_code == 200, answer.text
    assert answer.json()["callgate"]["rescued_tokens"] is None, "the engine cannot tell; it is not zero"
    got = [head["traceparent"] for engine in stand_ins for head in engine.headers if "traceparent" in head]
    assert {context.split("-")[1] for context in got} == {trace}, "it may be asked again for want of room"
    scraped = client.get("/metrics").text
    assert 'callgate_engine_ready{callgate_engine="127.0.0.1:' in scraped
    assert 'callgate_tokens_rescued_total{gen_ai_request_model="big"' not in scraped


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("retry_after", "told"), [("", "1"), ("7", "7")])
@pytest.mark.parametrize("tools", [{}, {"tools": TOOLS, "tool_choice": NAMED}], ids=["text", "call"])
def test_what_full_engines_refuse_says_when_to_try_again(engines, stream, tools, retry_after, told):
    """Also where a call is forced: its name must not reach the client before an engine takes the request."""
    client, stand_ins = engines
    for stand_in in stand_ins:
        stand_in.status, stand_in.retry_after = 429, retry_after
    body = {"model": "big", "messages": HELLO, "stream": stream} | tools
    refused = client.post("/v1/chat/completions", json=body)
    for stand_in in stand_ins:
        stand_in.status = 200
    assert refused.status_code == 429
    assert refused.headers["Retry-After"] == told
    assert refused.json()["error"]["code"] == "engine_full"
    assert "has no room for the request" in refused.json()["error"]["message"]
    answer = client.post("/v1/chat/completions", json={"model": "big", "messages": HELLO, "max_tokens": 5})
    assert answer.status_code == 200


def test_a_streamed_call_has_valid_arguments(openai_client):
    stream = openai_client.chat.completions.create(
        model="big", messages=HELLO, tools=TOOLS, tool_choice=NAMED, max_tokens=80, stream=True
    )
    deltas = [chunk.choices[0].delta for chunk in stream if chunk.choices]
    text = "".join(c.function.arguments or "" for d in deltas for c in d.tool_calls or ())
    jsonschema_rs.validate(PAY, json.loads(text))


def shown_tools(client, body):
    """The tools in the prompt of a request: this model's template shows names only, a line each."""
    tokens = client.post("/tokenize", json=body).json()["tokens"]
    text = client.post("/detokenize", json={"model": "big", "tokens": tokens}).json()["prompt"]
    return text.partition("XML tags:\n<tools>")[2].partition("</tools>")[0].split()


@pytest.mark.parametrize(
    ("prompt_tools", "shown"), [("all", ["pay", "now"]), (None, ["pay"]), ("allowed", ["pay"]), ("none", [])]
)
def test_the_prompt_shows_the_tools_that_are_asked_for(client, prompt_tools, shown):
    body = {"model": "big", "messages": HELLO, "tools": TOOLS, "tool_choice": NAMED}
    assert shown_tools(client, body | ({"prompt_tools": prompt_tools} if prompt_tools else {})) == shown


def test_a_toolset_says_which_of_its_tools_prompts_show(client):
    """A request says it first, then the toolset, then the model, which shows the allowed ones here."""
    tools = [tool["function"] for tool in TOOLS]
    for name, own in [("quiet", "none"), ("loud", "all"), ("plain", None)]:
        renamed = [tool | {"name": f"{name}_{tool['name']}"} for tool in tools]
        put = client.put(f"/v1/toolsets/{name}", json={"tools": renamed, "prompt_tools": own})
        assert put.status_code == 201
        assert client.get(f"/v1/toolsets/{name}").json()["prompt_tools"] == own
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
        {"type": "function", "function": {"name": f"{name}_pay"}} for name in ("quiet", "loud", "plain")
    ]}}  # fmt: skip
    body = {"model": "big", "messages": HELLO, "toolset": ["quiet", "loud", "plain"], "tool_choice": choice}
    assert shown_tools(client, body) == ["loud_pay", "loud_now", "plain_pay"]
    assert shown_tools(client, body | {"prompt_tools": "none"}) == []


def test_an_unknown_choice_of_shown_tools_is_refused(client):
    body = {"model": "big", "messages": HELLO, "tools": TOOLS, "prompt_tools": "some"}
    refused = client.post("/v1/chat/completions", json=body)
    assert refused.status_code == 400
    assert "prompt_tools" in refused.json()["error"]["message"]
    refused = client.put("/v1/toolsets/odd", json={"tools": [], "prompt_tools": "some"})
    assert refused.status_code == 400
    assert "prompt_tools" in refused.text


def test_a_gateway_that_has_started_has_tried_its_engines(configured):
    """Else each new gateway of a rolling upgrade would refuse the requests of its first seconds."""
    settings, _ = configured
    with served(server_of(create_app(settings), settings)) as client:
        asked = {"model": "big", "messages": HELLO, "max_tokens": 2}
        assert client.post("/v1/chat/completions", json=asked).status_code == 200


def test_engines_that_do_not_answer_hold_up_no_start(tmp_path, monkeypatch):
    class Untried(FakeRuntime):
        async def health(self):
            state = ReplicaState("tiny", "gpu:8000", Circuit.OPEN, "?", "", 0, 0, 0, 0, None, is_untried=True)
            return replace(await super().health(), engines=(state,))

    monkeypatch.setattr("gateway.app.FIRST_TRIAL_S", 0.2)
    settings = Settings(data_dir=str(tmp_path), compile_workers=0)
    with served(server_of(create_app(settings, runtime=Untried()), settings)) as client:
        assert client.get("/healthz").status_code == 200


def test_the_engines_are_listed(client):
    shown = CliRunner().invoke(cli, ["engines", "--url", str(client.base_url)])
    assert shown.exit_code == 0
    assert shown.output.count("yes") == 2
    assert "0.32.0" in shown.output


def test_engines_without_the_plugin_take_no_requests_and_everybody_is_told_why(engines, openai_client):
    _, stand_ins = engines
    for stand_in in stand_ins:
        stand_in.has_plugin = False
    try:
        with pytest.raises(openai.InternalServerError, match="without Callgate's plugin"):
            openai_client.chat.completions.create(
                model="big", messages=HELLO, tools=TOOLS, tool_choice="required", max_tokens=80
            )
    finally:
        for stand_in in stand_ins:
            stand_in.has_plugin = True


@pytest.mark.parametrize("field", [{"logit_bias": {"5": 1.0}}, {"min_p": 0.1}])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_client_is_told_which_of_its_fields_an_engine_that_speculates_does_not_take(
    engines, field, is_streamed
):
    """The engine's refusal was a 502, and named both fields."""
    [name], (client, stand_ins) = field, engines
    for stand_in in stand_ins:
        stand_in.speculates = True
    body = {"model": "big", "messages": HELLO, "max_tokens": 9, "stream": is_streamed}
    try:
        assert client.post("/v1/chat/completions", json=body).is_success
        answer = client.post("/v1/chat/completions", json=body | field)
    finally:
        for stand_in in stand_ins:
            stand_in.speculates = False
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, name)
    assert "speculates" in answer.json()["error"]["message"]
