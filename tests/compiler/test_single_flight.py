"""One compilation for all: many requests in several processes want the same grammars at once."""

import asyncio
import subprocess
import sys
from pathlib import Path

from redis_server import redis_url  # noqa: F401 (a fixture)
from vocabularies import BYTES

from compiler.cache.grammar_cache import GrammarCache
from compiler.isolation.pools import ThreadPool
from compiler.prepared_vocabulary import prepare
from toolspecs.stores import open_store
from toolspecs.tool import ChoiceMode, Tool, ToolChoice

ROOT = Path(__file__).resolve().parents[2]
NUM_TOOLS, NUM_REQUESTS = 5, 6
START, COMPILED = "test:start", "test:compiled"


class Counted(ThreadPool):
    """Counts its jobs in the store, and takes a while over each."""

    def __init__(self, store) -> None:
        super().__init__()
        self._store = store

    async def run(self, job, prepared, *, is_long=True, client_id=""):
        await self._store.increment(COMPILED)
        await asyncio.sleep(0.05)
        return await super().run(job, prepared, is_long=is_long, client_id=client_id)


async def replica(url: str) -> None:
    """Wait for the others, then want every tool many times at once."""
    store = open_store(url)
    cache = GrammarCache(store, secret=b"common", compile_pool=Counted(store))
    tools = [Tool(f"t{i}", "", {"type": "object", "properties": {f"p{i}": {}}}) for i in range(NUM_TOOLS)]
    await store.increment(START)
    while int(await store.get(START) or b"0") < 2:
        await asyncio.sleep(0.01)
    asked = (
        cache.find_toolset(
            tools, prepared=prepare(BYTES), syntax="json", tool_choice=ToolChoice(ChoiceMode.REQUIRED)
        )
        for _ in range(NUM_REQUESTS)
    )
    digests = {found.grammar.digest for found in await asyncio.gather(*asked)}
    assert len(digests) == 1
    await cache.close()
    await store.close()


async def test_two_processes_compile_each_tool_once(redis_url):  # noqa: F811
    store = open_store(redis_url)
    for key in (START, COMPILED):
        await store.delete(key)
    run = [sys.executable, "-c", f"import test_single_flight as t; t.main({redis_url!r})"]
    path = [str(Path(__file__).parent), str(ROOT / "tests"), str(ROOT)]
    environment = {"PYTHONPATH": ":".join(path)}
    replicas = [
        asyncio.to_thread(
            subprocess.run, run, cwd=ROOT, env=environment, capture_output=True, timeout=200, check=False
        )
        for _ in range(2)
    ]
    for done in await asyncio.gather(*replicas):
        assert done.returncode == 0, done.stderr.decode()
    assert await store.get(COMPILED) == str(NUM_TOOLS).encode()
    await store.close()


def main(url: str) -> None:
    asyncio.run(replica(url))
