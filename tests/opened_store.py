"""A store for the length of a block, what keys it has, and until it answers."""

import asyncio
from contextlib import asynccontextmanager, suppress

from toolspecs import StoreUnavailable, open_store


@asynccontextmanager
async def opened(url):
    """A store, closed at the end of the block."""
    store = open_store(url)
    try:
        yield store
    finally:
        await store.close()


async def keys(store, prefix=""):
    """The keys that begin with a prefix, in order."""
    return sorted([key async for key in store.scan(prefix)])


async def until_it_answers(store):
    """Return once a store that was away can be used again; fail after ten seconds."""
    async with asyncio.timeout(10):
        while True:
            with suppress(StoreUnavailable):
                return await store.ping()
            await asyncio.sleep(0.02)
