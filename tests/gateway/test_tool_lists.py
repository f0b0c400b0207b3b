"""Lists of toolsets and tools: searched, in pages; reports of one tool; what a revision changed."""

import pytest

URL = "/v1/toolsets/many"


def tool(name, description="", **properties):
    parameters = {"type": "object", "properties": properties, "additionalProperties": False}
    return {"name": name, "description": description, "inputSchema": parameters}


TOOLS = [
    tool("mail.send", "Send a letter to a person."),
    tool("mail.read", "Read one letter."),
    tool("clock", "The time, and nothing else.", zone={"type": "string"}),
    tool("long", "word " * 400),
]


@pytest.fixture
async def many(client):
    """The toolset `many`, registered."""
    response = await client.put(URL, json={"tools": TOOLS})
    assert response.status_code == 201, response.text
    return client


def names(response):
    assert response.status_code == 200, response.text
    return [each["name"] for each in response.json()["tools"]]


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("", ["mail.send", "mail.read", "clock", "long"]),
        ("LETTER", ["mail.send", "mail.read"]),
        ("letter mail.s", ["mail.send"]),
        ("nothing at all", []),
    ],
)
async def test_tools_are_found_by_words_of_their_names_and_descriptions(many, search, found):
    assert names(await many.get(f"{URL}/tools", params={"search": search})) == found


async def test_pages_of_tools_join_to_all_of_them(many):
    seen, after = [], None
    while True:
        page = await many.get(f"{URL}/tools", params={"limit": 3} | ({"after": after} if after else {}))
        seen += names(page)
        if (after := page.json()["next"]) is None:
            break
    assert seen == [each["name"] for each in TOOLS]
    unknown = await many.get(f"{URL}/tools", params={"after": "mail.sent"})
    assert (unknown.status_code, unknown.json()["near"]) == (404, ["mail.send", "mail.read"])


async def test_a_list_has_the_beginnings_of_long_descriptions(many):
    page = (await many.get(f"{URL}/tools", params={"search": "long"})).json()
    [listed] = page["tools"]
    assert len(listed["description"]) == 300
    assert listed["description"].startswith("word word")
    assert (page["num_tools"], page["revision"]) == (4, 1)


async def test_toolsets_are_found_by_a_part_of_their_names(many):
    for name in ("mail", "mailbox", "mail.old"):
        assert (await many.put(f"/v1/toolsets/{name}", json={"tools": []})).status_code == 201
    assert (await many.delete("/v1/toolsets/mail.old")).status_code == 204

    async def found(**query):
        page = (await many.get("/v1/toolsets", params=query)).json()
        return [each["name"] for each in page["toolsets"]], page["next"]

    assert await found(search="MAIL") == (["mail", "mailbox"], None)
    assert await found(search="mail", limit=1) == (["mail"], "mail")
    assert await found(search="mail", limit=1, after="mail") == (["mailbox"], None)
    assert await found(search="post") == ([], None)


async def test_the_report_of_one_tool(many):
    whole = (await many.get(f"{URL}/report")).json()
    one = (await many.get(f"{URL}/report", params={"tool": "clock"})).json()
    assert [report["name"] for report in one["tools"]] == ["clock"]
    assert one["tools"][0]["entries"] == whole["tools"][2]["entries"]
    unknown = await many.get(f"{URL}/report", params={"tool": "clocks"})
    assert (unknown.status_code, unknown.json()["near"]) == (404, ["clock"])


async def test_what_revisions_changed(many):
    wider = tool("clock", "The time.", zone={"type": ["string", "null"]})
    await many.put(URL, json={"tools": [*TOOLS[:2], wider, tool("new")]})
    await many.put(URL, json={"tools": [*TOOLS[:2], wider]})

    async def changes(number, **query):
        answer = await many.get(f"{URL}/revisions/{number}/changes", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()["since"], answer.json()["changes"]

    assert await changes(1) == (None, dict.fromkeys([each["name"] for each in TOOLS], "added"))
    assert await changes(2) == (1, {"clock": "widened", "new": "added", "long": "removed"})
    assert await changes(3) == (2, {"new": "removed"})
    assert await changes(3, since=1) == (1, {"clock": "widened", "long": "removed"})
    assert await changes(1, since=3) == (3, {"clock": "narrowed", "long": "added"})
    assert (await many.get(f"{URL}/revisions/9/changes")).status_code == 404
    old = await many.get(f"{URL}/tools/clock", params={"revision": 1, "shape": "mcp"})
    assert old.json()["description"] == "The time, and nothing else."
