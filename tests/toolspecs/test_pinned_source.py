"""Pinned sources: nothing is served that nobody accepted, whatever a source says."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolspecs.errors import UnknownTool
from toolspecs.pinned_source import PinnedSource
from toolspecs.revisions.toolset_contents import decode_toolset, encode_toolset
from toolspecs.tool import Tool, ToolSearch
from toolspecs.toolset import Toolset

TOOL_NAMES = st.sampled_from(["a", "b", "c"])
LISTINGS = st.dictionaries(TOOL_NAMES, st.sampled_from(["good", "poisoned", "worse"]))
STEPS = st.one_of(
    st.tuples(st.just("seen"), LISTINGS),
    st.tuples(st.just("accept"), st.sets(TOOL_NAMES)),
    st.tuples(st.just("decline"), st.sets(TOOL_NAMES)),
    st.tuples(st.just("edit"), TOOL_NAMES),
)
SOURCE = PinnedSource("mcp", "https://desk.example/mcp", {"tags": ("x",)})


def tools(listed):
    return [Tool(name, description, {"type": "object"}) for name, description in listed.items()]


@given(st.lists(STEPS, max_size=12))
def test_only_what_is_accepted_or_edited_changes_what_is_served(steps):
    toolset, served, offer = Toolset("desk"), {}, {}
    for kind, given_value in steps:
        source = toolset.source(SOURCE.source_id) or SOURCE
        if kind == "seen":
            offer = given_value
            toolset = toolset.with_source(source.seen(tools(offer), toolset.by_name))
        elif kind == "edit":
            served[given_value] = "edited"
            toolset = toolset.with_tool(Tool(given_value, "edited", {"type": "object"}))
        elif kind == "decline":
            names = given_value & {*source.offers}
            toolset = toolset.declining(SOURCE.source_id, names) if names else toolset
            declined = toolset.source(SOURCE.source_id) or SOURCE
            assert not names & {*declined.differing}
            assert declined.seen(tools(offer), toolset.by_name).differing == declined.differing
        else:
            names = given_value & {*source.offers}
            toolset = toolset.accepting(SOURCE.source_id, names) if names else toolset
            for name in names:
                if name in offer:
                    served[name] = offer[name]
                else:
                    served.pop(name, None)
        assert {tool.name: tool.description for tool in toolset} == served
        assert decode_toolset("desk", toolset.digest, encode_toolset(toolset)) == toolset


@given(LISTINGS, LISTINGS)
def test_once_all_is_accepted_nothing_differs(first, second):
    toolset = Toolset("desk").with_source(SOURCE.seen(tools(first)))
    for listed in (first, second):
        source = (toolset.source(SOURCE.source_id) or SOURCE).seen(tools(listed), toolset.by_name)
        toolset = toolset.with_source(source)
        if source.differing:
            toolset = toolset.accepting(SOURCE.source_id, source.differing)
        assert {tool.name: tool.description for tool in toolset} == listed
        assert not (toolset.source(SOURCE.source_id) or SOURCE).differing


def test_nothing_is_accepted_that_is_not_offered():
    toolset = Toolset("desk").with_source(SOURCE.seen(tools({"a": "good"})))
    for source_id, name in ((SOURCE.source_id, "b"), ("mcp other", "a")):
        with pytest.raises(UnknownTool):
            toolset.accepting(source_id, [name])


def test_what_was_declined_counts_again_once_the_source_changes_it_again():
    source = SOURCE.seen(tools({"a": "good", "b": "good"})).accepting(["a", "b"])
    declined = source.seen(tools({"a": "poisoned", "c": "worse"})).declining(["a", "b", "c"])
    assert (declined.differing, set(declined.offers)) == ((), {"a", "b", "c"})
    assert declined.seen(tools({"c": "worse"}), unread=["a"]).seen(tools({"a": "poisoned"})).differing == ()
    assert declined.seen(tools({"a": "worse", "c": "worse"})).differing == ("a",)
    back = declined.seen(tools({"a": "good", "b": "good"}))
    assert (back.differing, back.declined) == ((), {})
    assert back.seen(tools({"a": "poisoned"})).differing == ("a", "b")


def test_a_source_is_part_of_the_digest():
    plain = Toolset("desk", tuple(tools({"a": "good"})))
    offered = plain.with_source(SOURCE.seen(tools({"a": "worse"})))
    decided = [decide(SOURCE.source_id, ["a"]) for decide in (offered.accepting, offered.declining)]
    assert len({toolset.digest for toolset in (plain, offered, *decided)}) == 4


def test_tool_search_no_longer_names_a_tool_that_is_gone_from_its_source():
    source = SOURCE.seen(tools({"a": "good", "b": "good"})).accepting(["a", "b"])
    desk = Toolset("desk", tuple(tools({"a": "good", "b": "good"})), tool_search=ToolSearch(7, ("a", "b")))
    accepted = desk.with_source(source.seen(tools({"a": "good"}))).accepting(source.source_id, ["b"])
    assert (accepted.tool_names, accepted.tool_search) == (("a",), ToolSearch(7, ("a",)))


def test_what_cannot_be_read_is_not_gone():
    source = SOURCE.seen(tools({"a": "good", "b": "good"})).accepting(["a", "b"])
    assert source.seen(tools({"a": "good"}), unread=["b"]).differing == ()
    assert replace(source, selection={}).source_id == source.source_id
