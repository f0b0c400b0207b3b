"""Redis moves: its name leads to another server, while connections to the former one are still open."""

import asyncio
from contextlib import asynccontextmanager, closing, suppress

import pytest
import redis
from opened_store import opened, until_it_answers
from redis_server import running_redis

from toolspecs.errors import StoreUnavailable


class Forwarder:
    """An address in front of a Redis server, as a cluster's service is; `port` is where it leads."""

    def __init__(self, port):
        self.port = port
        self.num_connections = 0
        self._silenced: set[int] = set()
        self._tasks: set[asyncio.Task] = set()

    def silence(self):
        """Open connections stay open, and nothing goes through them any more."""
        self._silenced = set(range(self.num_connections))

    @asynccontextmanager
    async def listening(self):
        """The URL of the address."""
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        try:
            yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, reader, writer):
        number, self.num_connections = self.num_connections, self.num_connections + 1
        there, back = await asyncio.open_connection("127.0.0.1", self.port)
        ways = ((reader, back), (there, writer))
        self._tasks |= {asyncio.create_task(self._forward(number, *way)) for way in ways}

    async def _forward(self, number, reader, writer):
        with suppress(OSError), closing(writer):
            while content := await reader.read(65536):
                if number not in self._silenced:
                    writer.write(content)


async def test_a_server_that_became_a_replica_is_left(tmp_path):
    """It refuses every write, so a gateway must not keep its connections to it."""
    folders = tmp_path / "a", tmp_path / "b"
    for folder in folders:
        folder.mkdir()
    with running_redis(folders[0]) as former, running_redis(folders[1]) as later:
        forwarder = Forwarder(former.port)
        async with forwarder.listening() as url, opened(url) as store:
            await asyncio.gather(*(store.set(f"k{number}", b"v") for number in range(5)))
            forwarder.port = later.port
            with redis.Redis.from_url(former.url) as client:
                client.replicaof("127.0.0.1", str(later.port))
            with pytest.raises(StoreUnavailable, match="read only replica"):
                await store.compare_and_set("k", None, b"v")  # a script, as registrations are
            await asyncio.gather(*(store.set(f"k{number}", b"v") for number in range(5)))
        with redis.Redis.from_url(later.url) as client:
            assert client.dbsize() == 5


async def test_connections_through_which_nothing_goes_are_closed_together(tmp_path, monkeypatch):
    """Else a command of its own would find each one out, and fail after three seconds."""
    monkeypatch.setattr("toolspecs.stores.redis_pool.SOCKET_TIMEOUT_S", 0.5)
    with running_redis(tmp_path) as server:
        forwarder = Forwarder(server.port)
        async with forwarder.listening() as url, opened(url) as store:
            await asyncio.gather(*(store.set(f"k{number}", b"v") for number in range(20)))
            assert forwarder.num_connections >= 10
            forwarder.silence()
            with pytest.raises(StoreUnavailable, match="Timeout"):
                await store.get("k0")
            await until_it_answers(store)
            assert await asyncio.gather(*(store.get(f"k{number}") for number in range(20))) == [b"v"] * 20


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"replicaof": "127.0.0.1 1"}, "is a replica, which refuses writes: name its master instead"),
        ({"cluster-enabled": "yes"}, "is part of a Redis Cluster, where keys are on several servers"),
    ],
)
async def test_a_server_that_answers_but_takes_no_writes_is_warned_of(tmp_path, options, said, caplog):
    """A gateway is ready with it, as it can read."""
    with running_redis(tmp_path, **options) as server:
        async with opened(server.url) as store:
            await store.ping()
            await store.ping()
    assert caplog.text.count(said) == 1
