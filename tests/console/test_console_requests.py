"""The pages of requests and of the system in a browser."""

import re
from dataclasses import replace

import httpx
import pytest
from fake_runtime import FakeRuntime, call, text
from sample_tools import TIME, WEATHER
from serving import served, wait_for

from gateway.app import create_app
from gateway.settings import Settings
from runtime.errors import EngineStopped
from runtime.events import Finished, FinishReason, GenerationStats, SelectionStats, TextDelta
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


def test_new_requests_appear_while_something_in_the_list_has_the_focus(page, gateway, asked):
    page.goto("/console#/requests")
    link = page.locator("main[data-shown='#/requests'] tbody a")
    link.focus()
    gateway.post("/v1/chat/completions", json={**CHAT, "model": "gone"})
    wait_for(lambda: page.locator("tbody tr").count() == 2)
    assert asked in page.evaluate("document.activeElement.href")
    page.locator("tbody td").nth(3).click()  # then the list itself has the focus
    gateway.post("/v1/chat/completions", json={**CHAT, "model": "gone"})
    wait_for(lambda: page.locator("tbody tr").count() == 3)
    assert page.evaluate("document.activeElement.ariaLabel") == "Requests"


def test_those_that_failed_are_shown_alone_with_the_reason(page, gateway, runtime, asked):
    headers = {"Content-Type": "application/json"}
    gateway.post("/v1/chat/completions", content=b"{", headers=headers)
    runtime.script = [TextDelta(0, "Hi"), EngineStopped()]
    plain = {"model": "tiny", "messages": CHAT["messages"], "stream": True}
    gateway.post("/v1/chat/completions", json=plain)
    page.goto("/console#/system")
    failed = page.locator("dt", has_text=re.compile("^Failed$")).locator("xpath=following-sibling::dd[1]")
    failed.get_by_role("link", name="1").click()
    page.locator("main[data-shown='#/requests?failed=true'] tbody tr").first.wait_for()
    assert page.locator("tbody .badge").all_inner_texts() == ["Engine stopped", "Malformed body"]
    assert "bad" in page.locator("tbody .badge").first.get_attribute("class"), (
        "it broke off: the status is 200"
    )
    page.locator("main[data-shown='#/requests?failed=true'] tbody a").nth(1).click()
    page.get_by_text("MalformedBody").wait_for()
    assert page.get_by_text("not told by the engine").count() == 0, "no engine was asked"
    page.goto("/console#/requests?failed=true")
    page.get_by_role("link", name="All", exact=True).click()
    wait_for(lambda: page.locator("tbody tr").count() == 3)


def test_none_failed_is_told(page, asked):
    page.goto("/console#/requests?failed=true")
    page.get_by_text("None failed").wait_for()


def test_the_last_page_of_requests_leads_back_to_the_first(page, gateway):
    for _ in range(51):
        gateway.post("/v1/chat/completions", content=b"{", headers={"Content-Type": "application/json"})
    page.goto("/console#/requests?failed=true")
    page.get_by_role("link", name="Next page").click()
    wait_for(lambda: page.locator("tbody tr").count() == 1)
    page.get_by_role("link", name="First page").click()
    wait_for(lambda: page.locator("tbody tr").count() == 50)
    assert page.url.endswith("#/requests?failed=true")


@pytest.mark.parametrize("name", ["requests", "system"])
def test_a_page_says_that_what_it_shows_is_old(page, asked, name):
    page.goto(f"/console#/{name}")
    page.locator(f"main[data-shown='#/{name}'] table").first.wait_for()
    page.misdeeds.expected.append("ERR_FAILED")
    page.route("**/v1/**", lambda route: route.abort())
    told = page.get_by_text("This is how it was at")
    told.wait_for()
    assert "The gateway does not answer" in told.inner_text()
    page.unroute_all()
    told.wait_for(state="hidden")


def test_what_selecting_an_answer_cost_is_shown(page, gateway, runtime):
    selected = SelectionStats("accept", num_draws=3, is_exact=True, num_computed_tokens=1029)
    runtime.script = call("get_weather", '{"place": "a secret place"}', selection=selected)
    answer = gateway.post(
        "/v1/chat/completions", json={"model": "tiny", "messages": CHAT["messages"], "tools": [WEATHER]}
    )
    page.goto(f"/console#/requests/{answer.raise_for_status().headers['x-request-id']}")
    page.get_by_text("accept, of 3 answers").wait_for()
    told = page.locator("dt", has_text="Computed by the model").locator("xpath=following-sibling::dd[1]")
    assert told.inner_text() == "1,029"


def test_a_gateway_that_takes_no_requests_says_why(page, runtime, asked):
    page.goto("/console#/system")
    page.get_by_text("This gateway takes requests").wait_for()
    runtime.health_now = replace(runtime.health_now, is_ready=False, is_lost=False)
    told = page.get_by_text("Not ready.")
    told.wait_for()
    assert "an engine of the model 'big'" in told.locator("..").inner_text()


def test_the_first_plot_shows_the_present(page, asked):
    """The library of plots alone takes a single moment for a whole day, and writes midnight at each line."""
    page.add_init_script(
        "window.written = [];"
        "const fillText = CanvasRenderingContext2D.prototype.fillText;"
        "CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {"
        "  window.written.push(text); return fillText.call(this, text, ...rest); };"
    )
    page.goto("about:blank")
    page.goto("/console#/system")
    page.locator(".uplot").nth(3).wait_for()
    page.wait_for_function("window.written.some((text) => text.includes(':'))")
    times = page.evaluate("window.written.filter((text) => text.includes(':'))")
    now = page.evaluate("Date.now() / 1000 % 86400 - new Date().getTimezoneOffset() * 60")
    for time in times:
        hours, minutes, seconds = map(int, time.split(":"))
        age = (now - (hours * 3600 + minutes * 60 + seconds)) % 86400
        assert age < 120, time


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
