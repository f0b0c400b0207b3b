"""How stores are named, and what is said where there is none."""

import asyncio
import os
import ssl
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import redis
from certificates import self_signed
from opened_store import opened, until_it_answers
from redis_server import running_redis

from toolspecs import InvalidStoreURL, StoreUnavailable, StoreUnreachable, open_store
from toolspecs.stores import is_shared, with_password


@pytest.mark.parametrize(
    "url",
    [
        "",
        "sqlite",
        "sqlite://",
        "sqlite:///folder/",
        "sqlite:///file?mode=ro",
        "sqlite:///nul%00",
        "postgres://host/db",
        "/just/a/path.db",
        "redis://",
        "redis://:6379",
        "redis:///0",
        "redis://host:port/0",
        "redis://host:99999/0",
        "redis://host/name",
        "redis://host:6379/0?socket_timeout=soon",
        "redis://host:6379/0?no_such_option=1",
        "redis://host:6379/0?ssl_cert_reqs=none",
        "redis://host/0?decode_responses=true",
        "rediss://[::1",
    ],
)
def test_a_bad_url_is_refused_with_the_forms_there_are(url):
    with pytest.raises(InvalidStoreURL, match="sqlite:///absolute/path"):
        open_store(url)


@pytest.mark.parametrize("scheme", ["redis", "redis+sentinel"])
@pytest.mark.parametrize(
    "rest",
    [
        "hunter2@host:port/mymaster",
        "hunter2/a@host/mymaster",
        "12/hunter2@host",
        "12#hunter2@host/mymaster",
        "12?hunter2@host/mymaster",
        "[hunter2]@host/mymaster",
        "\N{ACCOUNT OF}hunter2@host/mymaster",
    ],
)
def test_a_bad_url_keeps_its_password(scheme, rest):
    """Also a password that is not percent-encoded, so that a part of it stands where the port or the path does."""
    with pytest.raises(InvalidStoreURL, match="the URL cannot be read") as caught:
        open_store(f"{scheme}://user:{rest}")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sqlite:///folder/a.db", False),
        ("sqlite://:memory:", False),
        ("redis://host/0", True),
        ("rediss://host:6380", True),
        ("redis+sentinel://one,two/mymaster", True),
        ("memory://a", False),
    ],
)
def test_other_machines_share_a_redis_only(url, expected):
    assert is_shared(url) == expected


async def test_a_sqlite_url_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in "ac":
        (tmp_path / folder).mkdir()
    for url, file in [
        (f"sqlite://{tmp_path}/a/b.db", "a/b.db"),
        ("sqlite://c/d.db", "c/d.db"),
        ("sqlite://with%20space%3F.db", "with space?.db"),
    ]:
        async with opened(url) as store:
            assert not (tmp_path / file).exists()
            await store.ping()
        assert (tmp_path / file).is_file()


async def test_memory_is_a_store_of_its_own():
    async with opened("sqlite://:memory:") as one, opened("sqlite://:memory:") as two:
        await one.set("k", b"1")
        assert await one.get("k") == b"1"
        assert await two.get("k") is None


async def test_a_file_that_is_no_store_is_named(tmp_path):
    file = tmp_path / "text.db"
    file.write_text("not a database, and long enough to be read as a header of one" * 50)
    async with opened(f"sqlite://{file}") as store:
        with pytest.raises(StoreUnavailable, match=r"text\.db.*not a database"):
            await store.ping()


@pytest.mark.parametrize("folder", ["file", "nope"])
async def test_a_folder_that_is_not_there_is_named_and_not_made(tmp_path, folder):
    (tmp_path / "file").touch()
    store = open_store(f"sqlite://{tmp_path}/{folder}/below.db")
    with pytest.raises(StoreUnavailable, match=f"no folder '{tmp_path}/{folder}'"):
        await store.get("k")
    assert not (tmp_path / "nope").exists()


async def test_a_folder_in_place_of_the_file_is_named(tmp_path):
    (tmp_path / "a.db").mkdir()
    with pytest.raises(StoreUnavailable, match=r"/a\.db: it is a folder, and a store is a file"):
        await open_store(f"sqlite://{tmp_path}/a.db").ping()


@pytest.mark.parametrize(
    ("locked", "told"), [("folder", "to the folder '{folder}'"), ("a.db", "to the file")]
)
async def test_what_may_not_be_written_to_is_named(tmp_path, monkeypatch, locked, told):
    """SQLite alone says that it is unable to open the file."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.db").touch()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != locked)  # root may write anywhere
    with pytest.raises(StoreUnavailable, match=f"may not write {told.format(folder=folder)}"):
        await open_store(f"sqlite://{folder}/a.db").ping()


async def message_of(url):
    """What is said of the store at a URL, which cannot be used."""
    async with opened(url) as store:
        with pytest.raises(StoreUnavailable) as caught:
            await store.ping()
    return str(caught.value)


async def test_a_redis_that_is_away_is_named_without_its_password():
    async with opened("redis://user:hunter2@127.0.0.1:1/3") as store:
        with pytest.raises(StoreUnavailable, match=r"redis://127\.0\.0\.1:1/3") as caught:
            await store.ping()
        assert "hunter2" not in str(caught.value) + repr(store)


async def test_connections_that_a_restart_closed_are_opened_anew(tmp_path):
    with running_redis(tmp_path, keeps=True) as server:
        async with opened(server.url) as store:
            await asyncio.gather(*(store.set(str(number), b"v") for number in range(3)))
            server.kill()
            server.start()
            assert [await store.get(str(number)) for number in range(3)] == [b"v"] * 3


async def test_a_redis_that_hangs_is_waited_for_once(tmp_path, monkeypatch):
    monkeypatch.setattr("toolspecs.stores.redis_pool.SOCKET_TIMEOUT_S", 1.5)
    with running_redis(tmp_path) as server:
        async with opened(server.url) as store:
            await store.set("k", b"v")
            server.pause()
            with pytest.raises(StoreUnavailable, match="Timeout"):
                await store.get("k")
            for _ in range(3):
                with pytest.raises(StoreUnavailable, match="does not answer"):
                    await store.get("k")
            server.resume()
            await until_it_answers(store)
            assert await asyncio.gather(*(store.get("k") for _ in range(300))) == [b"v"] * 300
            server.pause()
            with pytest.raises(StoreUnavailable, match="Timeout"):
                await store.get("k")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"requirepass": "hunter2"}, "asks for a password: write it in the URL, or set store_password$"),
        ({"maxmemory": "1kb"}, "its memory is full, so it refuses writes: raise maxmemory"),
        ({"replicaof": "127.0.0.1 1"}, "read only replica$"),
    ],
)
async def test_a_redis_that_does_not_take_a_write_says_why(tmp_path, options, said):
    with running_redis(tmp_path, **options) as server:
        async with opened(server.url) as store:
            with pytest.raises(StoreUnavailable, match=said):
                await store.compare_and_set("k", None, b"v")
            with pytest.raises(StoreUnavailable, match=said):
                await store.increment("k")


async def test_a_wrong_password_is_told_without_it(tmp_path):
    with running_redis(tmp_path, requirepass="hunter2") as server:
        message = await message_of(server.url.replace("//", "//:swordfish@"))
    assert "refuses the user or the password" in message
    assert "swordfish" not in message


async def test_a_key_of_a_redis_that_is_no_text_is_passed_over(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        client.set(b"callgate:odd/\xff", b"")
    async with opened(redis_url) as store:
        await store.set("odd/even", b"")
        assert {key async for key in store.scan("odd/")} == {"odd/even"}


UNCLOSED = """
import asyncio
from toolspecs import open_store

store = open_store("sqlite://:memory:")

async def main():
    await store.set("k", b"1")
    raise SystemExit(3)

asyncio.run(main())
"""


def test_a_program_that_fails_with_its_store_open_ends():
    done = subprocess.run([sys.executable, "-c", UNCLOSED], check=False, timeout=60)
    assert done.returncode == 3


async def test_a_redis_without_tls_is_told_from_one_that_hangs(tmp_path, monkeypatch):
    """It waits for the rest of the handshake, so the client alone says `Timeout connecting to server`.

    It is told of each attempt: who waits for a server shows the last one.
    """
    monkeypatch.setattr("toolspecs.stores.redis_pool.CONNECT_TIMEOUT_S", 0.3)
    with running_redis(tmp_path) as server:
        async with opened(server.url.replace("redis:", "rediss:")) as store:
            for said in ("Timeout connecting to server", "it does not answer"):
                with pytest.raises(StoreUnreachable, match=said) as caught:
                    await store.ping()
                assert str(caught.value).endswith(
                    "; if it does not use TLS, write redis:// instead of rediss://"
                )


async def answer_with(line, reader, writer):
    """What a server does that understands no command: it answers with a line, if any, and hangs up."""
    await reader.read(5)
    writer.write(line)
    writer.close()


@pytest.mark.parametrize(
    ("scheme", "line", "remedy"),
    [
        ("redis", b"", "if it uses TLS, write rediss:// instead of redis://"),
        (
            "rediss",
            b"-ERR unknown command\r\n",
            "if it does not use TLS, write redis:// instead of rediss://",
        ),
    ],
)
async def test_a_url_with_the_wrong_scheme_is_told_the_other(scheme, line, remedy):
    server = await asyncio.start_server(partial(answer_with, line), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert (await message_of(f"{scheme}://127.0.0.1:{port}")).endswith(f"; {remedy}")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://host/0", "redis://:p%40%2F@host/0"),
        ("redis://user@host", "redis://user:p%40%2F@host"),
        ("redis://host?client_name=gateway@west", "redis://:p%40%2F@host?client_name=gateway@west"),
        ("redis+sentinel://a,b/m?client_name=c@d", "redis+sentinel://:p%40%2F@a,b/m?client_name=c@d"),
        ("redis://user:own@host/0", "redis://user:own@host/0"),
        ("sqlite:///a@b.db", "sqlite:///a@b.db"),
    ],
)
def test_a_password_is_added_to_a_url_without_one(url, expected):
    assert with_password(url, "p@/") == expected
    assert with_password(url, None) == url


@pytest.mark.parametrize(
    ("line", "may_answer_later"),
    [
        (b"-LOADING Redis is loading the dataset in memory\r\n", True),
        (b"-ERR max number of clients reached\r\n", True),
        (b"-NOAUTH Authentication required.\r\n", False),
        (b"-WRONGPASS invalid username-password pair or user is disabled.\r\n", False),
        (b"-ERR DB index is out of range\r\n", False),
        (b"HTTP/1.1 400 Bad Request\r\n", False),
    ],
)
async def test_a_server_that_may_answer_later_is_told_from_one_that_refuses(line, may_answer_later):
    """A gateway that starts waits for the first, and for the second it would wait in vain."""
    server = await asyncio.start_server(partial(answer_with, line), "127.0.0.1", 0)
    async with server, opened(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}") as store:
        with pytest.raises(StoreUnavailable) as caught:
            await store.ping()
    assert isinstance(caught.value, StoreUnreachable) == may_answer_later


async def test_a_certificate_that_is_not_trusted_is_told(tmp_path):
    """The number of that error means elsewhere that an operation is not permitted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate, key = self_signed(tmp_path)
    context.load_cert_chain(certificate, key)
    server = await asyncio.start_server(partial(answer_with, b"-ERR\r\n"), "localhost", 0, ssl=context)
    async with server:
        url = f"rediss://localhost:{server.sockets[0].getsockname()[1]}"
        async with opened(url) as store:
            with pytest.raises(StoreUnavailable, match="certificate is not trusted") as caught:
                await store.ping()
        assert not isinstance(caught.value, StoreUnreachable), "waiting for it does not help"
        assert "add ?ssl_ca_certs=FILE with the authority" in str(caught.value)
        assert "trusted" not in await message_of(f"{url}?ssl_ca_certs={certificate}")
