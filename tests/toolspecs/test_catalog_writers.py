"""Many writers at once, over both stores: nobody's update is lost."""

import asyncio
import itertools
import json
import sys

import pytest
from opened_store import opened

from toolspecs import Catalog, Limits, StaleRevision, Tool, Toolset
from toolspecs.revisions.preconditions import Precondition
from toolspecs.revisions.submission import check_toolset

OBJECT = {"type": "object"}


@pytest.fixture
async def catalogs(store_url):
    """Catalogs that share the store and nothing else."""
    async with opened(store_url) as one, opened(store_url) as two, opened(store_url) as three:
        yield [Catalog(store) for store in (one, two, three)]


async def history(catalog, name):
    """The revisions, oldest first; their numbers are checked to be all there are."""
    summaries = (await catalog.revisions(name, limit=1000)).items[::-1]
    assert [summary.number for summary in summaries] == list(range(1, len(summaries) + 1))
    return [await catalog.get(name, summary.number) for summary in summaries]


async def test_tools_put_at_once_all_survive(catalogs):
    await catalogs[0].put(Toolset("t"))
    written = [f"tool_{number}" for number in range(30)]
    revisions = await asyncio.gather(
        *[
            catalogs[index % 3].put_checked_tool("t", Tool(name, "", OBJECT))
            for index, name in enumerate(written)
        ]
    )
    assert sorted((await catalogs[0].get("t")).toolset.tool_names) == sorted(written)
    assert sorted(revision.number for revision in revisions) == list(range(2, 32))
    for revision in revisions:
        assert await catalogs[1].get("t", revision.number) == revision


async def test_toolsets_put_at_once_all_stay_in_the_history(catalogs):
    contents = [Toolset("t", (Tool(f"tool_{number}", "", OBJECT),)) for number in range(20)]
    revisions = await asyncio.gather(
        *[catalogs[index % 3].put(content) for index, content in enumerate(contents)]
    )
    past = await history(catalogs[0], "t")
    assert {revision.digest for revision in past} == {content.digest for content in contents}
    assert sorted(revision.number for revision in revisions) == list(range(1, 21))
    assert await catalogs[0].get("t") == past[-1]


@pytest.mark.parametrize("is_new", [True, False])
async def test_one_of_many_wins_with_the_same_precondition(catalogs, is_new):
    etag = None if is_new else (await catalogs[0].put(Toolset("t"))).etag
    results = await asyncio.gather(
        *[
            catalogs[index % 3].put(
                Toolset("t", (Tool(f"tool_{index}", "", OBJECT),)), Precondition(etag, is_new)
            )
            for index in range(12)
        ],
        return_exceptions=True,
    )
    stale = [result for result in results if isinstance(result, StaleRevision)]
    (winner,) = [result for result in results if not isinstance(result, StaleRevision)]
    assert len(stale) == 11
    assert {error.current_etag for error in stale} == {winner.etag}
    assert await catalogs[1].get("t") == winner


@pytest.mark.parametrize("is_same", [False, True])
async def test_exactly_one_of_many_writers_creates_a_toolset(catalogs, is_same):
    contents = [Toolset("t", (Tool("a" if is_same else f"tool_{index}", "", OBJECT),)) for index in range(12)]
    writes = await asyncio.gather(
        *[
            catalogs[index % 3].put_checked(check_toolset(content, Limits()))
            for index, content in enumerate(contents)
        ]
    )
    (first,) = [write.revision for write in writes if write.is_created]
    assert first.number == 1
    assert {write.revision.number for write in writes} == ({1} if is_same else set(range(1, 13)))
    await catalogs[0].delete("t")
    assert (await catalogs[1].put_checked(check_toolset(contents[0], Limits()))).is_created


async def test_deletions_and_writes_at_once_leave_a_whole_log(catalogs):
    await catalogs[0].put(Toolset("t"))

    async def write(index):
        await catalogs[index % 3].put(Toolset("t", (Tool(f"tool_{index}", "", OBJECT),)))

    async def delete(index):
        await catalogs[index % 3].delete("t")

    jobs = [(delete if index % 4 == 3 else write)(index) for index in range(16)]
    await asyncio.gather(*jobs, return_exceptions=True)
    final = await catalogs[0].put(Toolset("t", (Tool("last", "", OBJECT),)))
    numbers = [summary.number for summary in (await catalogs[0].revisions("t")).items]
    assert numbers[0] == final.number
    assert len(set(numbers)) == len(numbers)
    digests = {(await catalogs[1].get("t", number)).toolset.tool_names for number in numbers}
    assert {(f"tool_{index}",) for index in range(16) if index % 4 != 3} <= digests


WRITER = """
import asyncio, json, sys
from toolspecs import Catalog, Tool, Toolset, open_store

async def main(url, name):
    store = open_store(url)
    catalog = Catalog(store)
    written = []
    for number in range(15):
        revision = await catalog.put_checked_tool("t", Tool(f"{name}{number}", "", {"type": "object"}))
        written.append([revision.number, revision.digest])
    await store.close()
    print(json.dumps(written))

asyncio.run(main(*sys.argv[1:]))
"""


async def test_processes_lose_none_of_each_others_tools(catalogs, store_url):
    await catalogs[0].put(Toolset("t"))
    run = asyncio.create_subprocess_exec
    writers = [
        await run(sys.executable, "-c", WRITER, store_url, name, stdout=asyncio.subprocess.PIPE)
        for name in "abc"
    ]
    outputs = [(await writer.communicate())[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    past = await history(catalogs[0], "t")
    assert len(past) == 46
    assert set(past[-1].toolset.tool_names) == {f"{name}{number}" for name in "abc" for number in range(15)}
    digests = {revision.number: revision.digest for revision in past}
    written = [entry for output in outputs for entry in json.loads(output)]
    assert sorted(written) == sorted([number, digest] for number, digest in digests.items() if number > 1)
    for earlier, later in itertools.pairwise(past):
        assert set(earlier.toolset.tool_names) < set(later.toolset.tool_names)
