"""Answers that are inspected: what is told of each token holds neither the event loop nor the engine."""

import threading

from fake_runtime import STATS, FakeRuntime
from litestar.testing import AsyncTestClient

from gateway.app import create_app
from gateway.generation.inspected_tokens import PlaceSchema
from runtime.events import Finished, FinishReason, InspectedToken
from runtime.inspection import Cause, Inspection, TokenPlace
from runtime.text.places import JsonPaths

BODY = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "?"}],
    "tools": [
        {
            "type": "function",
            "function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}},
        }
    ],
    "callgate": {"inspect": True},
}
SCRIPT = [
    InspectedToken(0, 9, "x", Inspection(Cause.FREE), TokenPlace("arguments", 0, "f", ("a",), "value"), ()),
    Finished(0, FinishReason.STOP, STATS),
]


async def test_the_schema_of_a_token_is_found_off_the_event_loop(settings, monkeypatch):
    """Tools of a megabyte are read whole: that of one inspected call would stop the event loop for 0.3 s."""
    threads = []
    pointer = PlaceSchema.pointer

    def noted(schema, path):
        threads.append(threading.get_ident())
        return pointer(schema, path)

    monkeypatch.setattr(PlaceSchema, "pointer", noted)
    loops = []
    app = create_app(settings, runtime=FakeRuntime(SCRIPT))
    app.on_startup.append(lambda: loops.append(threading.get_ident()))
    async with AsyncTestClient(app, base_url="http://127.0.0.1") as client:
        answer = await client.post("/v1/chat/completions", json=BODY)
    assert answer.status_code == 200, answer.text
    [token] = answer.json()["callgate"]["tokens"]
    assert token["place"]["schema"] == "/properties/a"
    assert len(threads) == len(loops) == 1
    assert threads != loops


def test_the_path_to_a_long_string_is_found_once(monkeypatch):
    """Found for each character, that to 100 kB of forced text 300 levels deep would take the engine 6.5 s."""
    found = []
    path = JsonPaths._path
    monkeypatch.setattr(JsonPaths, "_path", lambda paths, num: found.append(0) or path(paths, num))
    told = list(JsonPaths().read("[" * 100 + '"' + "a" * 10_000 + '"'))
    assert told[-1] == ((0,) * 100, "value")
    assert len(found) == 101
