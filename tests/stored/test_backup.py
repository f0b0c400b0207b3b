"""Backup and restore as docs/operations.md says, while somebody writes."""

import asyncio
import itertools
import os
import shutil
import sqlite3
import subprocess
import textwrap
from pathlib import Path

import pytest
import redis
from redis_server import running_redis

from compiler import GrammarCache, Vocabulary
from compiler.prepared_vocabulary import prepare
from toolspecs import Catalog, Tool, ToolChoice, Toolset, open_store
from toolspecs.revisions.preconditions import Precondition

SECRET = b"a secret of sixteen bytes"
PAY = Tool("pay", "pays", {"type": "object", "properties": {"cents": {"type": "integer"}}})


@pytest.fixture
def redis_server(tmp_path):
    folder = tmp_path / "redis"
    folder.mkdir()
    with running_redis(folder) as server:
        yield server


async def registered(store):
    """A toolset with its compiled grammar in the store."""
    revision = await Catalog(store).put(Toolset("kept", (PAY,)))
    assert await grammar_source(store) == "compiled"
    return revision


async def grammar_source(store):
    cache = GrammarCache(store, secret=SECRET)
    vocabulary = prepare(Vocabulary.of_bytes())
    found = await cache.find_toolset(
        (PAY,), prepared=vocabulary, syntax="hermes", tool_choice=ToolChoice("required")
    )
    await cache.close()
    return found.source


async def restored(url, revision):
    """What is found in a restored store; it takes writes, too."""
    store = open_store(url)
    catalog = Catalog(store)
    assert (await catalog.get("kept")).digest == revision.digest
    assert await grammar_source(store) == "store"
    changed = await catalog.put(Toolset("kept", ()), Precondition(revision.etag))
    assert changed.number == revision.number + 1
    names = [item.name for item in (await catalog.list(limit=1000)).items]
    await store.close()
    return names


async def writing(store, written):
    catalog = Catalog(store)
    for number in itertools.count():
        await catalog.put(Toolset(f"later-{number}", (PAY,)))
        written.append(f"later-{number}")


async def backed_up(store, back_up):
    """The names that were acknowledged before `back_up` began, while more are written."""
    written = []
    task = asyncio.create_task(writing(store, written))
    while len(written) < 5:
        await asyncio.sleep(0.01)
    before = list(written)
    await asyncio.to_thread(back_up)
    task.cancel()
    await asyncio.wait([task])
    await store.close()
    return before


async def test_a_backup_of_sqlite_restores_what_was_registered(tmp_path):
    """`VACUUM INTO` copies a database that is in use, with what its log holds; a copy of the file does not."""
    store, copy = open_store(f"sqlite://{tmp_path}/callgate.db"), tmp_path / "copy.db"
    revision = await registered(store)

    def back_up():
        connection = sqlite3.connect(tmp_path / "callgate.db")
        connection.execute("VACUUM INTO ?", [str(copy)])
        connection.close()

    before = await backed_up(store, back_up)
    names = await restored(f"sqlite://{copy}", revision)
    assert set(before) <= set(names)


async def test_a_snapshot_of_redis_restores_what_was_registered(redis_server, tmp_path):
    """The file of a snapshot, in the folder of a new server."""
    store = open_store(redis_server.url)
    revision = await registered(store)

    def back_up():
        with redis.from_url(redis_server.url) as client:
            client.save()

    before = await backed_up(store, back_up)
    folder = tmp_path / "other"
    folder.mkdir()
    shutil.copy(tmp_path / "redis" / "dump.rdb", folder)
    with running_redis(folder) as other:
        names = await restored(other.url, revision)
    assert set(before) <= set(names)


def commands_of_the_docs():
    """How docs/operations.md backs the chart's Redis up, and restores it."""
    text = (Path(__file__).resolve().parents[2] / "docs/operations.md").read_text("utf-8")
    block = text.partition("  # back up\n")[2].partition("  ```\n")[0]
    back_up, restore = textwrap.dedent(block).split("# restore")
    return back_up, f"#{restore}"


def run_in_pod(commands, folder, server):
    """Run commands of kubectl, which stands for itself; `folder` is /data of the pod."""
    programs = folder.parent / "programs"
    programs.mkdir(exist_ok=True)
    for name, program in {
        "kubectl": 'shift; [ $1 = -i ] && shift; shift 2; exec "$@"',
        "redis-cli": f'exec {shutil.which("redis-cli")} -p {server.port} "$@"',
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{program}\n")
        (programs / name).chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}"}
    script = commands.replace("/data/", f"{folder}/")
    subprocess.run(["sh", "-euc", script], env=environment, cwd=folder.parent, check=True)


async def test_redis_of_the_chart(tmp_path):
    """It keeps an append-only file, in whose place the backup is put."""
    back_up, restore = commands_of_the_docs()
    folder = tmp_path / "data"
    folder.mkdir()
    with running_redis(folder, keeps=True) as server:
        store = open_store(server.url)
        revision = await registered(store)
        before = await backed_up(store, lambda: run_in_pod(back_up, folder, server))
        store = open_store(server.url)
        await Catalog(store).delete("kept")
        await store.close()
        run_in_pod(restore, folder, server)
        server.kill()
        server.start()
        names = await restored(server.url, revision)
    assert set(before) <= set(names)
