"""A gateway in front of a real vLLM or SGLang on a CPU: OpenAI's client, 117 tools, every kind of request."""

import asyncio
import json
import random
import signal
from dataclasses import dataclass, field
from functools import partial

import jsonschema_rs
import openai
import pytest
from corpus import corpus
from engine_server import once_it_runs
from serving import served, server_of, wait_for
from sglang_server import running_sglang
from vllm_server import running_vllm

from gateway.app import create_app
from gateway.model_settings import ModelSettings
from gateway.settings import Settings

pytestmark = pytest.mark.engines

NUM_CALLS = 300
SECRET = "a secret of the tests"
RUNNING = {
    "vllm": partial(running_vllm, options=("--enable-prompt-tokens-details",)),
    "sglang": running_sglang,
}


@pytest.fixture(scope="module", params=RUNNING)
def engine(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gateway")
    store_url = f"sqlite://{folder}/callgate.db"
    with RUNNING[request.param](folder, store_url=store_url, secret=SECRET) as server:
        yield folder, server


@pytest.fixture(scope="module")
def client(engine):
    folder, server = engine
    settings = Settings(
        data_dir=str(folder),
        secret=SECRET,
        compile_workers=1,
        models=(
            ModelSettings(model="tiny", engine=server.kind, engine_url=(server.url,), prompt_tools="none"),
        ),
    )
    with served(server_of(create_app(settings), settings)) as client:
        client.timeout = 300
        wait_for(lambda: client.get("/v1/engines").json()["data"][0]["circuit"] == "closed", limit_s=120)
        yield client


@pytest.fixture(scope="module")
def validators(client):
    tools = json.loads(corpus("mcp", "github.json").read_text("utf-8"))
    assert client.put("/v1/toolsets/github", json={"tools": tools}).status_code in {200, 201}
    return {tool["name"]: jsonschema_rs.validator_for(tool["inputSchema"]) for tool in tools}


@dataclass
class Answer:
    """What came back: the reason why it ended, and the name and arguments of each call."""

    reason: str | None = None
    calls: dict[int, list[str]] = field(default_factory=dict)

    def read(self, choice, message):
        self.reason = choice.finish_reason or self.reason
        for number, call in enumerate(message.tool_calls or ()):
            call_texts = self.calls.setdefault(getattr(call, "index", number), ["", ""])
            call_texts[0] += call.function.name or ""
            call_texts[1] += call.function.arguments or ""


def least_budget(client, choice):
    """The shortest answer, as the gateway's refusal of a budget of one token says."""
    body = {"model": "tiny", "messages": [{"role": "user", "content": "x"}], "toolset": "github"}
    refused = client.post("/v1/chat/completions", json=body | {"tool_choice": choice, "max_tokens": 1})
    return int(refused.json()["error"]["message"].rsplit(" ", 1)[-1])


async def ask(model, rng, choice, least):
    """One request of random options, with a budget from the least up."""
    content = f"List the issues of octo/hello, page {rng.randrange(99)}."
    response = await model.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": content}],
        tool_choice=choice,
        max_tokens=rng.choice([least, least + 1, least + 5, least + 20, least + 150]),
        temperature=rng.choice([0, 0.7, 1]),
        parallel_tool_calls=rng.random() < 0.5,
        stream=(is_streamed := rng.random() < 0.5),
        extra_body={"toolset": "github"},
    )
    answer = Answer()
    if not is_streamed:
        answer.read(response.choices[0], response.choices[0].message)
        return answer
    async for chunk in response:
        for one in chunk.choices:
            answer.read(one, one.delta)
    return answer


async def test_calls_over_many_tools_are_valid_and_never_cut_off(client, validators):
    rng = random.Random(1)
    named = [{"type": "function", "function": {"name": name}} for name in rng.sample(sorted(validators), 20)]
    kinds = ["required", *named]
    least = {str(kind): least_budget(client, kind) for kind in kinds} | {"auto": 1}
    asked = [rng.choice(["required", "required", "auto", rng.choice(named)]) for _ in range(NUM_CALLS)]
    at_once = asyncio.Semaphore(8)
    async with openai.AsyncOpenAI(
        base_url=f"{client.base_url}/v1", api_key="x", timeout=300, max_retries=0
    ) as model:

        async def answered(choice):
            async with at_once:
                return await ask(model, rng, choice, least[str(choice)])

        answers = await asyncio.gather(*map(answered, asked))
    for choice, answer in zip(asked, answers, strict=True):
        assert answer.reason in {"stop", "length", "tool_calls"}
        assert choice == "auto" or answer.calls
        for name, arguments in answer.calls.values():
            validators[name].validate(json.loads(arguments))
    (state,) = client.get("/v1/engines").json()["data"]
    assert (state["failed"], state["refused_tokens"]) == (0, 0)


MODE = {"type": "object", "properties": {"mode": {"enum": ["on", "off"]}}, "required": ["mode"]}
ONE_CALL = {
    "tools": [{"type": "function", "function": {"name": "set_mode", "parameters": MODE}}],
    "parallel_tool_calls": False,
}
ENDED_BY_THE_ENGINE = {
    "required": ({"tool_choice": "required", **ONE_CALL}, "tool_calls"),
    "auto": ({"tool_choice": "auto", **ONE_CALL}, "tool_calls"),
    "text": ({"max_tokens": 8}, "length"),
}


@pytest.mark.parametrize("kind", ENDED_BY_THE_ENGINE)
def test_what_the_engine_had_in_its_cache_is_reported(client, kind):
    """Of answers that end within their budget: vLLM does not tell it of a request that the closer aborts."""
    options, ending = ENDED_BY_THE_ENGINE[kind]
    messages = [{"role": "user", "content": f"Repeat {kind}: " + "a long text " * 200}]
    body = {"model": "tiny", "messages": messages, "temperature": 0, **options}
    answers = [client.post("/v1/chat/completions", json=body).json() for _ in range(3)]
    assert {answer["choices"][0]["finish_reason"] for answer in answers} == {ending}
    usages = [answer["usage"] for answer in answers]
    cached = [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages]
    assert cached[0] < cached[-1] <= usages[-1]["prompt_tokens"]


def test_a_prompt_may_fill_the_context_but_for_one_token(client):
    """SGLang keeps six tokens of its context to itself."""
    model, *_ = client.get("/v1/models").json()["data"]  # behind it come its names with toolsets

    def complete(num_left):
        body = {"model": "tiny", "prompt": [5] * (model["context_length"] - num_left), "max_tokens": 50}
        return client.post("/v1/completions", json=body)

    for num_left in (1, 2, 5, 9):
        answer = complete(num_left).raise_for_status().json()
        assert answer["usage"]["completion_tokens"] <= num_left
    assert complete(0).json()["error"]["code"] == "context_length_exceeded"


def test_an_engine_that_is_killed_while_it_answers_is_named(engine, client):
    """The last test: it ends the engine."""
    _, server = engine
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "stream": True}
    long = body | {"max_tokens": 3000, "min_tokens": 3000}
    with (
        once_it_runs(client, lambda: server.signal(signal.SIGKILL)),
        client.stream("POST", "/v1/chat/completions", json=long) as response,
    ):
        lines = [line for line in response.iter_lines() if line]
    assert server.url.removeprefix("http://") in lines[-1], (len(lines), lines[-3:])
    assert json.loads(lines[-1].removeprefix("data: "))["error"]["code"] == "engine_failed"
    # While a killed process is torn down, it may still take connections, and resets them.
    wait_for(lambda: "cannot be reached" in client.get("/readyz").json().get("reason", ""))
    assert client.get("/readyz").status_code == 503
    assert client.post("/v1/chat/completions", json=body).status_code == 503
