"""A gateway in front of a real vLLM that speculates, with the plugin and without: it keeps the masks.

It drafts by earlier text. Such drafts leave the grammar all the time, and are partly right.
"""

import json
import re

import httpx
import pytest
from corpus import corpus
from engine_server import MODEL
from real_calls import assert_calls_valid, gateway_before, tiny_model_at
from vllm_server import SPECULATING, running_vllm

pytestmark = pytest.mark.engines

NUM_CALLS = 6
TOOLSETS = ("github", "office-word")
SECRET = "a secret of the tests"


@pytest.fixture(scope="module", params=["vllm", "vllm_stock"])
def place(request, tmp_path_factory):
    """An engine, a client of the gateway in front of it, and whether the engine has the plugin."""
    folder = tmp_path_factory.mktemp("speculation")
    plugin = {"store_url": f"sqlite://{folder}/callgate.db", "secret": SECRET}
    options = plugin if request.param == "vllm" else {}
    with running_vllm(folder, **options, options=SPECULATING) as server:
        model = tiny_model_at(server, request.param)
        with gateway_before(model, folder, compile_workers=1) as client:
            yield server, client, request.param == "vllm"


def counts(server, *names):
    """What it has counted, by the names of its metrics."""
    metrics = httpx.get(f"{server.url}/metrics").text
    found = [re.findall(rf"^vllm:{name}_total{{.*}} (\S+)$", metrics, re.MULTILINE) for name in names]
    return [sum(map(float, values)) for values in found]


def drafted(server):
    """How many tokens it has drafted, and how many of them it has written."""
    return counts(server, "spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens")


@pytest.mark.parametrize("toolset", TOOLSETS)
def test_calls_are_valid_and_the_plugin_writes_nothing_that_is_refused(place, toolset):
    """At temperature 0 the model repeats itself, so that drafts are right; at 1 most of them are wrong.

    Without the plugin, a marker in a string or a key that comes twice is refused, as without speculation.
    """
    server, client, has_plugin = place
    before = drafted(server)
    tools = json.loads(corpus("mcp", f"{toolset}.json").read_text("utf-8"))
    num_tokens = sum(
        assert_calls_valid(client, MODEL, toolset, tools, NUM_CALLS, temperature) for temperature in (0, 1)
    )
    num_drafted, num_accepted = (now - then for now, then in zip(drafted(server), before, strict=True))
    print(
        f"{toolset}: {2 * NUM_CALLS} answers, {num_tokens} tokens, {num_drafted} drafted, {num_accepted} kept"
    )
    assert num_drafted > num_accepted > 0
    (state,) = client.get("/v1/engines").json()["data"]
    assert state["failed"] == 0
    assert state["refused_tokens"] == 0 or not has_plugin


def test_a_call_that_has_no_room_is_left_out_and_the_text_goes_on(place):
    """The engine is told so without a `logit_bias`, which a vLLM that speculates refuses."""
    _, client, _ = place
    parameters = {"type": "object", "properties": {"mode": {"enum": ["on", "off"]}}, "required": ["mode"]}
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Call set_mode with mode on."}],
        "tools": [{"type": "function", "function": {"name": "set_mode", "parameters": parameters}}],
        "temperature": 0,
    }
    num_engine_requests = []
    for max_tokens in (60, 9):  # with room, it calls
        before = client.get("/v1/engines").json()["data"][0]["served"]
        answer = client.post(
            "/v1/chat/completions", json=body | {"max_tokens": max_tokens}
        ).raise_for_status()
        (choice,) = answer.json()["choices"]
        assert bool(choice["message"].get("tool_calls")) == (max_tokens == 60)
        num_engine_requests.append(client.get("/v1/engines").json()["data"][0]["served"] - before)
    assert choice["message"]["content"]
    assert num_engine_requests[1] == 2


@pytest.mark.parametrize("field", [{"logit_bias": {"5": 1.0}}, {"min_p": 0.1}])
def test_a_client_is_told_which_of_its_fields_is_not_taken(place, field):
    _, client, _ = place
    [name] = field
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}], "temperature": 1} | field
    answer = client.post("/v1/chat/completions", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, name)
