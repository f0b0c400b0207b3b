"""Whether a gateway is up and ready: what its probes answer, and requests while it is not."""

import pytest
from chat import URL, body
from serving import served

from runtime.protocol import Health


async def test_a_runtime_that_is_not_ready_is_503(client, runtime):
    runtime.health_now = Health(is_ready=False, reason="the engine has stopped")
    response = await client.post(URL, json=body())
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert "the engine has stopped" in response.json()["error"]["message"]
    ready = await client.get("/readyz")
    assert (ready.status_code, ready.json()["reason"]) == (503, "no model is ready")
    assert (await client.get("/healthz")).status_code == 200


async def test_an_engine_that_is_lost_is_told_to_whoever_starts_processes_anew(client, runtime):
    runtime.health_now = Health(is_ready=False, reason="the engine failed: boom", is_lost=True)
    for path in ("/healthz", "/readyz"):
        answer = await client.get(path)
        assert (answer.status_code, answer.json()["reason"]) == (
            503,
            "the engine has failed; only a restart helps",
        )


@pytest.mark.parametrize("path", ["/healthz", "/health", "/ping", "/readyz"])
def test_a_monitor_may_send_head(app, runtime, path):
    """As `wget --spider` does."""
    with served(app) as http:
        for health, status in ((Health(is_ready=True), 200), (Health(is_ready=False, is_lost=True), 503)):
            runtime.health_now = health
            answers = [http.request(method, path) for method in ("HEAD", "GET")]
            assert [answer.status_code for answer in answers] == [status, status]
            assert answers[0].content == b""
            assert answers[0].headers["content-length"] == answers[1].headers["content-length"]
