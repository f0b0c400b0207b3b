"""`callgate.accept` and its siblings in every API: what the runtime is asked for, what the answer tells, and what is refused."""

from dataclasses import replace

import pytest
from apis import CHAT
from chat import URL, ask, body
from fake_runtime import call
from sample_tools import MASKED, WEATHER

from gateway.errors import SettingsError
from gateway.served_models import EMBEDDED_SELECTION, default_selection
from gateway.settings import Settings
from runtime.events import BrokenDraft, SelectionStats
from runtime.inspection import TokenPlace
from runtime.selection import DRAFT, Selection

SCHEMA = WEATHER["function"]["parameters"]
OF_THREE = {
    "log_weight": -0.25,
    "selection": SelectionStats("accept", 3, is_exact=True, num_computed_tokens=90),
}
ARGUMENTS = '{"place": "Oslo", "days": 3}'
TOLD = {
    "index": 0,
    "strategy": "accept",
    "answers": 3,
    "accepted": True,
    "log_weight": -0.25,
    "computed_tokens": 90,
    "broken": [],
}


@pytest.fixture
def selected(runtime):
    runtime.script = call("get_weather", ARGUMENTS, **OF_THREE)
    return runtime


@pytest.mark.parametrize(("url", "sent"), MASKED)
async def test_every_api_takes_accept_and_tells_what_came_of_it(client, selected, url, sent):
    response = await client.post(url, json={**sent, "callgate": {"accept": 8}})
    assert response.status_code == 200, response.text
    asked = selected.requests[-1]
    assert (asked.selection, asked.is_streamed) == (Selection("accept", 8), False)
    assert response.json()["callgate"]["selections"] == [TOLD]


@pytest.mark.parametrize(("url", "sent"), MASKED)
async def test_a_stream_tells_at_its_end_how_its_answer_was_selected(client, selected, url, sent):
    usage = {"stream_options": {"include_usage": True}} if "completions" in url else {}
    response = await client.post(url, json={**sent, **usage, "stream": True, "callgate": {"accept": 8}})
    assert '"accepted":true' in response.text.replace(" ", "")
    assert selected.requests[-1].is_streamed


async def test_several_answers_are_told_in_their_order(client, runtime):
    """They are told by their numbers, and they end in any order."""
    runtime.script = [
        event for choice in (1, 0) for event in call("get_weather", ARGUMENTS, choice=choice, **OF_THREE)
    ]
    answer = await ask(client, tools=[WEATHER], tool_choice="required", n=2, callgate={"accept": 8})
    assert [told["index"] for told in answer["callgate"]["selections"]] == [0, 1]


async def test_a_request_that_does_not_say_leaves_it_to_the_engine(client, runtime):
    answer = await ask(client, tools=[WEATHER], tool_choice="required")
    assert runtime.requests[-1].selection is None
    assert answer["callgate"]["selections"] == []


@pytest.mark.parametrize(
    ("options", "selects", "is_ignored"),
    [
        ({}, True, True),
        ({"tools": [WEATHER], "temperature": 0}, False, True),
        ({"tools": [WEATHER], "temperature": 0}, True, False),
        ({"tools": [WEATHER], "temperature": 1}, False, False),
    ],
)
async def test_accept_without_effect_is_named_as_ignored(client, runtime, options, selects, is_ignored):
    runtime.card = replace(runtime.card, selects=selects)
    response = await client.post(URL, json=body(callgate={"accept": 2}, **options))
    assert response.status_code == 200
    assert (response.headers.get("x-callgate-ignored") == "callgate.accept") is is_ignored
    assert runtime.requests[-1].num_answers_per_choice == (
        1 if is_ignored else 2
    )  # the client pays for so many


@pytest.mark.parametrize("size", [0, 17, "many", 2.5])
async def test_a_size_out_of_range_is_refused(client, size):
    assert (await CHAT.refusal(client, callgate={"accept": size}))["param"] == "callgate.accept"


async def test_particles_are_asked_for_in_the_same_way(client, runtime):
    tools = {"tools": [WEATHER], "tool_choice": "required"}
    await ask(client, **tools, callgate={"particles": 4})
    assert runtime.requests[-1].selection == Selection("particles", 4)
    error = await CHAT.refusal(client, **tools, callgate={"particles": 4, "accept": 2})
    assert error["param"] == "callgate.particles"


@pytest.mark.parametrize(("url", "sent"), MASKED)
async def test_drafts_are_asked_for_in_every_api_and_tell_where_they_broke(client, runtime, url, sent):
    broken = BrokenDraft(7, TokenPlace("arguments", 0, "get_weather", ("days",), "value"))
    selection = SelectionStats("draft", 2, is_exact=False, num_computed_tokens=None, broken=(broken,))
    runtime.script = call("get_weather", ARGUMENTS, selection=selection)
    response = await client.post(url, json={**sent, "callgate": {"draft": True}})
    assert response.status_code == 200, response.text
    assert runtime.requests[-1].selection == DRAFT
    (told,) = response.json()["callgate"]["selections"]
    assert (told["strategy"], told["computed_tokens"]) == ("draft", None)
    assert told["broken"] == [{"tokens": 7, "part": "arguments", "tool": "get_weather", "pointer": "/days"}]


async def test_a_draft_is_switched_off_or_refused_beside_another_way(client, runtime):
    tools = {"tools": [WEATHER], "tool_choice": "required"}
    await ask(client, **tools, callgate={"draft": False})
    assert runtime.requests[-1].selection == Selection("draft", 1)
    error = await CHAT.refusal(client, **tools, callgate={"draft": True, "accept": 2})
    assert error["param"] == "callgate.draft"
    response = await client.post(URL, json=body(**tools, temperature=0, callgate={"draft": True}))
    assert "x-callgate-ignored" not in response.headers


def test_one_setting_says_how_answers_are_selected():
    assert default_selection(Settings()) == Selection()
    assert default_selection(Settings(draft=True)) == DRAFT
    with pytest.raises(SettingsError, match="together with accept"):
        default_selection(Settings(draft=True, accept=2))


def test_the_embedded_engine_selects_where_no_setting_says_how():
    assert EMBEDDED_SELECTION.size > 1
    assert default_selection(Settings(), EMBEDDED_SELECTION) == EMBEDDED_SELECTION
    assert default_selection(Settings(accept=1), EMBEDDED_SELECTION) == Selection()
    assert default_selection(Settings(particles=4), EMBEDDED_SELECTION) == Selection("particles", 4)
