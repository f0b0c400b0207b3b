"""Registering and changing toolsets in a browser: what is checked while one types, and what was written is kept."""

import json

import pytest
from sample_tools import TIME, WEATHER, mcp_tool

REFUSED = """{
  "tools": [
    {
      "name": "greet",
      "inputSchema": {
        "type": "object",
        "properties": {
          "name": {"type": "string"},
          "title": {
            "type": "string",
            "pattern": "(a)\\\\1"
          }
        }
      }
    }
  ]
}"""


def open_form(page, name, text):
    page.goto("/console#/toolsets/+register")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Tools, as JSON").fill(text)


def test_a_toolset_is_registered_by_paste(gateway, page):
    page.get_by_role("link", name="Register a toolset").click()
    page.get_by_label("Name").fill("clocks")
    page.get_by_label("Tools, as JSON").fill(json.dumps([TIME], indent=2))
    page.get_by_text("Every keyword can be enforced.").wait_for()
    page.get_by_role("button", name="Register").click()
    page.get_by_role("heading", name="clocks", level=1).wait_for()
    assert gateway.get("/v1/toolsets/clocks").json()["num_tools"] == 1


def test_a_refusal_stands_at_its_line(gateway, page):
    open_form(page, "greetings", REFUSED)
    page.get_by_text("This cannot be registered.").wait_for()
    line = next(number for number, text in enumerate(REFUSED.splitlines(), 1) if "pattern" in text)
    assert page.locator(".gutter .faulty").all_inner_texts() == [str(line)]
    refusal = page.locator(".refusals li")
    assert '"pattern": "(a)\\\\1"' in refusal.inner_text()
    assert page.get_by_role("button", name="Register").is_disabled()
    page.get_by_role("button", name=f"Line {line}").click()
    chosen = "(t => t.value.slice(t.selectionStart, t.selectionEnd).trim())(document.activeElement)"
    assert page.evaluate(chosen) == '"pattern": "(a)\\\\1"'
    page.get_by_label("Tools, as JSON").fill(REFUSED.replace("(a)\\\\1", "ab"))
    page.get_by_text("Every keyword can be enforced.").wait_for()
    assert gateway.get("/v1/toolsets/greetings").status_code == 404
    page.misdeeds.expected.append("422")  # as the answer to the check


def test_text_that_is_no_json_is_told_at_its_line(page):
    open_form(page, "greetings", REFUSED.replace('"string"}', '"string}'))
    page.get_by_text("This is no JSON").wait_for()
    assert page.locator(".gutter .faulty").all_inner_texts() == ["8"]


KEPT = {
    "tools": [
        {"type": "function", "function": {**WEATHER["function"], "strict": True}},
        {"name": "pay", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}},
        {
            **mcp_tool(
                "count", b={"maximum": 2**63 - 1, "type": "integer"}, **{"1": {"$ref": "https://a.example/x"}}
            ),
            "annotations": {"readOnlyHint": True},
            "callgate": {"key_order": "any"},
        },
        {
            "type": "custom",
            "name": "write",
            "format": {"type": "grammar", "syntax": "regex", "definition": "a+"},
        },
    ],
    "documents": {"https://a.example/x": {"const": 0.1}},
    "prompt_tools": "allowed",
    "tool_search": {"limit": 3, "always": ["pay"]},
}
"""A toolset with fields of every shape, an integer that no double holds, and a key that looks like a number."""


def test_a_change_without_edits_changes_nothing(gateway, page):
    gateway.put("/v1/toolsets/kept", json=KEPT).raise_for_status()
    before = gateway.get("/v1/toolsets/kept").json()
    page.goto("/console#/toolsets/kept")
    page.get_by_role("link", name="Change", exact=True).click()
    page.get_by_text("Every keyword can be enforced.").wait_for()
    with page.expect_response(lambda answer: answer.request.method == "PUT") as registered:
        page.get_by_role("button", name="Register revision 2").click()
    assert registered.value.ok
    page.get_by_role("heading", name="kept", level=1, exact=True).wait_for()
    assert gateway.get("/v1/toolsets/kept").json() == before, "the same content is no new revision"
    assert before["tool_search"] == KEPT["tool_search"]


def test_a_change_of_imported_tools_says_that_their_sources_are_forgotten(gateway, page, weather):
    said = page.get_by_text("registering forgets their sources")
    page.goto("/console#/toolsets/+register?name=weather")
    page.get_by_text("Every keyword can be enforced.").wait_for()
    assert said.count() == 0
    source = {"kind": "mcp", "location": "https://a.example", "tools": [mcp_tool("pay")]}
    gateway.post("/v1/toolsets/desk/import", json={"listing": source}).raise_for_status()
    page.goto("/console#/toolsets/+register?name=desk")
    said.wait_for()


def test_a_tool_that_is_removed_is_not_counted_among_those_that_stay(gateway, page, weather):
    page.goto("/console#/toolsets/+register?name=weather")
    page.get_by_text("Every keyword can be enforced.").wait_for()
    page.get_by_label("Tools, as JSON").fill(json.dumps({"tools": [mcp_tool("clock")]}))
    said = page.get_by_text("1 tool, 1 of them new or changed.")
    said.wait_for()
    assert "2 tools removed: get_weather, clock.now." in said.inner_text()


def test_a_change_of_somebody_else_is_not_overwritten(gateway, page, weather):
    page.goto("/console#/toolsets/+register?name=weather")
    page.get_by_text("Every keyword can be enforced.").wait_for()
    gateway.put("/v1/toolsets/weather", json={"tools": [TIME]}).raise_for_status()
    page.get_by_role("button", name="Register revision 2").click()
    page.get_by_text("Stale revision").wait_for()
    page.misdeeds.expected.append("412")
    assert gateway.get("/v1/toolsets/weather").json()["num_tools"] == 1


def test_what_was_written_outlives_another_key_and_a_reload(page):
    text = json.dumps({"tools": [TIME]})
    page.goto("/console#/toolsets/+register")
    page.get_by_label("Name").fill("clocks")
    page.get_by_label("Tools, as JSON").fill(text)
    page.get_by_role("button", name="API key").click()
    page.get_by_label("Key", exact=True).fill("another")
    page.keyboard.press("Enter")
    page.get_by_text("This is what you wrote here before").wait_for()
    assert page.get_by_label("Tools, as JSON").input_value() == text
    page.reload()
    page.get_by_text("Every keyword can be enforced.").wait_for()
    assert page.get_by_label("Name").input_value() == "clocks"
    assert page.get_by_label("Tools, as JSON").input_value() == text
    page.get_by_role("button", name="Register", exact=True).click()
    page.get_by_role("heading", name="clocks", level=1, exact=True).wait_for()
    page.goto("/console#/toolsets/+register")
    assert page.get_by_label("Tools, as JSON").input_value() == "", "it was sent"


def test_who_goes_on_with_an_older_revision_is_told(gateway, page, weather):
    page.goto("/console#/toolsets/+register?name=weather")
    tools = page.get_by_label("Tools, as JSON")
    tools.press_sequentially(" ")
    page.reload()
    told = page.locator("main .fair-note").first
    told.wait_for()
    assert "You began with" not in told.inner_text()
    gateway.put("/v1/toolsets/weather", json={"tools": [TIME]}).raise_for_status()
    page.reload()
    page.get_by_text("You began with revision 1, and now there is revision 2").wait_for()


def test_what_was_written_is_forgotten_with_the_key(page):
    page.evaluate("sessionStorage.setItem('callgate.key', 'one')")
    page.goto("/console#/playground")
    page.get_by_label("Message").fill("a private question")
    page.goto("/console#/toolsets/+register")
    page.get_by_label("Tools, as JSON").fill("{")
    page.get_by_role("button", name="API key").click()
    page.get_by_role("button", name="Forget it").click()
    page.get_by_text("Paste tools to check them").wait_for()
    assert page.get_by_label("Tools, as JSON").input_value() == ""
    assert page.evaluate("Object.keys(sessionStorage)") == []


@pytest.mark.parametrize("way", ["Cancel", "Start again"])
def test_what_was_written_is_given_up(page, way):
    page.goto("/console#/toolsets/+register")
    page.get_by_label("Tools, as JSON").fill("{")
    page.reload()
    page.get_by_text("This is what you wrote here before").wait_for()
    page.locator("main").get_by_text(way).click()
    page.goto("/console#/toolsets")
    page.goto("/console#/toolsets/+register")
    page.get_by_text("Paste tools to check them").wait_for()
    assert page.get_by_label("Tools, as JSON").input_value() == ""


def test_a_check_that_failed_is_made_again(page):
    page.misdeeds.expected.append("ERR_FAILED")
    page.goto("/console#/toolsets/+register")
    page.get_by_label("Name").fill("clocks")
    page.route("**/check", lambda route: route.abort())
    page.get_by_label("Tools, as JSON").fill(json.dumps({"tools": [TIME]}))
    page.get_by_text("The gateway does not answer").wait_for()
    page.unroute_all()
    page.get_by_role("button", name="Check again").click()
    page.get_by_text("Every keyword can be enforced.").wait_for()


def test_a_file_is_opened_and_registered(gateway, page, tmp_path):
    path = tmp_path / "clocks.json"
    path.write_text(json.dumps({"tools": [TIME]}), "utf-8")
    page.goto("/console#/toolsets/+register")
    page.get_by_label("Name").fill("clocks")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Open a file").click()
    chooser.value.set_files(path)
    page.get_by_text("Every keyword can be enforced.").wait_for()
    assert json.loads(page.get_by_label("Tools, as JSON").input_value()) == {"tools": [TIME]}
    path.write_text(REFUSED, "utf-8")  # the same file, opened again
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Open a file").click()
    chooser.value.set_files(path)
    page.get_by_text("This cannot be registered.").wait_for()
    page.misdeeds.expected.append("422")
    assert gateway.get("/v1/toolsets/clocks").status_code == 404
