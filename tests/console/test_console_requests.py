"""The pages of requests and of the system in a browser."""

import re

import httpx
import pytest
from fake_runtime import FakeRuntime, call, text
from sample_tools import TIME, WEATHER
from serving import served, wait_for

from gateway.app import create_app
from gateway.settings import Settings
from runtime.events import Finished, FinishReason, GenerationStats
from runtime.protocol import Circuit, EngineLoad, Health, ReplicaState

CHAT = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "a secret question"}],
    "toolset": "weather",
    "tool_choice": "required",
}
ELSEWHERE = ReplicaState(
    "big", "http://gpu:8000", Circuit.OPEN, "failed its canary", "0.9", 3, 40, 2, 0, 12.3
)


@pytest.fixture
def runtime():
    runtime = FakeRuntime(call("get_weather", '{"place": "a secret place"}'))
    runtime.steps = ("note_queued", "note_begun", "note_token")
    runtime.health_now = Health(
        is_ready=True, loads=(EngineLoad("tiny", 2, 1, 100, 60, 9, 12, 0),), engines=(ELSEWHERE,)
    )
    return runtime


@pytest.fixture
def asked(gateway):
    """The id of a request that was answered."""
    gateway.put("/v1/toolsets/weather", json={"tools": [WEATHER, TIME]}).raise_for_status()
    answer = gateway.post("/v1/chat/completions", json=CHAT)
    return answer.raise_for_status().headers["x-request-id"]


def test_a_request_is_followed_to_its_grammar_and_its_rules(page, asked):
    page.get_by_role("link", name="Requests").click()
    row = page.locator("[data-shown='#/requests'] tbody tr")
    row.wait_for()
    assert "weather@1" in row.inner_text()
    assert row.locator(".waterfall .step").count() == 4
    row.get_by_role("link").click()
    page.get_by_text(asked).wait_for()
    steps = page.locator(".steps th").all_inner_texts()
    assert [step.split("\n")[0] for step in steps] == ["grammar", "queue", "prefill", "decode", "total"]
    assert "secret" not in page.content()
    page.locator("a code").click()
    page.get_by_role("heading", name="Grammar", level=1).wait_for()
    assert page.locator("tbody tr").count() == 2
    page.locator("tbody a").first.click()
    page.get_by_text("root ::=").first.wait_for()


def test_new_requests_appear_by_themselves(page, gateway, asked):
    page.goto("/console#/requests")
    page.locator("tbody tr").wait_for()
    gateway.post("/v1/chat/completions", json=CHAT).raise_for_status()
    wait_for(lambda: page.locator("tbody tr").count() == 2)


def test_no_request_yet_and_none_kept_are_told(browser, page, tmp_path, runtime):
    page.goto("/console#/requests")
    page.get_by_text("No request yet").wait_for()
    settings = Settings(data_dir=str(tmp_path), compile_workers=0, recent_requests=0)
    with served(create_app(settings, runtime=runtime)) as client:
        assert isinstance(client, httpx.Client)
        own = browser.new_page()
        own.goto(f"{client.base_url}/console#/requests")
        own.get_by_text("No requests are kept").wait_for()
        own.close()


def test_the_system_shows_engines_and_plots(page, asked):
    page.goto("/console#/system")
    page.locator(".uplot").nth(3).wait_for()
    engines = page.get_by_role("region", name="Engines").inner_text()
    assert "failed its canary" in engines
    assert "40 of 100" in engines
    running = page.locator("figure", has_text="Sequences").locator(".reading").first
    assert running.inner_text().strip() == "running 5"
    wait_for(lambda: "running 5" in running.inner_text())
    page.get_by_role("link", name="Toolsets").click()
    page.get_by_role("heading", name="Toolsets").wait_for()
    assert page.locator(".uplot").count() == 0


def test_what_an_engine_cannot_tell_is_not_shown_as_zero(page, gateway, runtime):
    stats = GenerationStats(num_prompt_tokens=11, num_cached_tokens=0, num_output_tokens=7)
    runtime.script = [*text("Hello.")[:-1], Finished(0, FinishReason.STOP, stats)]
    plain = {"model": "tiny", "messages": CHAT["messages"]}
    answer = gateway.post("/v1/chat/completions", json=plain).raise_for_status()
    page.goto(f"/console#/requests/{answer.headers['x-request-id']}")
    page.locator("dt", has_text="Rescued by the mask").wait_for()
    told = page.locator("dt", has_text="Rescued by the mask").locator("xpath=following-sibling::dd[1]")
    assert told.inner_text() == "not told by the engine"
    removed = page.locator("dt", has_text="Probability removed").locator("xpath=following-sibling::dd[1]")
    assert removed.inner_text() == "not told by the engine"
    page.goto("/console#/system")
    told = page.locator("dt", has_text=re.compile("^Rescued$")).locator("xpath=following-sibling::dd[1]")
    assert told.inner_text() == "not told by any engine"
