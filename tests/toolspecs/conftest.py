"""The stores, each one empty, and a second way in for what has to be shared; a clock."""

from urllib.parse import urlsplit

import pytest
from moved_clock import Clock
from opened_store import opened
from redis_server import RedisSentinel, redis_url, running  # noqa: F401 (a fixture)


@pytest.fixture(scope="session")
def sentinel_url(redis_url, tmp_path_factory):  # noqa: F811
    """The URL of a sentinel that names the server of `redis_url`."""
    port = urlsplit(redis_url).port
    with running(RedisSentinel(tmp_path_factory.mktemp("sentinel"), port)) as sentinel:
        yield sentinel.url


@pytest.fixture(params=["sqlite", "redis", "sentinel"])
async def store_url(request, tmp_path):
    """The URL of an empty store."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/callgate.db"
    import redis.asyncio

    client = redis.asyncio.from_url(request.getfixturevalue("redis_url"))
    await client.flushdb()
    await client.aclose()
    return request.getfixturevalue(f"{request.param}_url")


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
