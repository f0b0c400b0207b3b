"""Sentinels name the Redis server that takes writes, also after a failover."""

import asyncio
import socket
from contextlib import ExitStack, contextmanager

import pytest
import redis
from certificates import self_signed
from opened_store import opened, until_it_answers
from ports import free_port
from redis_server import RedisSentinel, RedisServer, running, running_redis

from toolspecs import InvalidStoreURL, StoreUnavailable, StoreUnreachable, open_store
from toolspecs.stores import with_password


@contextmanager
def watched(folder, **options):
    """A master with a replica that has caught up, and their sentinel; `options` are those of both servers."""
    for name in ("master", "replica", "sentinel"):
        (folder / name).mkdir()
    with running_redis(folder / "master", **options) as master:
        follow = {"replicaof": f"127.0.0.1 {master.port}", "repl-diskless-sync-delay": 0}
        with (
            running_redis(folder / "replica", **follow, **options) as replica,
            running(RedisSentinel(folder / "sentinel", master.port)) as sentinel,
        ):
            yield master, replica, sentinel


async def until_the_sentinel_knows(sentinel: RedisServer, replica: RedisServer) -> None:
    """A sentinel asks the master for its replicas, and can choose only among those it knows."""
    async with asyncio.timeout(20):
        with redis.Redis(port=sentinel.port) as client:
            while True:
                known = client.sentinel_slaves("mymaster")
                if any(
                    state["port"] == replica.port and "ok" in state["master-link-status"] for state in known
                ):
                    return
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("way", ["kill", "pause"])
async def test_the_store_moves_to_the_replica_when_the_master_is_gone(way, tmp_path, monkeypatch):
    """Whether its connections break or stay open and silent."""
    monkeypatch.setattr("toolspecs.stores.redis_pool.SOCKET_TIMEOUT_S", 0.5)
    with watched(tmp_path) as (master, replica, sentinel):
        async with opened(sentinel.url) as store:
            await until_the_sentinel_knows(sentinel, replica)
            await asyncio.gather(*(store.set(f"k{number}", b"v") for number in range(5)))
            with redis.Redis(port=master.port) as client:
                assert client.wait(1, 5000) == 1, "the replica has what was written"
            getattr(master, way)()
            with pytest.raises(StoreUnreachable):
                await store.get("k0")
            await until_it_answers(store)
            assert await asyncio.gather(*(store.get(f"k{number}") for number in range(5))) == [b"v"] * 5
            assert await store.compare_and_set("k0", b"v", b"w")
        with redis.Redis(port=replica.port) as client:
            assert client.get("callgate:k0") == b"w"


async def test_a_failover_without_an_outage_loses_no_command(tmp_path):
    """As before the master's machine is taken down: open connections lead to a replica then."""
    with watched(tmp_path) as (_, replica, sentinel):
        async with opened(sentinel.url) as store:
            await until_the_sentinel_knows(sentinel, replica)
            await asyncio.gather(*(store.set(f"k{number}", b"v") for number in range(5)))
            with redis.Redis(port=sentinel.port) as client:
                client.sentinel_failover("mymaster")
                async with asyncio.timeout(20):
                    while client.sentinel_get_master_addr_by_name("mymaster")[1] != replica.port:
                        await asyncio.sleep(0.02)
            await until_it_answers(store)
            assert all(await asyncio.gather(*(store.delete(f"k{number}") for number in range(5))))


async def test_the_next_sentinel_answers_if_one_is_gone(sentinel_url):
    async with opened(sentinel_url.replace("//", "//127.0.0.1:1,")) as store:
        await store.set("k", b"v")
        assert repr(store).startswith("RedisStore('redis+sentinel://127.0.0.1:1,127.0.0.1:")


async def test_sentinels_that_hang_hold_nothing_up_while_another_answers(sentinel_url):
    with ExitStack() as hanging:
        hosts = [hanging.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        names = "".join(f"127.0.0.1:{host.getsockname()[1]}," for host in hosts)
        async with opened(sentinel_url.replace("//", f"//{names}")) as store, asyncio.timeout(2):
            await store.set("k", b"v")


@pytest.mark.parametrize(
    "answer", [b"+OK", b":5", b"*1\r\n:5", b"*1\r\n*2\r\n+name\r\n+mymaster", b"*0", b"%1\r\n+a\r\n+b"]
)
async def test_what_answers_nonsense_in_a_sentinels_place_ends_no_search(answer, sentinel_url):
    async def talk(reader, writer):
        while await reader.read(4096):
            writer.write(answer + b"\r\n")
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        name = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        error = await message_of(f"redis+sentinel://{name}/mymaster")
        assert "no sentinel" in str(error) or "know no master" in str(error)
        async with opened(sentinel_url.replace("//", f"//{name},")) as store:
            await store.set("k", b"v")


async def test_no_connection_to_a_sentinel_stays_open(sentinel_url):
    """Or else each gateway would hold as many of them as it has connections to the server."""
    async with opened(sentinel_url) as store:
        await asyncio.gather(*(store.set(f"k{number}", b"v") for number in range(20)))
        with redis.Redis.from_url(sentinel_url.replace("+sentinel", "").partition("/mymaster")[0]) as client:
            async with asyncio.timeout(5):
                while len(client.client_list()) > 1:  # one is this client's
                    await asyncio.sleep(0.02)


async def test_while_sentinels_hang_only_the_first_command_waits(tmp_path, monkeypatch):
    """As where the machines of all of them cannot be reached: each would wait for each sentinel, twice."""
    monkeypatch.setattr("toolspecs.stores.redis_pool.SOCKET_TIMEOUT_S", 0.5)
    with running_redis(tmp_path) as server, running(RedisSentinel(tmp_path, server.port)) as sentinel:
        async with opened(sentinel.url.replace("//", "//127.0.0.1:1,")) as store:
            sentinel.pause()
            with pytest.raises(StoreUnreachable, match="no sentinel answers"):
                await store.get("k")
            for _ in range(4):
                await asyncio.sleep(0.2)
                async with asyncio.timeout(0.1):
                    with pytest.raises(StoreUnreachable, match="it does not answer"):
                        await store.get("k")
            sentinel.resume()
            await until_it_answers(store)


@pytest.mark.parametrize("takes_password", [True, False])
async def test_a_password_is_sent_to_sentinels_on_request(takes_password, tmp_path):
    password = {"requirepass": "hunter2"}
    with running_redis(tmp_path, **password) as server:
        sentinel = RedisSentinel(
            tmp_path,
            server.port,
            **{"sentinel auth-pass mymaster": "hunter2"} | (password if takes_password else {}),
        )
        with running(sentinel):
            url = with_password(f"{sentinel.url}?sentinel_auth={str(takes_password).lower()}", "hunter2")
            async with opened(url) as store:
                await store.set("k", b"v")
                assert await store.get("k") == b"v"


async def test_connections_to_both_use_tls(tmp_path):
    certificate, key = self_signed(tmp_path)
    tls = {
        "tls-cert-file": certificate,
        "tls-key-file": key,
        "tls-ca-cert-file": certificate,
        "tls-auth-clients": "no",
        "tls-replication": "yes",
    }
    server_port, sentinel_port = free_port(), free_port()
    names = {"sentinel resolve-hostnames": "yes", "sentinel announce-hostnames": "yes"}
    monitor = {"sentinel monitor mymaster": f"localhost {server_port} 1"}
    with running_redis(tmp_path, **tls, **{"tls-port": server_port}):
        sentinel = RedisSentinel(tmp_path, 0, **names, **tls, **monitor, **{"tls-port": sentinel_port})
        with running(sentinel):
            url = f"rediss+sentinel://localhost:{sentinel_port}/mymaster?ssl_ca_certs={certificate}"
            async with opened(url) as store:
                await until_it_answers(store)
                await store.set("k", b"v")
            error = await message_of(url.partition("?")[0])
            assert "certificate is not trusted (self-signed certificate): correct its host" in str(error)
            assert not isinstance(error, StoreUnreachable), "waiting does not help"
            error = await message_of(url.replace("rediss", "redis").partition("?")[0])
            assert "if it uses TLS, write rediss:// instead of redis://" in str(error)


async def message_of(url):
    """What a ping of a store that cannot be used fails with."""
    async with opened(url) as store:
        with pytest.raises(StoreUnavailable) as caught:
            await store.ping()
    return caught.value


async def test_a_name_that_no_sentinel_knows_is_told_with_those_they_know(sentinel_url):
    error = await message_of(sentinel_url.replace("/mymaster", "/other"))
    assert str(error).endswith("its sentinels know no master 'other'; they watch mymaster")


async def test_a_server_in_the_place_of_a_sentinel_is_told(redis_url):
    error = await message_of(redis_url.replace("redis:", "redis+sentinel:").replace("/0", "/mymaster"))
    assert "it is no sentinel (unknown command 'SENTINEL'" in str(error)
    assert not isinstance(error, StoreUnreachable), "waiting does not help"


async def test_a_user_who_may_not_ask_for_masters_is_told(tmp_path):
    options = {"user": "callgate on >hunter2 +@connection -sentinel"}
    with running(RedisSentinel(tmp_path, 1, **options)) as sentinel:
        error = await message_of(f"{sentinel.url}?sentinel_auth=true".replace("//", "//callgate:hunter2@"))
    assert "forbid this user to ask for masters" in str(error)
    assert "hunter2" not in str(error)


async def test_sentinels_that_are_away_are_told():
    error = await message_of("redis+sentinel://127.0.0.1:1/mymaster")
    assert "no sentinel answers (Error 111 connecting to 127.0.0.1:1" in str(error)
    assert isinstance(error, StoreUnreachable)


async def test_a_master_that_is_down_is_told(tmp_path):
    with running(RedisSentinel(tmp_path, 1)) as sentinel:
        async with asyncio.timeout(10):
            while "say that the master 'mymaster' is down" not in str(
                error := await message_of(sentinel.url)
            ):
                await asyncio.sleep(0.1)
    assert isinstance(error, StoreUnreachable)


async def test_a_server_that_refuses_the_password_is_told_as_without_sentinels(tmp_path):
    with running_redis(tmp_path, requirepass="hunter2") as server:
        options = {"sentinel auth-pass mymaster": "hunter2"}
        with running(RedisSentinel(tmp_path, server.port, **options)) as sentinel:
            for url, said in (
                (sentinel.url, "it asks for a password"),
                (with_password(sentinel.url, "swordfish"), "refuses the user or the password"),
            ):
                error = await message_of(url)
                assert said in str(error)
                assert "swordfish" not in str(error)
                assert not isinstance(error, StoreUnreachable)


async def test_a_sentinel_that_asks_for_a_password_is_told_at_once(tmp_path):
    with running(RedisSentinel(tmp_path, 1, requirepass="hunter2")) as sentinel:
        error = await message_of(sentinel.url)
        assert "add ?sentinel_auth=true" in str(error)
        assert not isinstance(error, StoreUnreachable), "waiting does not help"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis+sentinel://host", "names their master"),
        ("redis+sentinel://host/", "names their master"),
        ("redis+sentinel://host/mymaster/name", "is a number"),
        ("redis+sentinel://host,:26379/mymaster", "needs a host"),
        ("redis+sentinel://host,/mymaster", "needs a host"),
        ("redis+sentinel://host, other/mymaster", "needs a host, without blanks"),
        ("redis+sentinel://one:port/mymaster", "cannot be read"),
        ("redis+sentinel://one/mymaster?sentinel_auth=yes", "true or false, not 'yes'"),
        ("redis+sentinel://one/mymaster?sentinel_auth", "its options are name=value"),
        ("redis+sentinel://one/mymaster?no_such_option=1", "no_such_option"),
        ("redis://one,two/0", r"has one host; for sentinels write redis\+sentinel://"),
        ("redis://one/0?sentinel_auth=true", "sentinel_auth"),
    ],
)
def test_a_bad_url_is_refused_with_what_is_wrong(url, said):
    with pytest.raises(InvalidStoreURL, match=said):
        open_store(url)
