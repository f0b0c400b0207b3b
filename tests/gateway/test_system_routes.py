"""What the system does, and grammars by their digests, over HTTP."""

import pytest
from chat import URL, body
from fake_runtime import ELSEWHERE, LOAD
from sample_tools import TIME, WEATHER

from gateway.routes import operations_routes
from runtime.protocol import Health

CHAT = body(tool_choice="required", toolset="weather")


async def test_the_system_counts_turns_and_grammars(client, weather):
    before = (await client.get("/v1/system")).json()
    assert before["grammars"]["found"] == {"memory": 0, "store": 0, "compiled": 2}
    assert (before["totals"]["turns"], before["unready_reason"]) == (0, None)
    for _ in range(3):
        await client.post(URL, json=CHAT)
    after = (await client.get("/v1/system")).json()
    assert after["grammars"]["found"] == {"memory": 6, "store": 0, "compiled": 2}
    assert after["grammars"]["entries"] == 2
    assert (after["totals"]["turns"], after["totals"]["output_tokens"]) == (3, 21)


async def test_the_system_has_the_engines_of_this_process_and_elsewhere(client, runtime):
    runtime.health_now = Health(is_ready=True, loads=(LOAD,), engines=(ELSEWHERE,))
    embedded, elsewhere = (await client.get("/v1/system")).json()["engines"]
    assert (embedded["running"], embedded["waiting"], embedded["used_pages"]) == (3, 2, 24)
    assert (elsewhere["is_ready"], elsewhere["reason"]) == (False, "cannot be reached")
    assert (elsewhere["canary_age_s"], elsewhere["pages"]) == (12.5, None)


async def test_a_grammar_is_found_by_the_digest_of_its_request(client, weather):
    answer = await client.post(URL, json=CHAT)
    digest = (await client.get(f"/v1/requests/{answer.headers['x-request-id']}")).json()["grammar"]
    found = (await client.get(f"/v1/grammars/{digest}")).json()
    assert [part["name"] for part in found["parts"]] == ["get_weather", "clock.now"]
    assert (found["syntax"], found["tool_choice"], found["text"]) == ("hermes", "required", None)
    assert all(part["in_memory"] and part["in_store"] for part in found["parts"])
    report = (await client.get("/v1/toolsets/weather/report")).json()
    assert [part["digest"] for part in found["parts"]] == [tool["digest"] for tool in report["tools"]]
    assert [part["bytes"] for part in found["parts"]] == [tool["grammar_bytes"] for tool in report["tools"]]


async def test_a_tools_grammar_can_be_read(client, weather):
    [digest, _] = [
        tool["digest"] for tool in (await client.get("/v1/toolsets/weather/report")).json()["tools"]
    ]
    found = (await client.get(f"/v1/grammars/{digest}")).json()
    assert "root ::=" in found["text"]
    assert "place" in found["text"]
    assert (found["is_cut"], len(found["parts"])) == (False, 1)


async def test_the_text_of_a_large_grammar_is_cut(client, weather, monkeypatch):
    monkeypatch.setattr(operations_routes, "MAX_GRAMMAR_TEXT", 20)
    [tool, _] = (await client.get("/v1/toolsets/weather/report")).json()["tools"]
    found = (await client.get(f"/v1/grammars/{tool['digest']}")).json()
    assert (len(found["text"]), found["is_cut"]) == (20, True)


@pytest.mark.parametrize("digest", ["0" * 64, "none"])
async def test_an_unknown_digest_is_told(client, digest):
    answer = await client.get(f"/v1/grammars/{digest}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_grammar")


async def test_unknown_query_parameters_are_refused(client):
    for path in ("/v1/requests?after=3", "/v1/system?verbose=1", "/v1/grammars/0?text=1"):
        assert (await client.get(path)).status_code == 400


async def test_a_response_format_has_a_grammar_too(client, weather):
    schema = {"name": "a", "schema": TIME["function"]["parameters"] | WEATHER["function"]["parameters"]}
    form = {"type": "json_schema", "json_schema": schema}
    answer = await client.post(URL, json=body(response_format=form))
    assert answer.status_code == 200, answer.text
    digest = (await client.get(f"/v1/requests/{answer.headers['x-request-id']}")).json()["grammar"]
    found = (await client.get(f"/v1/grammars/{digest}")).json()
    assert [(part["name"], part["kind"]) for part in found["parts"]] == [(None, "schema")]
