"""What it takes to compile real tools, to add one, and to start with a store that has them.

OMP_NUM_THREADS=1 PYTHONPATH=.:tests python tests/bench/bench_compile.py

473 MCP tools, closed objects, Qwen 3's vocabulary, one thread; times are of the processor.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
from corpus import corpus, mcp_tools
from redis_server import RedisServer
from transformers import AutoTokenizer

from compiler.cache.grammar_cache import GrammarCache
from compiler.errors import UnsupportedSchema
from compiler.isolation.priming import prime
from compiler.linker.linker import link
from compiler.matcher import allocate_bitmask
from compiler.prepared_vocabulary import CACHE_LIMIT_BYTES, Backend, prepare
from compiler.syntax import Syntax
from compiler.syntaxes import find_syntax
from compiler.toolset_compiler import lower_tool
from compiler.units.unit import Unit, compile_unit
from compiler.vocabulary import Vocabulary
from toolspecs.stores import open_store
from toolspecs.tool import ChoiceMode, Tool, ToolChoice

NUM_TOOLS = 1000
REQUIRED = ToolChoice(ChoiceMode.REQUIRED)


def tools() -> list[Tool]:
    return [
        Tool(f"{tool['name']}_{number}", tool.get("description", ""), tool["inputSchema"])
        for number, (_, tool) in enumerate(mcp_tools())
    ]


class LazyUnits(Mapping[str, Unit]):
    """Units that are loaded when first used, by tool name, in the order of the names."""

    def __init__(self, names: tuple[str, ...], load: Callable[[str], Unit]) -> None:
        self._loaded: dict[str, Unit | None] = dict.fromkeys(names)
        self._load = load

    def __getitem__(self, name: str) -> Unit:
        unit = self._loaded[name]
        if unit is None:
            unit = self._loaded[name] = self._load(name)
        return unit

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._loaded)


class Bench:
    """Tools for one vocabulary and syntax."""

    def __init__(self, vocabulary: Vocabulary, family: Syntax) -> None:
        self.vocabulary = vocabulary
        self.family = family
        self.ids = dict(zip(prepare(vocabulary).index.spellings, prepare(vocabulary).index.ids, strict=True))
        self.mask = allocate_bitmask(1, vocabulary.width)

    def renew(self, *, is_primed: bool) -> None:
        """A compiler that has seen nothing, or only what priming shows it."""
        prepared = prepare(self.vocabulary)
        vars(prepared)["backend"] = Backend(prepared.tokenizer_info, cache_limit_bytes=CACHE_LIMIT_BYTES)
        if is_primed:
            prime(prepared)

    def unit(self, tool: Tool) -> Unit:
        """Lower and compile."""
        grammar = lower_tool(tool, self.family, self.vocabulary).grammar
        unit = compile_unit(grammar, self.family, prepare(self.vocabulary))
        unit.compile()
        return unit

    def first_masks(self, units: Mapping[str, Unit], name: str) -> None:
        """Link, and fill the masks up to the first one inside the arguments."""
        matcher = link(units, self.family, prepare(self.vocabulary), REQUIRED).matcher()
        data = self.vocabulary.spell(self.family.header(name)).encode() + b"{"
        while data:
            matcher.fill_bitmask(self.mask, 0)
            end = next(end for end in range(min(len(data), 24), 0, -1) if data[:end] in self.ids)
            assert matcher.accept(self.ids[data[:end]][0])
            data = data[end:]
        matcher.fill_bitmask(self.mask, 0)


def main() -> None:
    """Measure and print."""
    bench = Bench(
        Vocabulary.from_tokenizer(AutoTokenizer.from_pretrained(corpus("tokenizers", "qwen3"))),
        find_syntax("hermes"),
    )
    known, refused = [], []
    for is_primed in (False, True):
        bench.renew(is_primed=is_primed)
        units: dict[str, Unit] = {}
        times = []
        for tool in tools():
            start = time.thread_time()
            try:
                units[tool.name] = bench.unit(tool)
            except UnsupportedSchema as refusal:
                refused.append(f"{tool.name}: {refusal}")
                continue
            known.append(tool)
            times.append(time.thread_time() - start)
        report(f"a tool, {'primed' if is_primed else 'nothing cached'} (all: {sum(times):.1f} s)", times)
    print(f"refused: {refused[: len(refused) // 2]}")
    known = known[: len(units)]
    stored = {name: unit.to_bytes() for name, unit in units.items()}
    print(f"stored: {np.mean([len(data) for data in stored.values()]) / 1e3:.1f} KB a tool on average")
    print(f"in memory: {np.mean([unit.num_bytes for unit in units.values()]) / 1e3:.0f} KB a tool on average")

    names = list(units)
    many = {f"{names[at % len(names)]}_{at}": units[names[at % len(names)]] for at in range(NUM_TOOLS)}
    by_name = {tool.name: tool for tool in known}

    def add(tool: Tool) -> None:
        bench.first_masks({**many, "a_new_tool": bench.unit(tool)}, "a_new_tool")

    def any_one(tool: Tool) -> None:
        bench.first_masks(LazyUnits(tuple(names), lambda name: bench.unit(by_name[name])), tool.name)

    def replica(tool: Tool) -> None:
        read = {name: Unit.from_bytes(data, prepare(bench.vocabulary)) for name, data in stored.items()}
        bench.first_masks(read, tool.name)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(report_replicas(known, bench, folder))

    for label, task in (
        (f"add a tool never seen to {NUM_TOOLS}: compile, link, masks to the arguments", add),
        (f"{len(known)} tools, none compiled: masks to the arguments of any one", any_one),
        (f"{len(known)} stored tools read, one compiled: masks to its arguments", replica),
    ):
        bench.renew(is_primed=True)
        report(label, [timed(task, tool) for tool in known[::8]])


async def report_replicas(known: list[Tool], bench: Bench, folder: str) -> None:
    """What new replicas wait for that find their toolsets' grammars in Redis, network and all."""
    server = RedisServer(folder)
    server.start()
    store = open_store(server.url)
    ask = partial(
        GrammarCache.find_toolset,
        prepared=prepare(bench.vocabulary),
        syntax=bench.family.name,
        tool_choice=REQUIRED,
    )
    try:
        await ask(GrammarCache(store, secret=b"one of all replicas"), known)
        for num_tools in (1, 20, 100, len(known)):
            by_clock, of_processor = [], []
            for _ in range(7):
                cache = GrammarCache(store, secret=b"one of all replicas")
                start = time.perf_counter(), time.process_time()
                grammar = (await ask(cache, known[:num_tools])).grammar
                grammar.matcher().fill_bitmask(bench.mask, 0)
                by_clock.append(time.perf_counter() - start[0])
                of_processor.append(time.process_time() - start[1])
                await cache.close()
            report(f"a new replica, {num_tools} tools in Redis: first mask, by the clock", by_clock)
            report(f"a new replica, {num_tools} tools in Redis: first mask, of the processor", of_processor)
    finally:
        await store.close()
        server.kill()


def timed(task: Callable[[Tool], None], tool: Tool) -> float:
    start = time.thread_time()
    task(tool)
    return time.thread_time() - start


def report(label: str, times: list[float]) -> None:
    middle, high = np.percentile(times, [50, 99]) * 1e3
    print(f"{label:78s} p50 {middle:7.1f} ms  p99 {high:7.1f} ms  max {max(times) * 1e3:7.0f} ms", flush=True)


if __name__ == "__main__":
    main()
