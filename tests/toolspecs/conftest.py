"""The stores, each one empty, and a second way in for what has to be shared; a clock."""

import pytest
from moved_clock import Clock
from opened_store import opened
from redis_server import redis_url  # noqa: F401 (a fixture)


@pytest.fixture(params=["sqlite", "redis"])
async def store_url(request, tmp_path):
    """The URL of an empty store."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/callgate.db"
    import redis.asyncio

    url = request.getfixturevalue("redis_url")
    client = redis.asyncio.from_url(url)
    await client.flushdb()
    await client.aclose()
    return url


@pytest.fixture
async def store(store_url):
    """An empty store."""
    async with opened(store_url) as store:
        yield store


@pytest.fixture
async def other(store_url):
    """A second connection to `store`."""
    async with opened(store_url) as store:
        yield store


@pytest.fixture
def clock():
    """A clock that only moves when a test moves it."""
    return Clock()
