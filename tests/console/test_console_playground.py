"""The playground with the model in the box: a call streams in, and the inspector shows what the mask did."""

import json

import httpx
import pytest
from browser import PHONE, opened_page
from serving import served

from gateway.app import create_app
from gateway.settings import Settings

TOOL = {
    "name": "close_issue",
    "description": "Close an issue.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "issue": {"type": "string", "pattern": "^[A-Z]{2,5}-[1-9][0-9]{0,3}$"},
            "resolution": {"enum": ["fixed", "duplicate", "wont_fix"]},
        },
        "required": ["issue", "resolution"],
        "additionalProperties": False,
    },
}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A gateway with the model in the box."""
    data = str(tmp_path_factory.mktemp("data"))
    settings = Settings(
        data_dir=data, secret="0123456789abcdef", compile_workers=0, model="tiny", device="cpu"
    )
    with served(create_app(settings)) as client:
        client.put("/v1/toolsets/issues", json={"tools": [TOOL]}).raise_for_status()
        yield str(client.base_url).rstrip("/")


def run(page, message="Close WEB-12, it is a duplicate of WEB-9"):
    """Run a request, and return the tokens that the gateway has told of."""
    page.goto("/console#/playground?toolset=issues")
    page.get_by_label("Tool choice").locator("option[value='tool:close_issue']").wait_for(state="attached")
    page.get_by_label("Message", exact=True).fill(message)
    page.get_by_text("More").click()
    page.get_by_label("Seed").fill("4")
    with page.expect_response("**/v1/chat/completions") as answer:
        page.get_by_role("button", name="Run").click()
    page.locator(".panels:not([hidden])").wait_for()
    told = []
    for line in answer.value.text().splitlines():
        if line.startswith("data: {"):
            told += json.loads(line.removeprefix("data: ")).get("callgate", {}).get("tokens", [])
    return told


def choose(page, index):
    page.locator(".chips .chip").nth(index).click()


def test_every_token_is_a_chip_and_its_candidates_are_those_of_the_api(browser, url):
    with opened_page(browser, url) as page:
        tokens = run(page)
        chips = page.locator(".chips .chip")
        assert chips.count() == len(tokens)
        assert [kind.split()[1] for kind in chips.evaluate_all("all => all.map(each => each.className)")] == [
            token["cause"] for token in tokens
        ]
        assert page.locator(".answer strong").inner_text() == "close_issue"
        rescued = [index for index, token in enumerate(tokens) if token["cause"] == "rescued"]
        assert rescued, "the model in the box knows the pattern less well than the mask"
        for index in rescued[:3]:
            choose(page, index)
            told = tokens[index]["candidates"]
            assert page.locator(".candidates li").count() == len(told)
            removed = page.locator(".candidates s").all_inner_texts()
            assert len(removed) == sum(each["removed"] for each in told)
            assert "removed" in page.locator(".candidates li").first.inner_text()
            written = page.locator(".candidates li.written")
            assert written.count() == 1
            assert page.locator(".details .token strong").inner_text() == "rescued"


def test_the_place_that_a_token_writes_is_marked_in_the_schema(browser, url):
    with opened_page(browser, url) as page:
        tokens = run(page)
        for key in ("issue", "resolution"):
            at = next(i for i, each in enumerate(tokens) if each["place"]["schema"] == f"/properties/{key}")
            choose(page, at)
            marked = page.locator(".place .marked")
            assert marked.count() == 1
            assert marked.inner_text().startswith(f'"{key}"')
        at = next(i for i, each in enumerate(tokens) if each["cause"] == "forced" and not each["candidates"])
        choose(page, at)
        page.get_by_text("the model was not asked").wait_for()
        assert page.locator(".candidates").count() == 0


def test_an_answer_in_json_is_marked_in_the_schema_of_its_format(browser, url):
    with opened_page(browser, url) as page:
        page.goto("/console#/playground")
        page.get_by_label("Tool choice").select_option("none")
        page.get_by_text("More").click()
        schema = page.get_by_label("Answer's schema")
        schema.fill("{")
        page.get_by_role("button", name="Run").click()
        page.get_by_role("alert").get_by_text("The answer's schema is not JSON").wait_for()
        answer = {"type": "object", "properties": {"mood": {"enum": ["good", "bad"]}}, "required": ["mood"]}
        schema.fill(json.dumps(answer))
        page.get_by_role("button", name="Run").click()
        page.locator(".panels:not([hidden])").wait_for()
        page.get_by_text("Schema of the answer").wait_for()
        chips = page.locator(".chips .chip")
        places = []
        for index in range(chips.count()):
            choose(page, index)
            places.append(page.locator(".details").inner_text())
        assert any("the value at /mood" in place for place in places)
        assert page.locator(".place li").first.inner_text() == "{"


def test_the_message_of_the_example_is_not_for_other_tools(browser, url):
    with opened_page(browser, url) as page:
        page.goto("/console#/playground")
        message = page.get_by_label("Message", exact=True)
        assert "Luigi" in message.input_value()
        page.get_by_label("Toolset").select_option("issues")
        page.get_by_label("Tool choice").locator("option[value='tool:close_issue']").wait_for(
            state="attached"
        )
        assert message.input_value() == ""
        message.fill("Close WEB-12")
        page.get_by_label("Toolset").select_option("")
        assert message.input_value() == "Close WEB-12"


def test_the_arrows_lead_through_the_tokens(browser, url):
    with opened_page(browser, url) as page:
        tokens = run(page)
        choose(page, 0)
        page.locator(".chips .chip").first.focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        page.get_by_text(f"Token 4 of {len(tokens)}").wait_for()
        page.keyboard.press("End")
        page.get_by_text(f"Token {len(tokens)} of {len(tokens)}").wait_for()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Home")
        page.get_by_text(f"Token 1 of {len(tokens)}").wait_for()
        assert page.locator(".chips [tabindex='0']").count() == 1


def test_on_a_phone_nothing_is_wider_and_the_example_needs_no_toolset(browser, url):
    with opened_page(browser, url, viewport=PHONE, scheme="dark") as page:
        page.goto("/console#/playground")
        page.get_by_role("button", name="Run").click()
        page.locator(".panels:not([hidden])").wait_for(timeout=20_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        assert page.locator(".answer").bounding_box()["y"] < PHONE["height"] / 2, "the answer is in view"
        assert page.locator(".answer strong").inner_text() == "book_table"


def test_an_answer_says_how_it_ended_and_how_it_was_selected(browser, url):
    with opened_page(browser, url) as page:
        page.goto("/console#/playground")
        page.get_by_text("More").click()
        page.get_by_label("Selection").select_option("accept:4")
        for temperature in ("0", "1"):
            page.get_by_label("Temperature").fill(temperature)
            with page.expect_response("**/v1/chat/completions") as answer:
                page.get_by_role("button", name="Run").click()
            page.locator(".ended a").wait_for(timeout=30_000)
            [*_, last] = [line for line in answer.value.text().splitlines() if '"selections":[{' in line]
            [told] = json.loads(last.removeprefix("data: "))["callgate"]["selections"]
            said = page.locator(".ended").inner_text()
            assert "The model called a tool." in said
            assert f"accept began {told['answers']} answer" in said
            assert f"computed {told['computed_tokens']:,} tokens" in said
            assert (said.count("exact draw") + said.count("chosen by weight") > 0) == (temperature == "1")
        page.get_by_role("link", name="Where its time and its tokens went").click()
        page.get_by_text(f"accept, of {told['answers']} answer").wait_for()


def test_every_character_of_an_answer_and_its_schema_can_be_seen(browser, url):
    hidden, shown = "to\u202e", "to\\u{202e}"
    schema = {"type": "object", "properties": {hidden: {"enum": [f"x {hidden}"]}}, "required": [hidden]}
    with httpx.Client(base_url=url) as client:
        tools = [{"name": "pay", "inputSchema": schema}]
        client.put("/v1/toolsets/hidden", json={"tools": tools}).raise_for_status()
    with opened_page(browser, url) as page:
        page.goto("/console#/playground?toolset=hidden")
        page.get_by_label("Tool choice").locator("option[value='tool:pay']").wait_for(state="attached")
        page.get_by_label("Message", exact=True).fill("Pay.")
        page.get_by_role("button", name="Run").click()
        page.locator(".panels:not([hidden])").wait_for()
        page.locator(".chips .arguments").first.click()
        for place in (".answer", ".place"):
            text = page.locator(place).inner_text()
            assert shown in text, place
            assert hidden not in text, place
    with httpx.Client(base_url=url) as client:
        client.delete("/v1/toolsets/hidden").raise_for_status()


def test_the_most_tokens_and_the_budget_closer_are_told(browser, url):
    with opened_page(browser, url) as page:
        page.goto("/console#/playground")
        page.get_by_label("Tool choice").select_option("none")
        page.get_by_text("More").click()
        numbers = {"type": "array", "items": {"type": "integer"}, "minItems": 90}
        page.get_by_label("Answer's schema").fill(json.dumps(numbers))
        page.get_by_role("button", name="Run").click()
        page.get_by_text("The budget closer completed the answer.").wait_for(timeout=30_000)
        chips = page.locator(".inspector .chips")
        assert chips.evaluate("list => list.scrollHeight > list.clientHeight"), "many tokens are scrolled,"
        chips.evaluate("list => { list.scrollTop = 0; }")
        choose(page, 0)
        top = page.locator(".panels").bounding_box()["y"]
        assert top - chips.bounding_box()["y"] < 500, "and what is known of one stays near"


def test_an_answer_that_breaks_off_is_said_in_words(browser, url):
    with opened_page(browser, url) as page:
        page.goto("/console#/playground")
        page.get_by_role("button", name="Run").wait_for()
        page.evaluate(
            "window.fetch = async () => new Response(new ReadableStream({ start(body) {"
            """ body.enqueue(new TextEncoder().encode('data: {"choices":[{"delta":{"content":"So far"}}]}\\n'));"""
            "  setTimeout(() => body.error(new TypeError('network error')), 100); } }))"
        )
        page.get_by_role("button", name="Run").click()
        page.get_by_role("alert").get_by_text("The answer broke off").wait_for()
        assert page.get_by_text("network error").count() == 0
        assert page.locator(".answer").inner_text() == "So far"


def test_what_was_typed_is_there_after_the_request_was_looked_at(browser, url):
    with opened_page(browser, url) as page:
        run(page, "Close WEB-12")
        page.get_by_label("Temperature").fill("0.3")
        page.get_by_role("link", name="Where its time and its tokens went").click()
        page.get_by_role("heading", name="Request", level=1).wait_for()
        page.get_by_role("link", name="Playground").click()
        message = page.get_by_label("Message", exact=True)
        message.wait_for()
        assert message.input_value() == "Close WEB-12"
        assert page.get_by_label("Toolset").input_value() == "issues"
        assert page.get_by_label("Seed").input_value() == "4"
        assert page.get_by_label("Seed").is_visible(), "what counts is seen"
        assert page.locator("label output").inner_text() == "0.3"


def test_all_toolsets_can_be_chosen_and_one_that_is_gone_is_told(browser, url):
    with opened_page(browser, url) as page:
        page.misdeeds.expected.append("404")
        page.goto("/console#/toolsets")
        with httpx.Client(base_url=url) as client:
            client.put("/v1/toolsets/tickets", json={"tools": [TOOL]}).raise_for_status()
        page.route(
            "**/v1/toolsets?limit=1000*",  # a page of the listing has one toolset
            lambda route: route.continue_(url=route.request.url.replace("limit=1000", "limit=1")),
        )
        page.goto("/console#/playground?toolset=tickets")
        toolset = page.get_by_label("Toolset", exact=True)
        toolset.wait_for()
        assert toolset.input_value() == "tickets"
        assert toolset.locator("option").all_inner_texts() == ["An example", "issues", "tickets"]
        page.goto("/console#/playground?toolset=gone")
        page.reload()
        page.get_by_role("alert").get_by_text("no toolset 'gone'").wait_for()
        assert toolset.input_value() == "gone"


def test_a_request_that_is_refused_says_why(browser, url):
    with opened_page(browser, url) as page:
        page.misdeeds.expected.append("400")
        page.goto("/console#/playground?toolset=issues")
        page.get_by_label("Message", exact=True).fill("Close WEB-12")
        page.get_by_text("More").click()
        page.get_by_label("Most tokens").fill("3")
        page.get_by_role("button", name="Run").click()
        page.get_by_role("alert").get_by_text("shortest").wait_for()
