"""A short request may name a toolset of two thousand tools: what is known of them is not found out again."""

import pytest
from grammar_caches import SECRET, find, tool

from compiler.cache.grammar_cache import GrammarCache
from compiler.isolation.compile_job import CompileJob


@pytest.fixture
async def cache():
    opened = GrammarCache(None, secret=SECRET)
    yield opened
    await opened.close()


async def test_entries_of_tools_that_are_in_memory_are_found_without_their_jobs(cache, monkeypatch):
    """Making the jobs would take 18 ms of the event loop for a request of 130 bytes."""
    tools = [tool(f"t{number}") for number in range(20)]
    first = await find(cache, tools)
    made = []
    monkeypatch.setattr(CompileJob, "tool", lambda *_: made.append(1))
    second = await find(cache, tools)
    assert made == []
    assert (second.source, second.recipe) == ("memory", first.recipe)
    assert second.grammar is first.grammar  # while an answer has it, others share it
    assert cache.num_found["memory"] == 20


async def test_other_tools_of_the_same_names_are_not_taken_for_them(cache):
    one = await find(cache, [tool("a"), tool("b")])
    other = await find(cache, [tool("a"), tool("b", c={"type": "boolean"})])
    again = await find(cache, [tool("b"), tool("a")])
    assert len({lookup.grammar.digest for lookup in (one, other, again)}) == 3


async def test_entries_that_have_left_memory_are_found_again(cache):
    tools = [tool("a"), tool("b", c={"type": "boolean"})]
    first = await find(cache, tools)
    cache._entries.memory.drop(first.recipe.tools[1][1])
    second = await find(cache, tools)
    assert second.source == "compiled"
    assert second.grammar.digest == first.grammar.digest
