"""`tool_search`: which tools a prompt shows and a call may name, out of many."""

from dataclasses import replace

import pytest
from apis import CHAT, MESSAGES, RESPONSES
from chat import ask
from fake_runtime import call
from whole_outputs import admits, spell_calls

from runtime.errors import PromptTooLong

NAMES = ("read_mail", "send_mail", "list_files", "delete_file", "play_song", "stop_song", "book_flight")
MAIL, FILES = ["read_mail", "send_mail"], ["list_files", "delete_file"]


TOOLS = [
    {
        "type": "function",
        "name": name,
        "description": f"Can {name.replace('_', ' a ')}.",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    }
    for name in NAMES
]


def asking(text, **fields):
    return {"tools": TOOLS, "messages": [{"role": "user", "content": text}]} | fields


def shown(runtime):
    return [tool.name for tool in runtime.requests[-1].tools]


def callable_tools(runtime):
    """The tools that the grammar of the last request lets a model call."""
    constraint = runtime.requests[-1].constraint
    return [name for name in NAMES if admits(constraint, spell_calls(constraint.syntax, (name, "{}")))]


@pytest.mark.parametrize(
    ("text", "search", "names"),
    [
        ("Send mail, and read mail", {"limit": 2}, MAIL),
        ("Delete a file, list the files", {"limit": 2}, FILES),
        ("Play a song. Also book a flight.", {"limit": 2}, ["play_song", "book_flight"]),
        ("Delete files", {"limit": 2, "query": "send mail; read mail"}, MAIL),
        ("Send mail", {"limit": 2, "always": ["book_flight"]}, ["send_mail", "book_flight"]),
        ("Send mail", {"limit": 1, "always": FILES}, FILES),
        ("xyzzy", {"limit": 3}, list(NAMES[:3])),
        ("Send mail", True, list(NAMES)),
        ("Send mail", False, list(NAMES)),
        ("Send mail", None, list(NAMES)),
    ],
)
async def test_the_prompt_shows_what_was_found_and_the_grammar_is_of_that(
    client, runtime, text, search, names
):
    await ask(client, **asking(text, tool_search=search, tool_choice="required"))
    assert shown(runtime) == names
    assert callable_tools(runtime) == names


async def test_the_answer_and_the_trace_tell_what_was_found(client, runtime, spans):
    runtime.script = call("send_mail", "{}")
    said = (await ask(client, **asking("Send mail", tool_search={"limit": 2, "always": ["play_song"]})))[
        "callgate"
    ]
    found = said["tool_search"]
    assert found["searched"] == len(NAMES)
    assert found["shown"] == [
        {"name": "send_mail", "score": 1.0, "reason": "found"},
        {"name": "play_song", "score": 0.0, "reason": "always"},
    ]
    [span] = [span for span in spans.get_finished_spans() if span.name.startswith("chat ")]
    assert span.attributes["callgate.tool_search.names"] == ("send_mail", "play_song")
    assert span.attributes["callgate.tool_search.scores"] == (1.0, 0.0)
    assert (await ask(client, **asking("Send mail")))["callgate"]["tool_search"] is None


async def test_tools_that_were_called_or_chosen_stay(client, runtime):
    called = {"id": "c1", "type": "function", "function": {"name": "book_flight", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Book a flight"},
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "c1", "content": "booked"},
        {"role": "user", "content": "Delete the file"},
    ]
    said = (await ask(client, tools=TOOLS, messages=messages, tool_search={"limit": 2}))["callgate"]
    assert [(t["name"], t["reason"]) for t in said["tool_search"]["shown"]] == [
        ("delete_file", "found"),
        ("book_flight", "called"),
    ]
    chosen = {"type": "function", "function": {"name": "stop_song"}}
    await ask(client, **asking("Delete the file", tool_search={"limit": 1}, tool_choice=chosen))
    assert shown(runtime) == ["stop_song"]
    assert callable_tools(runtime) == ["stop_song"]


async def test_an_earlier_message_counts_less_than_the_last(client, runtime):
    messages = [{"role": "user", "content": text} for text in ("Play a song", "Send mail")]
    await ask(client, tools=TOOLS, messages=messages, tool_search={"limit": 1})
    assert shown(runtime) == ["send_mail"]
    messages[-1]["content"] = "Yes, go ahead"
    await ask(client, tools=TOOLS, messages=messages, tool_search={"limit": 1})
    assert shown(runtime) == ["play_song"]


async def test_the_request_says_else_the_toolset_else_the_settings(client_with, runtime):
    runtime.card = replace(runtime.card, tool_search=1)
    async with client_with(tool_search=1) as client:
        own = {"tools": TOOLS[:4], "tool_search": {"limit": 2, "always": ["list_files"]}}
        assert (await client.put("/v1/toolsets/office", json=own)).status_code == 201
        assert (await client.get("/v1/toolsets/office")).json()["tool_search"] == own["tool_search"]
        said = {"messages": [{"role": "user", "content": "Send mail, book a flight"}], "toolset": "office"}
        await ask(client, **said, tools=TOOLS[4:])
        assert shown(runtime) == ["send_mail", "list_files", "book_flight"]
        await ask(client, **said, tools=TOOLS[4:], tool_search={"limit": 2})
        assert shown(runtime) == ["send_mail", "book_flight"]
        await ask(client, **said, tools=TOOLS[4:], tool_search=False)
        assert shown(runtime) == list(NAMES)


@pytest.mark.parametrize(
    ("api", "asked"),
    [
        (CHAT, asking("Send mail")),
        (RESPONSES, {"input": "Send mail", "tools": TOOLS}),
        (
            MESSAGES,
            asking("Send mail", tools=[{"name": n, "input_schema": {"type": "object"}} for n in NAMES]),
        ),
    ],
)
async def test_every_api_searches_and_refuses_a_name_that_there_is_not(client, runtime, api, asked):
    await api.ask(client, **asked, tool_search={"limit": 1})
    assert shown(runtime) == ["send_mail"]
    error = await api.refusal(client, **asked, tool_search={"always": ["send_male"]})
    assert error["param"] == "tool_search.always[0]"
    assert "did you mean 'send_mail'" in error["message"]
    slip = await api.refusal(client, **asked, tool_search={"limt": 1})
    assert "did you mean 'limit'?" in slip["message"]


@pytest.mark.parametrize(("method", "url"), [("PUT", "/v1/toolsets/x"), ("POST", "/v1/toolsets/x/check")])
async def test_a_toolset_that_always_shows_a_tool_which_it_has_not_is_refused(client, method, url):
    refused = await client.request(
        method, url, json={"tools": TOOLS, "tool_search": {"always": ["reed_mail"]}}
    )
    assert refused.status_code == 422
    [fault] = refused.json()["errors"]
    assert fault["pointer"] == "/tool_search/always/0"
    assert "did you mean 'read_mail'" in fault["reason"]


async def test_a_prompt_that_is_too_long_names_the_toolset_and_suggests_searching(client, runtime):
    assert (await client.put("/v1/toolsets/office", json={"tools": TOOLS})).status_code == 201
    runtime.script = [PromptTooLong(30_000, 4096, num_reserved=12)]
    message = (await CHAT.refusal(client, toolset="office"))["message"]
    assert "without 12 for the shortest valid output" in message
    assert "it shows 7 tools of the toolset 'office'" in message
    assert '"tool_search": {"limit": 20}' in message
    message = (await CHAT.refusal(client, toolset="office", tool_search={"limit": 5}))["message"]
    assert "a `limit` of `tool_search` below 5" in message
