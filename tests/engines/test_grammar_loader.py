"""The grammar loader: one read of the store for many requests, and reasons where a grammar cannot be had."""

import asyncio
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from engine_models import REQUIRED, SECRET, TOOLS, look_up, prepared
from opened_store import opened

from compiler.cache.grammar_cache import GrammarCache
from compiler.cache.grammar_store import UNIT_PREFIX
from compiler.response_format import ResponseFormat
from runtime.engines import grammar_loader
from runtime.engines.grammar_loader import GrammarLoader, GrammarUnavailable, ShortestFirst
from toolspecs.errors import StoreUnavailable
from toolspecs.stores import open_store


class Counted:
    """A store that counts its reads; `fails` makes them fail."""

    def __init__(self, url) -> None:
        self._store = open_store(url)
        self.reads = []
        self.fails = False

    async def get_many(self, keys):
        self.reads.append(list(keys))
        if self.fails:
            raise StoreUnavailable("redis://store", "connection refused")
        return await self._store.get_many(keys)

    def __getattr__(self, name):
        return getattr(self._store, name)


@pytest.fixture
def store_url(tmp_path):
    return f"sqlite://{tmp_path}/store.sqlite3"


@pytest.fixture
def lookup(store_url):
    return look_up(store_url)


@pytest.fixture
def store(store_url):
    return Counted(store_url)


@pytest.fixture
def start(store):
    started = []

    def start(**options):
        options = {"cache_bytes": 2**26, **options}
        started.append(GrammarLoader(lambda: store, SECRET, prepared(), **options))
        return started[-1]

    yield start
    for loader in started:
        loader.close()


def test_many_threads_read_the_store_once(start, store, lookup):
    loader = start()
    with ThreadPoolExecutor(8) as threads:
        grammars = list(threads.map(loader.grammar, [lookup.recipe] * 32))
    assert [sorted(keys) for keys in store.reads] == [sorted(UNIT_PREFIX + key for key in lookup.recipe.keys)]
    assert {grammar.digest for grammar in grammars} == {lookup.grammar.digest}


def test_a_second_toolset_reads_only_what_is_new(start, store, store_url, lookup):
    loader = start()
    loader.grammar(lookup.recipe)
    one_more = look_up(store_url, [*TOOLS, replace(TOOLS[0], name="send")])
    only_new = look_up(
        store_url, [replace(TOOLS[1], name="mark", parameters={"properties": {"x": {"const": 1}}}), *TOOLS]
    )
    loader.grammar(one_more.recipe)  # the same schema is the same unit
    loader.grammar(only_new.recipe)
    assert [len(keys) for keys in store.reads] == [2, 1]


def test_a_cache_that_is_too_small_reads_again(start, store, lookup):
    loader = start(cache_bytes=1000)
    for _ in range(2):
        loader.grammar(lookup.recipe)
    assert len(store.reads) == 2


def test_a_store_that_fails_is_named_and_asked_again(start, store, lookup):
    loader = start()
    store.fails = True
    with pytest.raises(GrammarUnavailable, match=r"the store fails: .*connection refused"):
        loader.grammar(lookup.recipe)
    store.fails = False
    assert loader.grammar(lookup.recipe).digest == lookup.grammar.digest


def test_what_was_loaded_is_served_while_the_store_is_down(start, store, lookup):
    loader = start()
    loader.grammar(lookup.recipe)
    store.fails = True
    assert loader.grammar(lookup.recipe).digest == lookup.grammar.digest


def test_an_altered_unit_is_refused_with_the_name_of_its_tool(start, store_url, lookup):
    key = UNIT_PREFIX + dict(lookup.recipe.tools)["tag"]

    async def alter():
        async with opened(store_url) as store:
            await store.set(key, await store.get(key) + b".")

    asyncio.run(alter())
    with pytest.raises(
        GrammarUnavailable, match="the grammar of 'tag' cannot be used: its signature is wrong"
    ):
        start().grammar(lookup.recipe)


def test_a_grammar_that_takes_too_long_is_there_for_the_second_try(start, lookup, monkeypatch):
    gate = threading.Event()
    compiled = grammar_loader._compiled

    def wait(entry):
        gate.wait()
        compiled(entry)

    monkeypatch.setattr(grammar_loader, "_compiled", wait)
    monkeypatch.setattr(grammar_loader, "_SLOW_MS", 0.0)
    loader = start(time_limit_s=0.2)
    with pytest.raises(GrammarUnavailable, match=r"not ready after 0\.2 s"):
        loader.grammar(lookup.recipe)
    gate.set()
    assert loader._on_loop(loader._grammar(lookup.recipe, {})).digest == lookup.grammar.digest


def test_units_that_do_not_fit_together_are_refused(start, store_url, lookup):
    recipe = replace(lookup.recipe, tools=(), choice=REQUIRED)
    with pytest.raises(GrammarUnavailable, match=r"cannot be linked: .*no tool"):
        start().grammar(recipe)


def test_a_response_format_is_loaded_too(start, store_url):
    async def find():
        async with opened(store_url) as store:
            cache = GrammarCache(store, secret=SECRET)
            return await cache.find_format(
                ResponseFormat("choice", ["yes", "no"]), prepared=prepared(), syntax="hermes"
            )

    lookup = asyncio.run(find())
    assert start().grammar(lookup.recipe).digest == lookup.grammar.digest


async def test_of_grammars_that_wait_to_be_compiled_the_shortest_goes_first():
    """128 grammars of three seconds each, sent at once, delayed those of other clients beyond the time limit."""
    compilers, begun = ShortestFirst(2), []
    gate = asyncio.Event()

    async def compile_one(cost):
        async with compilers.turn(cost):
            begun.append(cost)
            await gate.wait()

    async with asyncio.TaskGroup() as tasks:
        for cost in (3000, 3001, 3002, 3003):
            tasks.create_task(compile_one(cost))
        await asyncio.sleep(0)
        given_up = tasks.create_task(compile_one(1))
        tasks.create_task(compile_one(25))
        await asyncio.sleep(0)
        given_up.cancel()
        gate.set()
    assert begun == [3000, 3001, 25, 3002, 3003]


def test_linking_does_not_wait_for_grammars_that_compile(start, lookup, monkeypatch):
    gate = threading.Event()
    monkeypatch.setattr(grammar_loader, "_compiled", lambda _: gate.wait())
    monkeypatch.setattr(grammar_loader, "_SLOW_MS", math.inf)
    loader = start()
    jobs = [loader._on_loop(_started(loader._compile(entry))) for entry in [SlowEntry()] * 200]
    try:
        assert loader.grammar(lookup.recipe).digest == lookup.grammar.digest
    finally:
        gate.set()
        for job in jobs:
            loader._on_loop(_ended(job))


class SlowEntry:
    compile_ms = 3000.0


async def _started(work):
    return asyncio.create_task(work)


async def _ended(task):
    await task
