"""Schemas made to harm: refused with a reason, in workers of their own, while others are served."""

import dataclasses
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from chat import URL, body
from fake_runtime import FakeRuntime
from hostile import (
    BOUNDED,
    BOUNDED_DOCUMENTS,
    DOCUMENTS,
    FORMATS,
    REFUSED,
    cycle,
    document,
    greedy,
    laborious,
    of,
)
from sample_tools import chat_tool
from serving import served

from gateway.app import create_app
from gateway.settings import Settings

GENEROUS_S = 120


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    # Bodies may be larger than by default, so that the schemas in them meet the limits of compiling.
    settings = Settings(
        data_dir=str(tmp_path_factory.mktemp("hostile")),
        compile_seconds=0.8,
        max_toolset_bytes=20_000_000,
        max_body_values=10_000_000,
    )
    app = create_app(settings, runtime=FakeRuntime())
    with served(app) as client:
        client.app = app
        client.timeout = GENEROUS_S
        assert put(client, "good", {"fine": of(a={"type": "integer"})}).status_code == 201
        yield client


def put(client, toolset, tools, documents=None):
    submitted = [chat_tool(name, **parameters) for name, parameters in tools.items()]
    # Python writes lone surrogates as escapes, which is how they come.
    body = json.dumps({"tools": submitted, "documents": documents})
    for _ in range(3):
        answer = client.put(f"/v1/toolsets/{toolset}", content=body)
        if "compiler-overloaded" not in answer.text:
            break
        time.sleep(int(answer.headers["retry-after"]))  # others on this machine have the processors
    return answer


def check(client, toolset, tools):
    submitted = [{"name": name, "inputSchema": parameters} for name, parameters in tools.items()]
    return client.post(f"/v1/toolsets/{toolset}/check", json={"tools": submitted})


def chat(client, **fields):
    return client.post(URL, json=body(**fields))


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
    for method, url, content in (
        ("PUT", "/v1/toolsets/hostile", f'{{"tools": [{tool}]}}'),
        ("PUT", "/v1/toolsets/good/tools/bad", tool),
        ("POST", "/v1/toolsets/hostile/check", f'{{"tools": [{tool}]}}'),
        ("POST", "/v1/chat/completions", f'{{"model": "tiny", "messages": [], "tools": [{tool}]}}'),
        ("PUT", "/v1/toolsets/hostile", f'{{"tools": [], "documents": {{"http://e.x/": {deep}}}}}'),
        ("PUT", "/v1/toolsets/hostile", "[" * 100_000),
    ):
        answer = client.request(method, url, content=content)
        assert answer.status_code == (400 if "chat" in url else 422), answer.text
        assert "nested more than 500 deep at line 1, column" in answer.text


@pytest.mark.parametrize("name", [*DOCUMENTS, *BOUNDED_DOCUMENTS])
def test_hostile_documents_are_a_refusal_with_a_reason(client, name):
    documents = DOCUMENTS.get(name) or BOUNDED_DOCUMENTS[name]
    answer = put(client, "hostile", {"bad": of(p={"$ref": document()}), "fine": of()}, documents)
    if name in BOUNDED_DOCUMENTS and answer.status_code == 201:
        assert client.delete("/v1/toolsets/hostile").status_code == 204
        return
    assert answer.status_code == 422, answer.text
    for error in answer.json().get("errors", []):
        assert error["tool"] in {"bad", None}
        assert error["pointer"].startswith(("/tools/0/function/parameters", "/documents/"))
        assert error["reason"]
        assert error["suggestion"]
    assert client.get("/v1/toolsets/hostile").status_code == 404


def test_many_tools_that_refer_to_much_are_refused(client):
    """What they refer to is counted for each of them: together it is too much to be kept at hand."""
    large = {document(): {"type": "array", "items": {"enum": [[0] * 9] * 9_000}}}
    answer = put(client, "hostile", {f"t{i}": of(p={"$ref": document()}) for i in range(2_000)}, large)
    assert answer.status_code == 422
    assert "documents they refer to" in answer.json()["detail"]


@pytest.mark.parametrize(
    "name", ["too much work", "too much memory", "a reference cycle", "a reference to a URL"]
)
def test_a_hostile_response_format_is_a_refusal(client, name):
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": REFUSED[name]}}
    answer = chat(client, response_format=schema)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["code"] == "unsupported_schema"
    assert len(answer.json()["error"]["message"]) > 20


@pytest.mark.parametrize("name", FORMATS)
def test_a_hostile_format_is_a_refusal(client, name):
    answer = chat(client, response_format=FORMATS[name])
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == ("unsupported_schema", "response_format")
    assert len(error["message"]) > 20


def test_others_are_served_meanwhile(client):
    """More hostile schemas at once than there are workers; each is told within the time for all before it."""
    hostile = [laborious(salt) for salt in range(100, 106)]  # others may be remembered as refused
    with ThreadPoolExecutor(6) as threads:
        start = time.monotonic()
        refused = [
            threads.submit(put, client, f"bad{i}", {"bad": schema}) for i, schema in enumerate(hostile)
        ]
        served_meanwhile = 0
        while not any(answer.done() for answer in refused):
            assert chat(client, toolset="good").status_code == 200
            assert put(client, "good", {"fine": of(a={"type": "integer"})}).status_code == 200
            served_meanwhile += 1
            time.sleep(0.05)  # what takes long has a low priority, and must get on too
        answers = [answer.result() for answer in refused]
    assert served_meanwhile > 1
    assert [answer.status_code for answer in answers] == [422] * 6
    assert all("takes longer than" in answer.text for answer in answers)
    assert time.monotonic() - start < GENEROUS_S


def test_one_write_names_every_bad_tool_and_changes_nothing(client):
    before = client.get("/v1/toolsets/good").json()
    tools = {
        "fine": of(),
        "slow": laborious(),
        "wrong": {"type": "object", "properties": {"p": {"type": "strin"}}},
        "cyclic": cycle(),
        "greedy": greedy(),
    }
    answer = put(client, "good", tools)
    assert answer.status_code == 422
    assert [error["tool"] for error in answer.json()["errors"]] == ["slow", "wrong", "cyclic", "greedy"]
    assert client.get("/v1/toolsets/good").json() == before


def test_a_write_of_many_hostile_tools_ends(client):
    tools = {f"bad{i}": laborious(i) for i in range(40)}
    answer = put(client, "hostile", tools)
    assert answer.status_code == 422
    assert {error["tool"] for error in answer.json()["errors"]} == set(tools)
    assert any("not tried" in error["reason"] for error in answer.json()["errors"])


def test_a_write_of_many_slow_tools_ends_and_others_are_served_meanwhile(client, monkeypatch):
    """None of them is hopeless; all together they take longer than a request may."""
    workers = client.app.state.views.whole.grammars._pool
    monkeypatch.setattr(workers, "limits", dataclasses.replace(workers.limits, request_seconds=2.0))
    tools = {f"slow{i}": laborious(i, 1) for i in range(600)}
    for ask in (put, check):
        with ThreadPoolExecutor(1) as threads:
            answer = threads.submit(ask, client, "hostile", tools)
            served_meanwhile = 0
            while not answer.done():
                assert chat(client, toolset="good").status_code == 200
                served_meanwhile += 1
                time.sleep(0.05)
        assert served_meanwhile > 1
        assert answer.result().status_code == 503
        assert 0 < len(answer.result().json()["not_reached"]) < len(tools)
    assert client.get("/v1/toolsets/hostile").status_code == 404


def test_text_that_is_none_is_named_wherever_it_stands(client):
    for content in (
        '{"\\ud800": 1, "tools": []}',
        '{"tools": [{"name": "\\ud800", "parameters": {}}]}',
        '"\\ud800"',
    ):
        answer = client.put("/v1/toolsets/hostile", content=content)
        assert answer.status_code in {400, 422}, answer.text


def test_memory_stays_bounded(client):
    before = resident_bytes()
    for _ in range(2):
        put(client, "hostile", {"bad": greedy()})
        put(client, "hostile", {"bad": REFUSED["more enum values than any list"]})
    assert resident_bytes() - before < 300 * 2**20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
