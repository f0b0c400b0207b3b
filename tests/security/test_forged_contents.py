"""Contents that somebody else wrote into the store, such as another program that shares its Redis server."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from opened_store import opened

from toolspecs import Catalog, DamagedEntry, Limits, Tool, Toolset
from toolspecs.pinned_source import PinnedSource
from toolspecs.revisions import toolset_contents
from toolspecs.revisions.submission import check_size
from toolspecs.revisions.toolset_contents import CONTENTS, compress, decode_toolset, encode_toolset
from toolspecs.revisions.toolset_logs import HEADS, Record, encode_record, record_key
from toolspecs.tool import CustomInput, ToolSearch
from toolspecs.toolset import RevisionSummary

PAY = Tool("pay", "Pays.", {"type": "object"})
DESK = PinnedSource("mcp", "https://desk.example/mcp", accepted={"pay": PAY.digest})


@pytest.fixture
async def store():
    """An empty store."""
    async with opened("sqlite://:memory:") as store:
        yield store


async def forge(store, digest, content):
    """Write a toolset `t` whose content is what the digest says, as far as a forger can make it so."""
    record = encode_record(Record(RevisionSummary("t", 1, digest, datetime.now(UTC), 1)))
    await store.set(record_key("t", 1), record)
    await store.set(HEADS + "t", record)
    await store.set(CONTENTS + digest, compress(content))


@pytest.fixture
def unpacked(monkeypatch):
    """The sizes of the contents that were unpacked, and of those that were decoded."""
    sizes = {"decompress": [], "decode_toolset": []}
    for name, called in sizes.items():
        real = getattr(toolset_contents, name)

        def counted(*arguments, real=real, called=called):
            content = next(argument for argument in arguments if isinstance(argument, bytes))
            called.append(len(content))
            return real(*arguments)

        monkeypatch.setattr(toolset_contents, name, counted)
    return sizes


async def test_a_small_entry_that_unpacks_to_very_much_is_not_decoded(store, unpacked):
    """6 kB become 64 MB, and decoding them would stop the event loop for 5 to 7 s."""
    await forge(store, PAY.digest, b"[" + b"[]," * (60 * 2**20 // 3) + b"0]")
    with pytest.raises(DamagedEntry, match="it is larger than 20971520 bytes"):
        await Catalog(store).get("t")
    assert unpacked["decode_toolset"] == []


async def test_values_are_counted_before_they_are_decoded(store, monkeypatch):
    await forge(store, PAY.digest, b"[" + b"[]," * 4_000_000 + b"0]")
    monkeypatch.setattr(toolset_contents.json, "loads", pytest.fail)
    with pytest.raises(DamagedEntry, match="it holds more than 1000000 values"):
        await Catalog(store).get("t")


async def test_a_damaged_content_is_unpacked_once(store, unpacked):
    catalog, toolset = Catalog(store), Toolset("t", (PAY,))
    await forge(store, toolset.digest, b"[[1]]")
    for _ in range(5):
        with pytest.raises(DamagedEntry, match="it is not a toolset"):
            await catalog.get("t")
    many = await asyncio.gather(*(catalog.get("t") for _ in range(5)), return_exceptions=True)
    assert {type(error) for error in many} == {DamagedEntry}
    assert len(unpacked["decompress"]) == 1
    await Catalog(store).put(toolset)  # another process mends it
    assert (await catalog.get("t")).toolset == toolset


ODD = {
    "a description that is a number": Toolset("t", (replace(PAY, description=5),)),
    "parameters that are a list": Toolset("t", (replace(PAY, parameters=["object"]),)),
    "an MCP title that is an object": Toolset("t", (replace(PAY, extras={"title": {}}),)),
    "a _meta that is a text": Toolset("t", (replace(PAY, extras={"_meta": "x"}),)),
    "an unknown key order": Toolset("t", (replace(PAY, key_order="none"),)),
    "a custom input in numbers": Toolset("t", (replace(PAY, custom=CustomInput("lark", 5)),)),
    "a search that is a text": Toolset("t", (PAY,), tool_search=ToolSearch("many")),
    "a search for nothing": Toolset("t", (PAY,), tool_search=ToolSearch(-1)),
    "a search with a number for a name": Toolset("t", (PAY,), tool_search=ToolSearch(1, (5,))),
    "a source of an odd kind": Toolset("t", (PAY,), sources=(replace(DESK, kind=["mcp"]),)),
    "a source with odd digests": Toolset("t", (PAY,), sources=(replace(DESK, accepted={"pay": {}}),)),
    "a source that removed objects": Toolset("t", (PAY,), sources=(replace(DESK, removed=({},)),)),
}


@pytest.mark.parametrize("toolset", ODD.values(), ids=ODD)
async def test_a_content_of_odd_types_is_damaged(store, toolset):
    """Although its digest is right."""
    await forge(store, toolset.digest, encode_toolset(toolset))
    with pytest.raises(DamagedEntry, match="it is not a toolset"):
        await Catalog(store).get("t")


@pytest.mark.parametrize("half", ["\ud800", "\\\udc00"])
async def test_half_a_surrogate_pair_is_damage(store, half):
    toolset = Toolset("t", (replace(PAY, description=half),))
    rows = [[tool.name, tool.description, tool.parameters, tool.extras] for tool in toolset]
    await forge(store, toolset.digest, json.dumps(rows).encode())
    with pytest.raises(DamagedEntry, match="escapes"):
        await Catalog(store).get("t")


SMALL = Limits(num_values=1_000)
LARGEST = {
    "empty objects": Toolset("t", (replace(PAY, parameters={"examples": [{}] * 990}),)),
    "very small tools": Toolset("t", tuple(Tool(f"f{i}", "", {}, key_order="any") for i in range(333))),
    "offered tools": Toolset(
        "t", sources=(PinnedSource("mcp", "", offered=tuple(Tool(f"f{i}", "", {}) for i in range(325))),)
    ),
    "escapes": Toolset(
        "t", (replace(PAY, description="\\ud800 \x01 \ud7ff", parameters={"enum": [1] * 950}),)
    ),
    "long numbers": Toolset("t", (replace(PAY, parameters={"enum": [2**1000] * 900}),)),
}


@pytest.mark.parametrize("toolset", LARGEST.values(), ids=LARGEST)
def test_what_can_be_registered_can_be_read(toolset):
    checked = check_size(toolset, SMALL)
    assert checked.toolset.num_values > 900
    assert decode_toolset("t", checked.digest, checked.content, SMALL) == toolset
