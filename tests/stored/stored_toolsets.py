"""What the fixtures of stored data hold, and what writes them: `python tests/stored/stored_toolsets.py FOLDER`.

A folder has a SQLite file and a Redis dump, both written by one version of this project. Later versions must open
them. A version that changes what is stored adds a folder of its own, and keeps the older ones.
"""

import asyncio
import json
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from redis_server import running_redis

from compiler import GrammarCache, ResponseFormat, Vocabulary
from compiler.prepared_vocabulary import prepare
from toolspecs import Catalog, Tool, ToolChoice, Toolset, open_store

SECRET = b"the secret of the stored fixtures"
SQLITE_FILE, REDIS_FILE, CONTENT_FILE = "store.sqlite", "dump.rdb", "content.json"

MONEY = "https://example.com/money"
DOCUMENTS = {
    MONEY: {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"amount": {"type": "number", "minimum": 0, "multipleOf": 0.01}, "note": {"type": "string"}},
    }
}
REFUND = Tool(
    "refund_payment",
    "Pay money back.",
    {
        "type": "object",
        "properties": {
            "payment": {"type": "string", "pattern": "^pay_[0-9]+$", "maxLength": 40},
            "amount": {"$ref": f"{MONEY}#/$defs/amount"},
            "reason": {"enum": ["requested", "duplicate", "fraud"]},
        },
        "required": ["payment", "amount"],
        "additionalProperties": False,
    },
    {"annotations": {"destructiveHint": True}},
)
TAG = Tool(
    "tag.issue",
    "Étiqueter 🐛",
    {
        "type": "object",
        "properties": {
            "labels": {"type": "array", "items": {"type": "string", "maxLength": 300}, "uniqueItems": True},
            "more": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
        "required": ["labels"],
    },
)
PING = Tool("ping", "", {"type": "object", "properties": {}})
WEATHER = Tool(
    "get_weather",
    "The weather at a place.",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["C", "F"]}},
        "required": ["city"],
    },
)
FORMAT = ResponseFormat("schema", {"type": "object", "properties": {"a": {"type": ["integer", "null"]}}})
TOOLS = (TAG, PING, WEATHER)
SYNTAXES = ("hermes", "qwen3_coder")


async def write(url: str) -> dict:
    """Write toolsets and grammars into a store; returns what a reader must find there."""
    now = datetime(2026, 11, 22, tzinfo=UTC)

    def clock() -> datetime:
        nonlocal now
        now += timedelta(minutes=1)
        return now

    store = open_store(url)
    catalog = Catalog(store, clock=clock)
    await catalog.put(Toolset("payments", (REFUND,), DOCUMENTS))
    await catalog.put(Toolset("issues", (TAG, PING)))
    await catalog.put_checked_tool("issues", WEATHER)
    await catalog.delete_tool("issues", "ping")
    await catalog.put(Toolset("old", (PING,)))
    await catalog.delete("old")
    grammars = GrammarCache(store, secret=SECRET)
    vocabulary = Vocabulary.of_bytes()
    for syntax in SYNTAXES:
        await grammars.find_toolset(
            TOOLS, prepared=prepare(vocabulary), syntax=syntax, tool_choice=ToolChoice()
        )
    await grammars.find_format(FORMAT, prepared=prepare(vocabulary))
    await grammars.close()
    async for key in store.scan("unit:"):
        await store.set(key, await store.get(key))  # without the date on which it would expire
    revisions = [await catalog.get("payments"), *[await catalog.get("issues", n) for n in (1, 2, 3)]]
    content = [
        [r.toolset.name, r.number, r.etag, r.created_at.isoformat(), len(r.toolset)] for r in revisions
    ]
    await store.close()
    return {"revisions": content, "deleted": ["old", 1]}


def main(folder: Path) -> None:
    """Write both files, and what is in them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SQLITE_FILE).unlink(missing_ok=True)
    content = asyncio.run(write(f"sqlite://{folder / SQLITE_FILE}"))
    with tempfile.TemporaryDirectory() as scratch, running_redis(scratch, dbfilename=REDIS_FILE) as server:
        assert asyncio.run(write(server.url)) == content

        async def save() -> None:
            import redis.asyncio

            client = redis.asyncio.from_url(server.url)
            await client.save()
            await client.aclose()

        asyncio.run(save())
        (folder / REDIS_FILE).write_bytes((Path(scratch) / REDIS_FILE).read_bytes())
    (folder / CONTENT_FILE).write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
