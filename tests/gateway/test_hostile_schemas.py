"""Schemas made to harm: refused with a reason, in workers of their own, while others are served."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fake_runtime import FakeRuntime
from serving import served

from gateway.app import create_app
from gateway.settings import Settings

GENEROUS_S = 30


def of(**properties):
    return {"type": "object", "properties": properties}


def string(**keywords):
    return of(p={"type": "string", **keywords})


def alternatives(number):
    def one(name, kind):
        return {"required": [name], "properties": {name: {"type": kind}}}

    return [{"anyOf": [one(f"a{i}", "integer"), one(f"b{i}", "string")]} for i in range(number)]


def cycle():
    return {**of(p={"$ref": "#/$defs/a"}), "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}


def node():
    link = {"type": "object", "properties": {"n": {"$ref": "#/$defs/a"}}, "required": ["n"]}
    return {**of(p={"$ref": "#/$defs/a"}), "required": ["p"], "$defs": {"a": link}}


def many_states(first=300):
    """Each pattern takes long, and little memory."""
    return of(**{f"p{i}": {"type": "string", "pattern": f"^(?:a?b?){{{first + i}}}$"} for i in range(60)})


REFUSED = {
    "more enum values than any list": of(p={"enum": [f"v{i}" for i in range(1_000_000)]}),
    "exponential anyOf": {"type": "object", "allOf": alternatives(22)},
    "overlapping oneOf": of(
        p={"oneOf": [{"properties": {f"k{i}": {}}, "required": [f"k{i}"]} for i in range(400)]}
    ),
    "nested quantifiers": string(pattern="^((((a{1,50}){1,50}){1,50}){1,50}){1,50}$"),
    "exponential automaton": string(pattern="^(a|b)*a(a|b){60}$"),
    "patterns of many states": many_states(),
    "lone surrogate": string(pattern="\ud800"),
    "escaped lone surrogate": string(pattern="^\\ud800$"),
    "a reference cycle": cycle(),
    "endless nodes": node(),
    "a reference to a URL": of(p={"$ref": "http://127.0.0.1:9/schema.json"}),
    "a million repetitions": of(p={"type": "array", "minItems": 10**9, "items": {"type": "integer"}}),
}
"""What no limit of ours upholds."""

BOUNDED = {
    "the longest string": string(maxLength=10**9),
    "NUL in a pattern": string(pattern="a\0b\\x00"),
    "many optional properties": of(**{f"p{i}": {"type": "integer"} for i in range(5_000)}),
    "thousands of enum values": of(p={"enum": [f"v{i}" for i in range(9_000)]}),
    "multiplied counts": string(pattern="^[ab]{900}[cd]{900}[ef]{900}$"),
    "nested stars": string(pattern="^(([a-z]*)*)*x(a+)+$"),
}
"""What may also be upheld, as long as it costs no more than any schema may."""


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    settings = Settings(
        data_dir=str(tmp_path_factory.mktemp("hostile")), max_body_bytes=20_000_000, compile_seconds=0.8
    )
    with served(create_app(settings, runtime=FakeRuntime())) as client:
        client.timeout = GENEROUS_S
        assert put(client, "good", {"fine": of(a={"type": "integer"})}).status_code == 201
        yield client


def put(client, toolset, tools):
    documents = [
        {"type": "function", "function": {"name": name, "parameters": parameters}}
        for name, parameters in tools.items()
    ]
    # Python writes lone surrogates as escapes, which is how they come.
    body = json.dumps({"tools": documents})
    return client.put(f"/v1/toolsets/{toolset}", content=body)


def chat(client, **fields):
    body = {"model": "tiny", "messages": [{"role": "user", "content": "?"}], **fields}
    return client.post("/v1/chat/completions", json=body)


@pytest.mark.parametrize("name", [*REFUSED, *BOUNDED])
def test_a_hostile_schema_is_a_refusal_with_a_reason(client, name):
    answer = put(client, "hostile", {"bad": REFUSED.get(name) or BOUNDED[name], "fine": of()})
    if name in BOUNDED and answer.status_code == 201:
        assert client.delete("/v1/toolsets/hostile").status_code == 204
        return
    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert error["tool"] == "bad"
    assert error["pointer"].startswith("/tools/0/function/parameters")
    assert error["reason"]
    assert error["suggestion"] or "no value satisfies" in error["reason"]
    assert client.get("/v1/toolsets/hostile").status_code == 404


def test_deep_bodies_are_refused(client):
    deep = '{"a":' * 100_000 + "1" + "}" * 100_000
    tool = f'{{"type": "function", "function": {{"name": "bad", "parameters": {deep}}}}}'
    for method, url, body in (
        ("PUT", "/v1/toolsets/hostile", f'{{"tools": [{tool}]}}'),
        ("PUT", "/v1/toolsets/good/tools/bad", tool),
        ("POST", "/v1/toolsets/hostile/check", f'{{"tools": [{tool}]}}'),
        ("POST", "/v1/chat/completions", f'{{"model": "tiny", "messages": [], "tools": [{tool}]}}'),
        ("PUT", "/v1/toolsets/hostile", "[" * 100_000),
    ):
        answer = client.request(method, url, content=body)
        assert answer.status_code in {400, 422}, answer.text
        assert "deep" in answer.text


@pytest.mark.parametrize(
    "name", ["patterns of many states", "a reference cycle", "overlapping oneOf", "exponential anyOf"]
)
def test_a_hostile_response_format_is_a_refusal(client, name):
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": REFUSED[name]}}
    answer = chat(client, response_format=schema)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["code"] == "unsupported_schema"
    assert len(answer.json()["error"]["message"]) > 20


def test_others_are_served_meanwhile(client):
    """More hostile schemas at once than there are workers; each is told within the time for all before it."""
    hostile = [many_states(300 + i) for i in range(3)]
    with ThreadPoolExecutor(3) as threads:
        start = time.monotonic()
        refused = [
            threads.submit(put, client, f"bad{i}", {"bad": schema}) for i, schema in enumerate(hostile)
        ]
        served_meanwhile = 0
        while not any(answer.done() for answer in refused):
            assert chat(client, toolset="good").status_code == 200
            assert put(client, "good", {"fine": of(a={"type": "integer"})}).status_code == 200
            served_meanwhile += 1
        answers = [answer.result() for answer in refused]
    assert served_meanwhile > 1
    assert [answer.status_code for answer in answers] == [422] * 3
    assert all("takes longer than" in answer.text for answer in answers)
    assert time.monotonic() - start < GENEROUS_S


def test_one_write_names_every_bad_tool_and_changes_nothing(client):
    before = client.get("/v1/toolsets/good").json()
    tools = {
        "fine": of(),
        "slow": REFUSED["patterns of many states"],
        "wrong": {"type": "object", "properties": {"p": {"type": "strin"}}},
        "cyclic": cycle(),
        "greedy": REFUSED["exponential anyOf"],
    }
    answer = put(client, "good", tools)
    assert answer.status_code == 422
    assert [error["tool"] for error in answer.json()["errors"]] == ["slow", "wrong", "cyclic", "greedy"]
    assert client.get("/v1/toolsets/good").json() == before


def test_a_write_of_many_hostile_tools_ends(client):
    tools = {f"bad{i}": many_states(300 + i) for i in range(40)}
    answer = put(client, "hostile", tools)
    assert answer.status_code == 422
    assert {error["tool"] for error in answer.json()["errors"]} == set(tools)
    assert any("not tried" in error["reason"] for error in answer.json()["errors"])


def test_text_that_is_none_is_named_wherever_it_stands(client):
    for body in (
        '{"\\ud800": 1, "tools": []}',
        '{"tools": [{"name": "\\ud800", "parameters": {}}]}',
        '"\\ud800"',
    ):
        answer = client.put("/v1/toolsets/hostile", content=body)
        assert answer.status_code in {400, 422}, answer.text


def test_a_change_that_takes_long_to_compare_is_only_a_change(client):
    """`check` compares schemas, which canonicalizes them without the lowering's bounds."""
    alternatives_now = {"type": "object", "allOf": alternatives(3)}
    answer = put(client, "compared", {"t": alternatives_now})
    assert answer.status_code == 201, answer.text
    document = {"type": "function", "function": {"name": "t", "parameters": of(a0={"type": "integer"})}}
    checked = client.post("/v1/toolsets/compared/check", json={"tools": [document]})
    assert checked.json()["changes"]["t"] in {"changed", "widened", "narrowed"}
    assert client.delete("/v1/toolsets/compared").status_code == 204


def test_memory_stays_bounded(client):
    before = resident_bytes()
    for _ in range(2):
        put(client, "hostile", {"bad": REFUSED["exponential anyOf"]})
        put(client, "hostile", {"bad": REFUSED["more enum values than any list"]})
    assert resident_bytes() - before < 300 * 2**20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
