"""Documents in the catalog, over both stores: they are part of the revision."""

import pytest

from toolspecs import Catalog, InvalidTools, Limits, Tool, Toolset

MONEY = "https://example.com/money"
PAY = Tool("pay", "", {"type": "object", "properties": {"amount": {"$ref": f"{MONEY}#/$defs/amount"}}})
FREE = Tool("free", "", {"type": "object"})


def money(kind, **others):
    return {MONEY: {"$defs": {"z": {}, "amount": {"type": kind}, **others}}}


@pytest.fixture
def catalog(store):
    return Catalog(store)


async def test_documents_come_back_with_every_revision(catalog, other):
    first = await catalog.put(Toolset("t", (PAY,), money("integer")))
    second = await catalog.put(Toolset("t", (PAY,), money("number")))
    elsewhere = Catalog(other)
    assert (await elsewhere.get("t", 1), await elsewhere.get("t")) == (first, second)
    assert list((await elsewhere.get("t")).toolset.documents[MONEY]["$defs"]) == ["z", "amount"]
    assert (await elsewhere.get("t", 1)).toolset["pay"].documents == {
        MONEY: {"$defs": {"amount": {"type": "integer"}}}
    }
    assert (await elsewhere.restore("t", 1)).digest == first.digest
    assert (await catalog.get("t")).toolset == first.toolset


async def test_documents_are_content(catalog):
    first = await catalog.put(Toolset("t", (FREE,)))
    second = await catalog.put(Toolset("t", (FREE,), money("integer")))
    assert second.etag != first.etag
    assert await catalog.put(Toolset("t", (FREE,), money("integer"))) == second
    assert (await catalog.put(Toolset("t", (FREE,), money("integer", more={})))).number == 3
    assert (await catalog.put(Toolset("t", (FREE,)))).digest == first.digest


async def test_writes_of_one_tool_keep_the_documents(catalog):
    await catalog.put(Toolset("t", (FREE,), money("integer")))
    added = await catalog.put_checked_tool("t", PAY)
    assert added.toolset.documents == money("integer")
    assert added.toolset["pay"].documents[MONEY]["$defs"] == {"amount": {"type": "integer"}}
    assert (await catalog.delete_tool("t", "pay")).toolset.documents == money("integer")


async def test_bad_documents_are_not_stored(catalog):
    with pytest.raises(InvalidTools, match="not an absolute URI"):
        await catalog.put(Toolset("t", (FREE,), {"money": {}}))
    small = Catalog(catalog.store, limits=Limits(document_bytes=10))
    with pytest.raises(InvalidTools, match="larger than 10 bytes"):
        await small.put(Toolset("t", (FREE,), money("integer")))
    assert (await catalog.list()).items == ()
