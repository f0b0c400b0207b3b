"""The values: toolsets, revisions, names and references."""

from datetime import UTC, datetime

import pytest

import toolspecs
from toolspecs import (
    InvalidName,
    InvalidTools,
    Revision,
    Tool,
    Toolset,
    ToolsetReference,
    ToolspecsError,
    UnknownTool,
    etag_matches,
    near_matches,
)
from toolspecs.lru_cache import LruCache
from toolspecs.nearest import unknown
from toolspecs.tool import ShownTools, ToolSearch

A, B, C = (Tool(name, "", {"type": "object"}) for name in "abc")


def test_tools_are_looked_up_by_name_and_keep_their_order():
    toolset = Toolset("t", (B, A))
    assert toolset["a"] is A
    assert list(toolset) == [B, A]
    assert toolset.tool_names == ("b", "a")
    assert ("a" in toolset, "x" in toolset, len(toolset)) == (True, False, 2)
    with pytest.raises(UnknownTool) as caught:
        toolset["x"]
    assert (caught.value.toolset, caught.value.name) == ("t", "x")


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(InvalidTools) as caught:
        Toolset("t", (A, B, A, A))
    assert [(fault.tool, fault.pointer) for fault in caught.value.faults] == [("a", "/2"), ("a", "/3")]


def test_a_changed_toolset_is_another_one():
    toolset = Toolset("t", (A, B))
    newer = Tool("a", "new", {"type": "object"})
    assert list(toolset.with_tool(C)) == [A, B, C]
    assert list(toolset.with_tool(newer)) == [newer, B]
    assert list(toolset.without_tool("a")) == [B]
    assert list(toolset) == [A, B]


def test_tool_search_no_longer_names_a_tool_that_is_removed():
    toolset = Toolset("t", (A, B, C), tool_search=ToolSearch(7, ("c", "a")))
    without = toolset.without_tool("a")
    assert without == Toolset("t", (B, C), tool_search=ToolSearch(7, ("c",)))
    assert without.without_tool("b").tool_search == ToolSearch(7, ("c",))
    assert without.without_tool("c").tool_search == ToolSearch(7)


def test_equal_content_has_an_equal_digest():
    assert Toolset("t", (A, B)).digest == Toolset("u", (A, B)).digest
    different = [
        Toolset("t"),
        Toolset("t", (A,)),
        Toolset("t", (A, B)),
        Toolset("t", (A, B), prompt_tools=ShownTools.NONE),
        Toolset("t", (A, B), prompt_tools=ShownTools.ALL),
        Toolset("t", (B, A)),
        Toolset("t", (Tool("a", "x", A.parameters),)),
        Toolset("t", (Tool("a", "", {}),)),
        Toolset("t", (Tool("a", "", A.parameters, {"title": "A"}),)),
        Toolset("t", (Tool("a", "", {"properties": {"x": {}, "y": {}}}),)),
        Toolset("t", (Tool("a", "", {"properties": {"y": {}, "x": {}}}),)),
    ]
    assert len({toolset.digest for toolset in different}) == len(different)


@pytest.mark.parametrize("name", ["a", "0", "mail", "my-tools_2.beta", "x" * 64])
def test_a_toolset_name_is_referred_to_with_or_without_a_revision(name):
    assert Toolset(name).name == name
    assert ToolsetReference.parse(name) == ToolsetReference(name)
    reference = ToolsetReference.parse(f"{name}@12")
    assert (reference, str(reference)) == (ToolsetReference(name, 12), f"{name}@12")


@pytest.mark.parametrize("name", ["", "A", ".a", "-a", "_a", "a b", "a/b", "a:b", "ä", "a\n", "x" * 65, "a@"])
def test_what_is_no_toolset_name(name):
    for make in (Toolset, ToolsetReference.parse):
        with pytest.raises(InvalidName):
            make(name)


@pytest.mark.parametrize(
    "text", ["a@0", "a@-1", "a@01", "a@x", "a@1@2", "a@ 1", "a@१", "a@" + "9" * 5000, "@1"]
)
def test_what_is_no_reference(text):
    with pytest.raises(InvalidName) as caught:
        ToolsetReference.parse(text)
    assert len(str(caught.value)) < 300


def test_if_match_is_read_as_http_says():
    toolset = Toolset("t", (A,))
    etag = Revision(toolset, 7, toolset.digest, datetime.now(UTC)).etag
    assert etag == f'"7-{toolset.digest[:12]}"'
    for condition in (etag, "*", " * ", f'"x", {etag}', f"{etag},"):
        assert etag_matches(condition, etag)
        assert not etag_matches(condition, None)
    for condition in ("", etag.strip('"'), "W/" + etag, '"7"', etag[:-2] + '"', "*, *"):
        assert not etag_matches(condition, etag)


def test_weak_tags_match_where_only_content_counts():
    for condition in ('"1-a"', 'W/"1-a"', '"x", W/"1-a"', "*"):
        assert etag_matches(condition, '"1-a"', allows_weak=True)
    for condition in ('W/"2-a"', 'w/"1-a"', "W/*", "W/1-a"):
        assert not etag_matches(condition, '"1-a"', allows_weak=True)


def test_near_matches_are_few_and_cheap():
    known = ["get_event", "get_events", "set_event", "put_event", "unlike"]
    assert near_matches("get_evnt", known)[0] == "get_event"
    assert len(near_matches("get_event", known)) == 3
    assert near_matches("get_event" * 1000, known) == ()


def test_an_unknown_name_gets_near_ones_and_a_bounded_list():
    assert unknown("tool", "x", []) == "no tool 'x'"
    assert unknown("tool", "get", ["got"]) == "no tool 'get'; did you mean 'got'?"
    assert (
        unknown("tool", "get", ["got", "post"])
        == "no tool 'get'; did you mean 'got'? There are 'got', 'post'"
    )
    assert unknown("tool", "x", ["a", "b"]) == "no tool 'x'; there are 'a', 'b'"
    assert unknown("model", "x", ["demo"]) == "no model 'x'; there is only 'demo'"
    many = unknown("tool", "y" * 10_000, ["x" * 10_000] * 1_000)
    assert many.endswith(" and 976 more")
    assert len(many) < 3_000


def test_cached_values_stay_within_their_bytes():
    cache = LruCache(10)
    for key in "abc":
        cache.put(key, key.upper(), 4)
    assert [cache.get(key) for key in "abc"] == [None, "B", "C"]
    cache.get("b")
    cache.put("d", "D", 4)
    assert [cache.get(key) for key in "bcd"] == ["B", None, "D"]
    cache.put("huge", "H", 11)
    cache.put("b", "again", 4)
    assert [cache.get(key) for key in ("huge", "b", "d")] == [None, "again", "D"]
    assert cache.num_bytes == 8


def test_public_names_are_sorted_and_there():
    names = toolspecs.__all__
    assert names == sorted(names)
    for name in names:
        assert hasattr(toolspecs, name)


def test_every_error_is_public():
    from toolspecs import errors

    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, ToolspecsError)
    }
    assert defined <= set(toolspecs.__all__)
