"""Documents that tools refer to, over HTTP: registered with the toolset, kept, shown, and never fetched."""

import asyncio

import pytest
from chat import ask
from sample_tools import TIME, chat_tool
from whole_outputs import admits_beginning

from toolspecs import Tool, Toolset

URL = "/v1/toolsets/pay"
MONEY, KINDS = "https://example.com/money", "https://example.com/kinds"
PLACE = "/documents/https:~1~1example.com~1money"
AMOUNT = {"type": "integer", "minimum": 1}


def tool(name="pay", uri=f"{MONEY}#/$defs/amount"):
    return chat_tool(name, type="object", properties={"amount": {"$ref": uri}}, required=["amount"])


def body(amount=AMOUNT, **documents):
    return {"tools": [tool(), TIME], "documents": {MONEY: {"$defs": {"amount": amount}}, **documents}}


def faults(response):
    assert response.status_code == 422, response.text
    assert all(error["reason"] for error in response.json()["errors"])
    return [(error["tool"], error["pointer"], error["keyword"]) for error in response.json()["errors"]]


@pytest.fixture
async def pay(client):
    """The toolset `pay`, registered."""
    response = await client.put(URL, json=body())
    assert response.status_code == 201, response.text
    return response.json()


@pytest.mark.parametrize("shape", ["openai", "anthropic", "mcp"])
async def test_documents_come_back_as_they_were_put(client, pay, shape):
    got = await client.get(URL, params={"shape": shape})
    assert got.json()["documents"] == body()["documents"]
    again = {field: got.json()[field] for field in ("tools", "documents")}
    assert (await client.put(URL, json=again)).json() == pay
    assert (await client.put("/v1/toolsets/none", json={"tools": []})).status_code == 201
    assert (await client.get("/v1/toolsets/none")).json()["documents"] == {}


async def test_a_revision_keeps_its_documents(client, pay):
    changed = await client.put(URL, json=body({"type": "string"}))
    assert changed.json()["revision"] == 2
    assert changed.headers["etag"] != pay["etag"]
    first = (await client.get(f"{URL}/revisions/1")).json()
    assert first["documents"] == body()["documents"]
    await client.post(f"{URL}/revisions/1/restore")
    assert (await client.get(URL)).json()["documents"] == first["documents"]


async def test_a_call_is_masked_by_the_documents_of_its_revision(client, runtime, pay):
    await client.put(URL, json=body({"enum": ["much"]}))
    masks = {}
    for toolset in ("pay@1", "pay@2"):
        await ask(client, tool_choice="required", toolset=toolset)
        masks[toolset] = {
            arguments
            for arguments in ('{"amount": 5', '{"amount": "much"')
            if accepts(runtime.requests[-1].constraint, arguments)
        }
    assert masks == {"pay@1": {'{"amount": 5'}, "pay@2": {'{"amount": "much"'}}


def accepts(constraint, arguments):
    return admits_beginning(constraint, f'<tool_call>\n{{"name": "pay", "arguments": {arguments}')


async def test_one_tool_is_put_beside_the_toolsets_documents(client, pay):
    response = await client.put(f"{URL}/tools/refund", json=tool("refund"))
    assert response.status_code == 200, response.text
    assert (await client.get(URL)).json()["documents"] == body()["documents"]
    unknown = await client.put(f"{URL}/tools/other", json=tool("other", KINDS))
    assert faults(unknown) == [("other", "/function/parameters/properties/amount/$ref", "$ref")]
    assert (await client.delete(f"{URL}/tools/pay")).status_code == 200
    assert (await client.get(URL)).json()["documents"] == body()["documents"]


def overtake(app, toolset):
    """Another writer puts `toolset` between the check of a tool and its write."""
    catalog = app.state.views.whole.registry.catalog
    put_tool = catalog.put_checked_tool
    changes = [toolset]

    async def overtaken(*arguments, **conditions):
        while changes:
            await catalog.put(changes.pop())
        return await put_tool(*arguments, **conditions)

    catalog.put_checked_tool = overtaken


@pytest.mark.parametrize("condition", [None, "*", '{etag}, "2-{digest}"'])
async def test_a_tool_is_checked_against_the_documents_it_is_stored_with(client, pay, app, condition):
    """With a list, the client allows the revision of the other writer too."""
    other = Toolset("pay", (), body({"pattern": "(?<=a)b"})["documents"])
    overtake(app, other)
    etag = (await client.get(URL)).headers["etag"]
    headers = {"If-Match": condition.format(etag=etag, digest=other.digest[:12])} if condition else {}
    refused = await client.put(f"{URL}/tools/refund", json=tool("refund"), headers=headers)
    assert faults(refused)[0][0] == "refund"
    assert (await client.get(URL)).json()["tools"] == []


@pytest.mark.parametrize(
    ("headers", "present"), [({"If-Match": "{etag}"}, ()), ({"If-None-Match": "*"}, ("refund",))]
)
async def test_a_condition_that_no_longer_holds_stops_the_write_of_a_tool(client, pay, app, headers, present):
    etag = (await client.get(URL)).headers["etag"]
    tools = tuple(Tool(name, "", {"type": "object"}) for name in present)
    overtake(app, Toolset("pay", tools, body({"type": "number"})["documents"]))
    headers = {name: value.format(etag=etag) for name, value in headers.items()}
    stale = await client.put(f"{URL}/tools/refund", json=tool("refund"), headers=headers)
    assert stale.status_code == 412
    current = await client.get(URL)
    assert stale.json()["etag"] == current.headers["etag"]
    assert len(current.json()["tools"]) == len(present)


async def test_checks_and_reports_look_at_documents(client, pay):
    new = body({"type": "number"}, **{KINDS: {}})
    check = (await client.post(f"{URL}/check", json=new)).json()
    assert check["changes"] == {"pay": "widened", "clock.now": "unchanged"}
    assert check["documents"] == {MONEY: "changed", KINDS: "added"}
    less = (await client.post(f"{URL}/check", json={"tools": [TIME]})).json()
    assert less["documents"] == {MONEY: "removed"}
    same = (await client.post(f"{URL}/check", json=body())).json()
    assert (same["documents"], set(same["changes"].values())) == ({MONEY: "unchanged"}, {"unchanged"})
    report = (await client.get(f"{URL}/report")).json()["tools"][0]
    assert (f"{MONEY}#/$defs/amount", "minimum") in {
        (entry["pointer"], entry["keyword"]) for entry in report["entries"]
    }


@pytest.mark.parametrize("method", ["PUT", "POST"])
async def test_every_fault_is_told_at_once_and_nothing_changes(client, pay, method):
    url = URL if method == "PUT" else f"{URL}/check"
    sent = body()
    sent["tools"] += [{"type": "function", "function": {"name": "no good"}}]
    sent["documents"] |= {"money": {}, KINDS: {"type": "money"}}
    found = faults(await client.request(method, url, json=sent))
    assert [(name, pointer) for name, pointer, _ in found] == [
        (None, "/documents/money"),
        (None, "/documents/https:~1~1example.com~1kinds/type"),
        ("no good", "/tools/2/function/name"),
    ]
    sent = body({"type": "string", "pattern": "(?<=a)b"})
    sent["tools"].append(tool("other", KINDS))
    (pay_name, in_document, _), other = faults(await client.request(method, url, json=sent))
    assert (pay_name, in_document.startswith(f"{PLACE}/$defs/amount")) == ("pay", True)
    assert other == ("other", "/tools/2/function/parameters/properties/amount/$ref", "$ref")
    assert (await client.get(URL)).json()["revision"] == 1


async def test_a_document_that_is_not_registered_is_never_fetched(client):
    async def visited(_reader, writer):
        visits.append(1)
        writer.close()

    visits = []
    async with await asyncio.start_server(visited, "127.0.0.1", 0) as server:
        uri = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/money"
        response = await client.put(URL, json={"tools": [tool(uri=uri)]})
        inner = await client.put(URL, json={"tools": [tool(uri=MONEY)], "documents": {MONEY: {"$ref": uri}}})
    assert faults(response)[0][1] == "/tools/0/function/parameters/properties/amount/$ref"
    assert "documents" in response.json()["errors"][0]["suggestion"]
    assert faults(inner)[0][1] == PLACE + "/$ref"
    assert visits == []


async def test_a_body_with_null_documents_has_none(client):
    assert (await client.put(URL, json={"tools": [TIME], "documents": None})).status_code == 201
    bad = await client.put(URL, json={"tools": [TIME], "documents": []})
    assert faults(bad) == [(None, "/documents", "")]
