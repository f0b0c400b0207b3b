"""A store for the length of a block."""

from contextlib import asynccontextmanager

from toolspecs import open_store


@asynccontextmanager
async def opened(url):
    """A store, closed at the end of the block."""
    store = open_store(url)
    try:
        yield store
    finally:
        await store.close()
