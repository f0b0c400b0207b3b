"""Tool search by meaning: what is found, what a search waits for, and when it goes by words alone."""

import threading

import numpy as np
import pytest
from chat import ask
from sample_tools import chat_tool
from serving import client_of, wait_for

from gateway.app import create_app
from gateway.generation import tool_search
from gateway.generation.tool_vectors import MAX_TEXTS_WAITING, WORTH_WAITING, ToolVectors
from toolspecs.tool import Tool

MEANINGS = ({"star", "quux"}, {"mail", "corge"}, {"song", "grault"}, {"file"})


class FakeEmbedder:
    """Texts have the meanings of their words; counts what it embeds, and waits while it is `stopped`."""

    def __init__(self):
        self.embedded = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def query(self, parts):
        assert self.may_go_on.wait(20)
        return np.stack([self.vector(part) for part in parts])

    def vector(self, text):
        words = set(text.lower().replace("_", " ").replace(".", " ").split())
        vector = np.array([0.1, *(float(bool(words & meaning)) for meaning in MEANINGS)], np.float32)
        return vector / np.linalg.norm(vector)

    def document(self, text):
        assert self.may_go_on.wait(20)
        if "unembeddable" in text:
            raise ValueError(text)
        self.embedded.append(text)
        return self.vector(text)


TOOLS = [chat_tool(name) for name in ("play_song", "send_mail", "star_repository", "delete_file")]
BOOKMARK = {
    "tools": TOOLS,
    "messages": [{"role": "user", "content": "Quux it"}],
    "tool_search": {"limit": 1},
}


@pytest.fixture
def embedder():
    return FakeEmbedder()


@pytest.fixture
async def client(settings, runtime, embedder):
    async with client_of(create_app(settings, runtime=runtime, embedder=embedder)) as client:
        yield client
        embedder.may_go_on.set()


async def search(client, **asked):
    """What a request found, and by what."""
    found = (await ask(client, **{**BOOKMARK, **asked}))["callgate"]["tool_search"]
    return [entry["name"] for entry in found["shown"]], found["by"]


async def test_tools_are_found_in_other_words_than_their_own(client, embedder):
    assert await search(client) == (["star_repository"], "words and meaning")
    assert len(embedder.embedded) == len(TOOLS)
    assert await search(client, messages=[{"role": "user", "content": "Write a corge"}]) == (
        ["send_mail"],
        "words and meaning",
    )
    assert len(embedder.embedded) == len(TOOLS), "vectors are kept"
    messages = [{"role": "user", "content": text} for text in ("A grault now", "Yes, please")]
    assert (await search(client, messages=messages))[0] == ["play_song"]


async def test_a_change_of_the_tools_is_seen_at_once(client, embedder):
    """The vectors of the tools that are searched together are kept together."""
    assert (await search(client))[0] == ["star_repository"]
    others = [*TOOLS[:2], chat_tool("find_quux"), chat_tool("add_song")]
    assert (await search(client, tools=others))[0] == ["find_quux"]
    assert (await search(client, tools=[*TOOLS[3:], *TOOLS[:3]]))[0] == ["star_repository"]
    assert len(embedder.embedded) == len(TOOLS) + 2


async def test_a_search_by_meaning_counts_words_too(client):
    asked = [{"role": "user", "content": "Delete it"}]
    assert await search(client, messages=asked) == (["delete_file"], "words and meaning")


async def test_a_search_that_would_wait_goes_by_words_and_says_so(client, embedder, monkeypatch):
    monkeypatch.setattr(tool_search, "MAX_WAIT_S", 0.0)
    embedder.may_go_on.clear()
    assert await search(client) == (["play_song"], "words")
    embedder.may_go_on.set()
    wait_for(lambda: len(embedder.embedded) == len(TOOLS))
    monkeypatch.undo()
    assert await search(client) == (["star_repository"], "words and meaning")
    assert len(embedder.embedded) == len(TOOLS), "each tool is embedded once"


async def test_the_deadline_of_a_request_bounds_the_wait(client, embedder):
    embedder.may_go_on.clear()
    found = await ask(client, **BOOKMARK, headers={"X-Request-Timeout": "0.5"})
    assert found["callgate"]["tool_search"]["by"] == "words"


async def test_many_tools_are_not_waited_for_and_found_later(client, embedder):
    embedder.may_go_on.clear()
    many = [*TOOLS, *(chat_tool(f"other_{i}") for i in range(WORTH_WAITING))]
    assert (await search(client, tools=many))[1] == "words"
    embedder.may_go_on.set()
    wait_for(lambda: len(embedder.embedded) == len(many))
    assert await search(client, tools=many) == (["star_repository"], "words and meaning")


async def test_a_text_that_cannot_be_embedded_is_found_by_words(client):
    assert await search(client, tools=[*TOOLS, chat_tool("unembeddable")]) == (["play_song"], "words")


async def test_without_the_setting_words_decide(client_with):
    async with client_with() as client:
        assert await search(client) == (["play_song"], "words")


async def test_tenants_share_no_vectors_and_vectors_are_counted(embedder):
    vectors = ToolVectors(embedder, max_bytes=2_000)
    tools = [Tool(f"play_song_{i}", "", {}) for i in range(3)]
    for tenant in ("acme", "acme", "bolt"):
        assert await vectors.scores(tools[:1], {"a grault": 1.0}, key="one", tenant=tenant) is not None
    assert len(embedder.embedded) == 2
    assert 0 < vectors._vectors.num_bytes <= 2_000
    assert await vectors.scores(tools, {"a grault": 1.0}, key="all", tenant="acme") is not None
    assert vectors._vectors.num_bytes <= 2_000
    vectors.close()


async def test_requests_that_nobody_waits_for_any_more_do_not_pile_up(embedder):
    """A search gives up after a while, and what it asked for is still to be made."""
    vectors = ToolVectors(embedder)
    tools = [Tool("play_song", "", {})]
    assert await vectors.scores(tools, {"a grault": 1.0}, key="all") is not None
    embedder.may_go_on.clear()
    for number in range(400):
        texts = {f"text {number} {'.'.join(' more' for _ in range(8))}": 1.0}
        assert await vectors.scores(tools, texts, key="all", wait_s=0) is None
    assert vectors._of_requests.num_of("") <= MAX_TEXTS_WAITING
    embedder.may_go_on.set()
    vectors.close()
