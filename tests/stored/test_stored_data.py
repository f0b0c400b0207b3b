"""What earlier versions stored opens still: a SQLite file and a Redis dump of each version that changed the form."""

import json
import shutil
from pathlib import Path

import pytest
from opened_store import opened
from redis_server import running_redis
from stored_toolsets import (
    CONTENT_FILE,
    DOCUMENTS,
    FORMAT,
    PING,
    REDIS_FILE,
    REFUND,
    SECRET,
    SQLITE_FILE,
    SYNTAXES,
    TAG,
    TOOLS,
    WEATHER,
)

from compiler import GrammarCache, Vocabulary
from compiler.isolation.compile_job import LOWERING_VERSION
from compiler.prepared_vocabulary import prepare
from compiler.units.stored import VERSIONS
from toolspecs import Catalog, DeletedToolset, StaleRevision, ToolChoice
from toolspecs.revisions.preconditions import Precondition

WRITTEN = sorted(Path(__file__).parent.glob("version_*"))
LOWERED_WITH = {
    "version_16": (16, "0.2.8"),
    "version_17": (17, "0.2.8"),
    "version_18": (18, "0.2.8"),
    "version_19": (19, "0.2.8"),
    "version_20": (20, "0.2.8"),
    "version_24": (24, "0.2.8"),
    "version_26": (26, "0.2.8"),
}
"""The version of the lowering and that of xgrammar under which each folder's grammars are found."""


@pytest.fixture(params=["sqlite", "redis"])
def store_url(request, written, tmp_path):
    """A store that opens a copy of what an earlier version wrote."""
    if request.param == "sqlite":
        yield f"sqlite://{shutil.copy(written / SQLITE_FILE, tmp_path)}"
        return
    shutil.copy(written / REDIS_FILE, tmp_path)
    with running_redis(tmp_path, dbfilename=REDIS_FILE) as server:
        yield server.url


@pytest.fixture
async def store(store_url):
    async with opened(store_url) as store:
        yield store


@pytest.mark.parametrize("written", WRITTEN, ids=lambda folder: folder.name)
class TestStoredData:
    async def test_every_revision_is_there(self, store, written):
        catalog = Catalog(store)
        content = json.loads((written / CONTENT_FILE).read_text())
        for name, number, etag, created_at, num_tools in content["revisions"]:
            revision = await catalog.get(name, number)
            found = (revision.etag, revision.created_at.isoformat(), len(revision.toolset))
            assert found == (etag, created_at, num_tools)
        assert [summary.name for summary in (await catalog.list()).items] == ["issues", "payments"]

    async def test_tools_and_documents_are_as_they_were_written(self, store):
        catalog = Catalog(store)
        assert (await catalog.get("issues")).toolset.tools == (TAG, WEATHER)
        assert (await catalog.get("issues", 2)).toolset.tools == (TAG, PING, WEATHER)
        payments = (await catalog.get("payments")).toolset
        assert payments.documents == DOCUMENTS
        (refund,) = payments.tools
        assert (refund.name, refund.parameters, refund.extras) == (
            REFUND.name,
            REFUND.parameters,
            REFUND.extras,
        )

    async def test_a_deleted_toolset_is_restored(self, store, written):
        catalog = Catalog(store)
        name, number = json.loads((written / CONTENT_FILE).read_text())["deleted"]
        with pytest.raises(DeletedToolset):
            await catalog.get(name)
        assert (await catalog.restore(name, number)).toolset.tools == (PING,)

    async def test_writers_go_on_where_they_were(self, store):
        catalog = Catalog(store)
        current = await catalog.get("issues")
        with pytest.raises(StaleRevision):
            await catalog.put_checked_tool("issues", PING, Precondition('"2-345d84ba851c"'))
        assert (
            await catalog.put_checked_tool("issues", PING, Precondition(current.etag))
        ).number == current.number + 1

    async def test_grammars_are_found_or_compiled_anew(self, store, written):
        is_current = (LOWERING_VERSION, VERSIONS[0]) == LOWERED_WITH[written.name]
        grammars, vocabulary = GrammarCache(store, secret=SECRET), Vocabulary.of_bytes()
        for syntax in SYNTAXES:
            found = await grammars.find_toolset(
                TOOLS, prepared=prepare(vocabulary), syntax=syntax, tool_choice=ToolChoice()
            )
            assert found.source == ("store" if is_current else "compiled")
        found = await grammars.find_format(FORMAT, prepared=prepare(vocabulary))
        assert found.source == ("store" if is_current else "compiled")
        assert found.grammar.accepts('{"a": 1}')
        assert not found.grammar.accepts('{"a": "b"}')
        await grammars.close()
