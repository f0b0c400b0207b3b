"""Stored responses: conversations go on by an id, at any replica; bounded, one owner's apart from another's."""

import openai
import pytest
from apis import RESPONSES
from fake_runtime import STATS, call, text
from redis_server import redis_url  # noqa: F401 (a fixture)
from serving import served

from gateway.errors import InvalidField
from gateway.generation import continuation
from runtime.events import ThoughtDelta
from runtime.request import Message
from toolspecs.errors import StoreUnavailable
from toolspecs.tool import ToolCall

URL, ask, refusal = RESPONSES.url, RESPONSES.ask, RESPONSES.refusal
TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}


async def test_a_conversation_goes_on_by_the_id_of_its_last_response(client, runtime):
    runtime.script = [ThoughtDelta(0, "Hm"), *call("get_weather", "{}")]
    first = await ask(client, tools=[TOOL], instructions="Be brief.")
    assert first["store"] is True
    made = first["output"][-1]
    runtime.script = text("It is cold.")
    result = {"type": "function_call_output", "call_id": made["call_id"], "output": "4 degrees"}
    second = await ask(client, input=[result], previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]
    assert runtime.requests[-1].messages == (
        Message("user", "Hi"),  # instructions are not carried over
        Message("assistant", calls=(ToolCall(made["call_id"], "get_weather", "{}"),), thought="Hm"),
        Message("tool", "4 degrees", call_id=made["call_id"]),
    )
    await ask(client, input="And now?", previous_response_id=second["id"])
    assert [m.role for m in runtime.requests[-1].messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]


async def test_the_tokens_of_a_conversation_are_counted(client, runtime):
    first = await ask(client, input="I live in Oslo.")
    asked = {"model": "tiny", "input": "And you?", "previous_response_id": first["id"], "tools": [TOOL]}
    counted = await client.post(f"{URL}/input_tokens", json=asked)
    assert counted.status_code == 200, counted.text
    assert counted.json() == {"object": "response.input_tokens", "input_tokens": STATS.num_prompt_tokens}
    counting = runtime.requests[-1]
    assert [message.content for message in counting.messages] == ["I live in Oslo.", "Hello.", "And you?"]
    assert [tool.name for tool in counting.tools] == ["get_weather"]
    wrong = await client.post(f"{URL}/input_tokens", json=asked | {"previous_response_id": "resp_1"})
    assert wrong.json()["error"]["code"] == "previous_response_not_found"


async def test_items_are_found_by_their_ids(client, runtime):
    """What the AI SDK's default provider sends from the second turn on."""
    runtime.script = [ThoughtDelta(0, "Hm"), *call("get_weather", "{}")]
    first = await ask(client, tools=[TOOL])
    references = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
    result = {"type": "function_call_output", "call_id": first["output"][-1]["call_id"], "output": "{}"}
    await ask(client, input=[{"role": "user", "content": "Hi"}, *references, result])
    _, answer, _ = runtime.requests[-1].messages
    assert (answer.thought, answer.calls[0].name) == ("Hm", "get_weather")
    for wrong in ("fc_1", "fc_" + "0" * 34, references[0]["id"] + "7"):
        error = await refusal(client, input=[*references, {"type": "item_reference", "id": wrong}])
        assert error["param"] == "input[2].id", error


async def test_a_small_request_does_not_stand_for_a_large_one(client, runtime, monkeypatch):
    first = await ask(client)
    reference = {"type": "item_reference", "id": first["output"][0]["id"]}
    error = await refusal(client, input=[reference, reference])
    assert (error["param"], "the same item" in error["message"]) == ("input[1].id", True)
    second = await ask(client)
    both = [reference, {"type": "item_reference", "id": second["output"][0]["id"]}]
    await ask(client, input=[*both, {"role": "user", "content": "Hi"}])
    monkeypatch.setattr(continuation, "MAX_ENTRY_BYTES", 2500)
    runtime.script = text("x" * 500)
    long = [(await ask(client))["output"][0]["id"] for _ in range(6)]
    both += [{"type": "item_reference", "id": item_id} for item_id in long]
    assert "more than 2500 bytes" in (await refusal(client, input=both))["message"]


async def test_a_streamed_response_is_stored_before_its_last_event(client):
    last = (await RESPONSES.stream(client))[-1]["response"]
    assert last["store"] is True
    assert (await client.get(f"{URL}/{last['id']}")).json() == last


async def test_a_stored_response_is_read_listed_and_deleted(client):
    asked = [{"role": "user", "content": f"{i}"} for i in range(3)]
    first = await ask(client, input=asked)
    path = f"{URL}/{first['id']}"
    assert (await client.get(path)).json() == first
    listed = (await client.get(f"{path}/input_items?limit=2")).json()
    assert [item["content"] for item in listed["data"]] == ["2", "1"]
    assert (listed["has_more"], listed["last_id"]) == (True, listed["data"][-1]["id"])
    rest = (await client.get(f"{path}/input_items?limit=2&after={listed['last_id']}")).json()
    assert ([item["content"] for item in rest["data"]], rest["has_more"]) == (["0"], False)
    ordered = (await client.get(f"{path}/input_items?order=asc")).json()
    assert [item["content"] for item in ordered["data"]] == ["0", "1", "2"]
    stale = (await client.get(f"{path}/input_items?after=msg_0")).json()["error"]
    assert (stale["param"], stale["code"]) == ("after", "invalid_field")
    refused = (await client.get(f"{path}/input_items?order=up")).json()["error"]
    assert "there are 'asc', 'desc'" in refused["message"]
    assert (await client.delete(path)).json() == {"id": first["id"], "object": "response", "deleted": True}
    for gone in (await client.get(path), await client.delete(path), await client.get(f"{path}/input_items")):
        assert (gone.status_code, gone.json()["error"]["code"]) == (404, "unknown_response")
    error = await refusal(client, previous_response_id=first["id"])
    assert error["param"] == "previous_response_id"


@pytest.mark.parametrize(
    ("sent", "param"),
    [
        ([{"type": "function_call_output", "call_id": "call_9", "output": "4"}], "input[0].call_id"),
        ([{"role": "user", "content": "a"}, {"role": "usr", "content": "b"}], "input[1].role"),
        ([{"role": "user", "content": [{"type": "text", "text": "a"}]}], "input[0].content[0].type"),
        ([5], "input[0]"),
    ],
)
async def test_an_error_counts_the_items_that_were_sent(client, sent, param):
    """Not those of the stored conversation, which the client does not see in its request."""
    first = await ask(client, input=[{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
    error = await refusal(client, input=sent, previous_response_id=first["id"])
    assert error["param"] == param
    assert error["message"].startswith(f"{param}: ")


@pytest.mark.parametrize(
    ("sent", "place", "told"),
    [
        ("Hi", "input[2].content", "input"),
        (["Hi"], "input[1].role", "previous_response_id"),
        ("Hi", "n", "n"),
    ],
)
def test_a_place_in_what_was_expanded_is_one_in_what_was_sent(sent, place, told):
    expander = continuation.Continuation(None, "owner")
    error = expander.as_sent(InvalidField(place, "no"), {"input": sent}, {"input": [{}, {}, {}]})
    assert error.param == told


async def test_a_stored_response_is_not_sent_as_a_stream(client):
    """OpenAI's client would make a stream of it without any event."""
    stored = await ask(client)
    path = f"{URL}/{stored['id']}"
    for query in ("stream=false", "include[]=reasoning.encrypted_content"):
        assert (await client.get(f"{path}?{query}")).json() == stored
    refused = (await client.get(f"{path}?stream=true")).json()["error"]
    assert (refused["code"], refused["param"]) == ("invalid_field", "stream")


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_each_item_is_listed_once_whatever_ids_the_client_sent(client, order):
    """If an id comes twice, OpenAI's client may page without end, or stop after the first page."""
    own_ids = ["msg_1", None, "msg_1", "", "msg_2", None, "msg_1"]
    asked = [{"id": each, "role": "user", "content": f"{i}"} for i, each in enumerate(own_ids)]
    asked += [{"type": None, "role": "user", "content": "7"}, {"role": "user", "content": "8"}]
    path = f"{URL}/{(await ask(client, input=asked))['id']}/input_items?order={order}&limit=2"
    items, after, has_more = [], "", True
    while has_more and len(items) < 20:
        page = (await client.get(f"{path}{after}")).json()
        assert (page["first_id"], page["last_id"]) == (page["data"][0]["id"], page["data"][-1]["id"])
        items += page["data"]
        after, has_more = f"&after={page['last_id']}", page["has_more"]
    told = [item["content"] for item in items]
    assert (told if order == "asc" else told[::-1]) == [f"{i}" for i in range(9)]
    assert {item["type"] for item in items} == {"message"}
    ids = [item["id"] for item in items]
    assert all(ids)
    assert len(set(ids)) == 9
    assert {"msg_1", "msg_2"} <= set(ids)


@pytest.mark.parametrize("response_id", ["resp_1", "resp_" + "0" * 32, "../toolset:x", "x" * 10_000, 5])
async def test_an_id_that_names_nothing_is_refused(client, response_id):
    error = await refusal(client, previous_response_id=response_id)
    code = "invalid_field" if response_id == 5 else "previous_response_not_found"
    assert (error["param"], error["code"]) == ("previous_response_id", code)
    assert len(error["message"]) < 300


async def test_what_is_not_to_be_stored_is_not(client_with, client):
    first = await ask(client, store=False)
    assert first["store"] is False
    assert (await client.get(f"{URL}/{first['id']}")).status_code == 404
    async with client_with(response_seconds=0) as client_of_never:
        assert (await ask(client_of_never))["store"] is False
        error = await refusal(client_of_never, previous_response_id=first["id"])
        assert "responses are not stored here" in error["message"]
        error = await refusal(client_of_never, input=[{"type": "item_reference", "id": "fc_1"}])
        assert error["param"] == "input"


async def test_nobody_reads_those_of_another_key(client_with, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("first-key-of-two\nother-key-of-two\n")
    own, other = ({"Authorization": f"Bearer {name}-key-of-two"} for name in ("first", "other"))
    async with client_with(api_key_file=str(keys)) as client:
        first = await ask(client, headers=own)
        path = f"{URL}/{first['id']}"
        assert (await client.get(path, headers=other)).status_code == 404
        assert (await client.delete(path, headers=other)).status_code == 404
        continued = {"model": "tiny", "input": "Hi", "previous_response_id": first["id"]}
        assert (await client.post(URL, json=continued, headers=other)).status_code == 400
        assert (await client.post(URL, json=continued, headers=own)).status_code == 200


def test_another_replica_continues_lists_and_deletes(app_with, runtime, redis_url):  # noqa: F811
    with served(app_with(store=redis_url)) as one, served(app_with(store=redis_url)) as other:
        asked = {"model": "tiny", "input": "I live in Oslo."}
        first = one.post(URL, json=asked).json()
        asked = {"model": "tiny", "input": "Where do I live?", "previous_response_id": first["id"]}
        second = other.post(URL, json=asked).json()
        told = [message.content for message in runtime.requests[-1].messages]
        assert told == ["I live in Oslo.", "Hello.", "Where do I live?"]
        assert one.get(f"{URL}/{second['id']}").json() == second
        assert len(one.get(f"{URL}/{second['id']}/input_items").json()["data"]) == 3
        assert other.delete(f"{URL}/{first['id']}").status_code == 200
        assert one.get(f"{URL}/{first['id']}").status_code == 404


async def test_a_store_that_fails_loses_no_answer(client, monkeypatch):
    async def fail(*args, **kwargs):
        raise StoreUnavailable("sqlite", "it is gone")

    monkeypatch.setattr("toolspecs.stores.sqlite.SQLiteStore.compare_and_set", fail)
    answer = await ask(client)
    assert (answer["status"], answer["store"]) == ("completed", False)


def test_openais_client_continues_and_deletes_stored_responses(openai_client):
    responses = openai_client.responses
    first = responses.create(model="tiny", input="Hi")
    second = responses.create(model="tiny", input="And?", previous_response_id=first.id)
    assert responses.retrieve(second.id).output_text == "Hello."
    counted = responses.input_tokens.count(model="tiny", input="So?", previous_response_id=second.id)
    assert counted.input_tokens == STATS.num_prompt_tokens
    items = responses.input_items.list(second.id, order="asc", limit=1)
    assert len(list(items)) == 3  # over all pages
    responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        responses.retrieve(first.id)
