"""Two real engines of a kind behind one gateway, and a Redis: what happens when they are paused, killed or lost.

Every answer is valid, or an error that says what failed. What comes back is used again, by itself.
"""

import json
import signal
import time
from contextlib import ExitStack, contextmanager
from functools import partial

import jsonschema_rs
import pytest
from engine_server import in_slices, once_ready
from redis_server import running_redis
from serving import served, server_of
from sglang_server import starting_sglang
from vllm_server import starting_vllm

from gateway.app import create_app
from gateway.model_settings import ModelSettings
from gateway.settings import Settings

pytestmark = pytest.mark.engines

SECRET = "a secret of the tests"
STARTING = {"vllm": starting_vllm, "sglang": starting_sglang}
COMPLETIONS = "/v1/chat/completions"
LONG = {
    "type": "object",
    "properties": {
        "lines": {
            "type": "array",
            "items": {"type": "string", "minLength": 16, "maxLength": 24},
            "minItems": 60,
            "maxItems": 64,
            "uniqueItems": True,
        }
    },
    "required": ["lines"],
}
"""A thousand tokens, under a guard: whatever happens, happens before its end."""
BEGINNING = '{"lines": ["'
"""The gateway writes it by itself."""


def long_tool(name):
    return {"type": "function", "function": {"name": name, "parameters": LONG}}


def fresh_tool(number):
    """A tool whose grammar nobody has compiled before; an engine chooses one of two values."""
    values = {"enum": [f"value {number}", f"{number} is another one"]}
    schema = {"type": "object", "properties": {"x": values}, "required": ["x"]}
    return {"type": "function", "function": {"name": f"fresh_{number}", "parameters": schema}}


class Gateway:
    """A gateway over two engines; the answers that it gives are checked."""

    def __init__(self, client, engines):
        self.client = client
        self.engines = engines

    def states(self):
        return {state["engine"]: state for state in self.client.get("/v1/engines").json()["data"]}

    def busy(self):
        """The engine that computes the only request."""
        states = self.states()
        return next(e for e in self.engines if states[f"127.0.0.1:{e.port}"]["running"])

    def wait(self, condition, what):
        """The seconds until the states of the engines are so."""
        start = time.monotonic()
        while not condition(self.states()):
            assert time.monotonic() - start < 180, what
            time.sleep(0.05)
        return time.monotonic() - start

    def are_up(self, *engines):
        names = {f"127.0.0.1:{e.port}" for e in engines}
        return lambda states: all(states[name]["circuit"] == "closed" for name in names)

    def body(self, tool, **options):
        return {
            "model": "tiny",
            "messages": [{"role": "user", "content": "Go on."}],
            "tools": [tool],
            "tool_choice": "required",
            "parallel_tool_calls": False,
            "max_tokens": 3800,
        } | options

    def ask(self, tool):
        return self.client.post(COMPLETIONS, json=self.body(tool))

    def is_answered(self, tool):
        answer = self.ask(tool)
        assert answer.status_code == 200, answer.text
        (call,) = answer.json()["choices"][0]["message"]["tool_calls"]
        jsonschema_rs.validate(tool["function"]["parameters"], json.loads(call["function"]["arguments"]))
        return True

    def stream(self, tool, number):
        """A streamed call whose engine gets a signal while it writes: how it ended, and which engine that was."""
        answer, broken = Streamed(), None
        with (
            in_slices(self.engines) as stop_engines,
            self.client.stream("POST", COMPLETIONS, json=self.body(tool, stream=True)) as response,
        ):
            assert response.status_code == 200, response.read()
            for line in response.iter_lines():
                if not line.startswith("data: {"):
                    continue
                answer.read(json.loads(line.removeprefix("data: ")))
                if broken is None and len(answer.text) > len(BEGINNING):
                    stop_engines()
                    broken = self.busy()
                    broken.signal(number)
                    for engine in self.engines:
                        if engine is not broken:
                            engine.signal(signal.SIGCONT)
        assert broken is not None, "the call ended before it began"
        return answer, broken


class Streamed:
    """The arguments of a streamed call, the error that it ended with, and the longest pause in seconds."""

    def __init__(self):
        self.text, self.error, self.stalled_s = "", None, 0.0
        self._last = time.monotonic()

    def read(self, event):
        self.error = event.get("error", self.error)
        for choice in event.get("choices", ()):
            for call in choice["delta"].get("tool_calls") or ():
                self.text += call["function"].get("arguments") or ""
        now = time.monotonic()
        self.stalled_s, self._last = max(self.stalled_s, now - self._last), now

    def is_whole(self):
        assert self.error is None
        jsonschema_rs.validate(LONG, json.loads(self.text))
        return True


def are_dead(states):
    return all(state["circuit"] == "open" for state in states.values())


@contextmanager
def gateway_over(engines, store_url, folder):
    urls = tuple(engine.url for engine in engines)
    settings = Settings(
        data_dir=str(folder),
        secret=SECRET,
        store=store_url,
        compile_workers=1,
        models=(ModelSettings(model="tiny", engine=engines[0].kind, engine_url=urls, prompt_tools="none"),),
    )
    with served(server_of(create_app(settings), settings)) as client:
        client.timeout = 300
        gateway = Gateway(client, engines)
        gateway.wait(gateway.are_up(*engines), "both pass the canary")
        yield gateway


@pytest.fixture(scope="module", params=STARTING)
def place(request, tmp_path_factory):
    """What starts an engine, a Redis that forgets what it held when it is killed, and a gateway over two engines."""
    folder = tmp_path_factory.mktemp("faults")
    with ExitStack() as stack:
        redis = stack.enter_context(running_redis(folder))
        starting = partial(STARTING[request.param], folder, store_url=redis.url, secret=SECRET)
        engines = [stack.enter_context(starting()) for _ in range(2)]
        for engine in engines:
            engine.wait()
        yield starting, redis, stack.enter_context(gateway_over(engines, redis.url, folder))


def test_an_answer_goes_on_elsewhere_when_its_engine_is_paused(place):
    """It stalls until the engine is found to be dead: two probes of five seconds."""
    _, _, gateway = place
    tool = long_tool("while_paused")
    answer, paused = gateway.stream(tool, signal.SIGSTOP)
    assert answer.is_whole()
    assert gateway.is_answered(tool)
    states = gateway.states()
    assert [state["circuit"] for state in states.values()].count("closed") == 1
    paused.signal(signal.SIGCONT)
    recovered = gateway.wait(gateway.are_up(*gateway.engines), "it takes requests again")
    print(f"\npaused: the answer went on after {answer.stalled_s:.1f} s", end="")
    print(f", the engine was used {recovered:.1f} s after it ran")


def test_what_engines_have_read_is_served_while_the_store_is_down_and_the_rest_refused(place):
    _, redis, gateway = place
    assert gateway.is_answered(known := fresh_tool(1))
    assert gateway.is_answered(known)
    redis.kill()
    try:
        assert gateway.is_answered(known)
        for number in range(10, 16):  # more failures than open a circuit
            refused = gateway.ask(fresh_tool(number))
            assert refused.status_code == 503
            assert refused.json()["error"]["code"] == "store_unavailable"
        assert gateway.is_answered(known)
        assert gateway.are_up(*gateway.engines)(gateway.states())
    finally:
        start = time.monotonic()
        redis.start()
    while (answer := gateway.ask(fresh_tool(20))).status_code != 200:
        assert answer.json()["error"]["code"] == "store_unavailable"
        assert time.monotonic() - start < 60
    print(
        f"\nstore down: a new toolset was answered {time.monotonic() - start:.1f} s after the store came back"
    )
    assert gateway.is_answered(fresh_tool(21))


def test_an_answer_goes_on_elsewhere_when_its_engine_is_killed_and_the_last_engine_is_named(place):
    """Then one is started anew, and the store has lost everything: the gateway publishes it again."""
    starting, redis, gateway = place
    tool = long_tool("while_killed")
    answer, killed = gateway.stream(tool, signal.SIGKILL)
    assert answer.is_whole()
    print(f"\nkilled: the answer went on after {answer.stalled_s:.2f} s")

    answer, last = gateway.stream(tool, signal.SIGKILL)
    assert {killed, last} == {*gateway.engines}
    assert answer.error["code"] == "engine_failed"
    assert f"127.0.0.1:{last.port}" in answer.error["message"]
    gateway.wait(are_dead, "both are found dead")
    refused = gateway.ask(tool)
    assert refused.status_code == 503
    assert all(f"127.0.0.1:{engine.port}" in refused.json()["error"]["message"] for engine in (killed, last))

    redis.kill()
    redis.start()
    with once_ready(starting(port=killed.port)) as again:
        recovered = gateway.wait(gateway.are_up(again), "it takes requests again")
        print(f"started anew: used {recovered:.1f} s after it answered")
        assert gateway.is_answered(tool)
        assert gateway.is_answered(fresh_tool(30))
