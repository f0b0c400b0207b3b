"""Which tools fit a text: what counts, and that hostile tools and texts cost little."""

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolspecs.search import tool_index
from toolspecs.search.tool_index import ToolIndex
from toolspecs.tool import Tool

TOOLS = [
    Tool("sendMail", "Delivers a message to a person.", {"properties": {"recipient": {"type": "string"}}}),
    Tool("list_files", "Shows what a folder holds.", {}),
    Tool("HTTPGet", "Reads a URL.", {}),
    Tool("paint", "Draws.", {"properties": {"shade": {"enum": ["crimson", "teal"]}}}),
    Tool("nested", "Holds.", {"properties": {"a": {"items": {"properties": {"zebra": {}}}}}}),
    Tool("get-weibo-trending", "获取微博热搜榜 包含时事热点", {}),
    Tool("odd", "", {"properties": ["no object"], "enum": 3}),
]
INDEX = ToolIndex(TOOLS)


def best(text):
    scores = INDEX.scores({text: 1.0})
    return TOOLS[scores.index(max(scores))].name if any(scores) else None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("send a mail", "sendMail"),
        ("Who are the recipients?", "sendMail"),
        ("the files", "list_files"),
        ("what is in this directory", "list_files"),
        ("http", "HTTPGet"),
        ("look at https://a.example", "HTTPGet"),
        ("something crimson", "paint"),
        ("zebras", "nested"),
        ("微博热搜", "get-weibo-trending"),
        ("xyzzy", None),
        ("", None),
        ("the of and", None),
    ],
)
def test_a_text_finds_the_tool_that_has_its_words(text, name):
    assert best(text) == name


def test_each_sentence_of_a_text_finds_its_tool():
    said = "Mail the recipient, send the message by mail to the recipient. And paint."
    scores = dict(zip([tool.name for tool in TOOLS], INDEX.scores({said: 1.0}), strict=True))
    assert scores["sendMail"] == 1.0
    assert scores["paint"] > 0.4


def test_texts_count_as_their_weights_say():
    scores = INDEX.scores({"send mail": 0.5, "list files": 1.0})
    assert scores[1] == 1.0
    assert scores[0] == pytest.approx(0.5, abs=0.01)


@given(st.lists(st.text(max_size=40), max_size=8), st.text(max_size=200))
def test_any_tools_and_any_text_have_scores_from_0_to_1(names, text):
    tools = [
        Tool(f"{i}{name}", name, {"properties": {name: {"description": name}}})
        for i, name in enumerate(names)
    ]
    scores = ToolIndex(tools).scores({text: 1.0, f"{text}. {text[:9]}\n": 0.5})
    assert len(scores) == len(tools)
    assert all(0 <= score <= 1 for score in scores)
    assert scores == ToolIndex(tools).scores({text: 1.0, f"{text}. {text[:9]}\n": 0.5})


@pytest.fixture
def read(monkeypatch):
    """How long each text was of which words were read."""
    lengths, words = [], tool_index._words
    monkeypatch.setattr(tool_index, "_words", lambda text: lengths.append(len(text)) or words(text))
    return lengths


def test_what_is_read_of_a_tool_and_of_a_text_is_bounded(read):
    words = random.Random(1)
    long = " ".join("".join(words.choices(string.ascii_lowercase, k=9)) for _ in range(100_000))
    index = ToolIndex([Tool("short", "A tool.", {}), Tool("long", long, {})])
    assert sum(read) < 4_100
    read.clear()
    index.scores({long: 1.0})
    assert sum(read) < 2 * 8_100  # as a whole, and sentence by sentence


@pytest.mark.timeout(60)
@pytest.mark.parametrize("hostile", ["a.@", "\n", "A", "[1, ", "1 ", "1", "1.", "/a/", " /a", "a@a", "$1"])
def test_no_pattern_takes_time_with_the_square_of_a_text(hostile):
    """With the square of so long a text, none would come to an end."""
    text = (hostile * 300_000)[:300_000]
    for pattern in (tool_index._WORD, tool_index._SENTENCE, *(kind for kind, _ in tool_index._KINDS)):
        assert sum(1 for _ in pattern.finditer(text)) <= len(text)


def test_an_index_without_words_takes_memory_too():
    """A cache that counted them as nothing would keep all that were ever asked for."""
    for names in (("a", "the"), ("_", "-"), ("send", "read")):
        assert ToolIndex([Tool(name, "", {}) for name in names]).num_bytes >= 1_000


def test_long_names_of_parameters_are_read_in_part(read):
    """Read whole, a name of 4 MB would hold the interpreter for 0.3 s, and take 200 MB."""
    long = "word " * 100_000
    index = ToolIndex([Tool("x", "y", {"properties": {"zebra " + long: {}}}), Tool("z", "y", {})])
    assert max(read) <= 4_100
    assert index.scores({"zebra": 1.0}) == [1.0, 0.0]
