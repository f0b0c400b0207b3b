"""Worlds with external engines: a gateway in front of stand-ins that write by chance, under the masks only.

`tight` has one or two replicas that take their time; in some worlds, they break off and write what their masks
forbid. `alone` has one engine that answers at once. With the same seed, both must write the same: vLLM and
SGLang too, because the plugin has the same masks in both.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from completions_server import serving
from generate_server import NUM_RESERVED

from compiler.syntaxes import find_syntax
from gateway.app import create_app
from request_fuzz.seeded_engines import Seeded, SeededLlama, SeededSglang, SeededStock, SeededVllm
from request_fuzz.worlds import SECRET, World, gateway_settings, syntax_names, tiny_model
from runtime.engines.client import EngineAddress
from runtime.engines.engine_kinds import ENGINE_KINDS, EngineKind
from runtime.engines.grammar_loader import GrammarLoader
from runtime.engines.remote import RemoteRuntime, RemoteSettings
from runtime.engines.replica import WatchSettings
from runtime.loading import LoadedModel
from runtime.model_router import ModelRouter, RoutedModel
from runtime.selection import DRAFT, Selection
from toolspecs.stores import open_store


@dataclass(frozen=True)
class DrawnEngine:
    """An engine of a world: the stand-in for it, what the gateway refuses of requests to it, and its size.

    No request may use `num_reserved` tokens of its context.
    """

    stand_in: type[Seeded]
    refused: frozenset[str] = frozenset()
    num_reserved: int = 0

    @property
    def kind(self) -> EngineKind:
        """How the gateway asks it."""
        return ENGINE_KINDS[self.stand_in.kind]


VLLM, STOCK = DrawnEngine(SeededVllm), DrawnEngine(SeededStock)
SGLANG = DrawnEngine(SeededSglang, num_reserved=NUM_RESERVED)
LLAMA = DrawnEngine(SeededLlama, refused=frozenset({"min_tokens"}))
ENGINES = {engine.stand_in.kind: engine for engine in (VLLM, SGLANG, STOCK, LLAMA)}
FAULTS = ("stop", "length", "die", "garbage", "error", "empty", "stall", 0, 5, 300)
"""What breaks an answer off, or is written instead of what the mask allows: see `StandIn`."""


@dataclass(kw_only=True)
class EngineWorld(World):
    """A gateway with external engines."""

    stand_ins: list[Seeded]
    runtimes: list[RemoteRuntime]
    has_plugin: bool

    async def settle(self) -> None:
        """Wait until nothing runs; then no engine may compute anything, nor may anything be remembered."""
        for runtime in self.runtimes:
            for _ in range(1000):
                num_running = sum(state.num_running for state in (await runtime.health()).engines)
                if not (self._num_running() or num_running or runtime._answers):
                    break
                await asyncio.sleep(0.01)
            assert self._num_running() == 0, "an engine still computes"
            assert not runtime._answers, "an answer is remembered"
            counted = (runtime._admission._sequences, runtime._admission._image_characters)
            assert not any(counted), f"these are counted: {counted}"
        for stand_in in self.stand_ins:
            assert not stand_in.wrongs, stand_in.wrongs
        if not self.is_faulty:
            await self._check_replicas()

    def _num_running(self) -> int:
        return sum(stand_in.num_running for stand_in in self.stand_ins)

    async def _check_replicas(self) -> None:
        """No engine may have failed, and with the plugin, none may have written what the gateway refuses."""
        for runtime in self.runtimes:
            for state in (await runtime.health()).engines:
                assert not state.num_failed, f"{state} failed"
                assert not (self.has_plugin and state.num_refused_tokens), f"tokens of {state} were refused"

    def counts(self) -> dict[str, int]:
        """How many requests the engines got, how many were aborted, and how many tokens refused."""
        states = [replica for runtime in self.runtimes for replica in runtime._replicas]
        return {
            "engine requests": sum(len(stand_in.requests) for stand_in in self.stand_ins),
            "aborted": sum(stand_in.num_aborted for stand_in in self.stand_ins),
            "refused tokens": sum(state.num_refused_tokens for state in states),
            "failed engine requests": sum(state.num_failed for state in states),
        }


@asynccontextmanager
async def engine_world(rng: random.Random, folder: Path, *, kind: str) -> AsyncIterator[EngineWorld]:
    """A gateway with external engines of a kind, drawn at random."""
    engine = ENGINES[kind]
    has_markers = rng.random() < 0.5
    name = rng.choice(syntax_names())
    # The canary's longest call has some 270 tokens of this vocabulary, with the prompt.
    context, engines_context = rng.choice(((160, 4096), (320, 320), (2048, 320), (400, 400)))
    text = replace(tiny_model(folder, has_markers=has_markers), syntax=name, context_length=context)
    settings = _settings(rng, engine)
    is_faulty = rng.random() < 0.25
    settings = replace(settings, watch=replace(settings.watch, stall_s=1)) if is_faulty else settings
    async with AsyncExitStack() as stack:
        stand_ins = [_stand_in(rng, engine, text, engines_context) for _ in range(rng.randint(1, 2))]
        other = rng.choice((VLLM, SGLANG)) if engine.kind.has_plugin else engine
        alone = other.stand_in(text, context_length=engines_context + other.num_reserved)
        if engine.kind.has_plugin:
            store = None if settings.sends_units else partial(open_store, f"sqlite://{folder}/callgate.db")
            loader = GrammarLoader(store, SECRET, text.prepared, cache_bytes=2**26)
            stack.callback(loader.close)
            for stand_in in (*stand_ins, alone):
                stand_in.loader = loader
        if isinstance(alone, SeededSglang):
            alone.is_incremental = True
        runtimes = [
            _runtime(stack, stand_ins, replace(text, model_id="tight"), settings),
            _runtime(stack, [alone], replace(text, model_id="alone"), settings),
        ]
        router = ModelRouter(
            [RoutedModel(model, runtime) for model, runtime in zip(("tight", "alone"), runtimes, strict=True)]
        )
        app = create_app(gateway_settings(folder), runtime=router)
        async with app.lifespan():
            await _ready(runtimes)
            if is_faulty:
                _break(rng, stand_ins)
            is_unruly = is_faulty or not engine.kind.has_plugin
            yield EngineWorld(
                app=app,
                told=f"{name}{' markers' if has_markers else ''}{' faulty' if is_faulty else ''} {settings}",
                syntax=find_syntax(name),
                has_markers=has_markers,
                context_length=min(context, engines_context),
                default_max_tokens=settings.default_max_tokens,
                selection=settings.selection,
                vocabulary=text.vocabulary,
                refused=engine.refused | {"callgate.inspect", "callgate.particles"},
                takes_images=settings.takes_images,
                is_faulty=is_faulty,
                may_be_full=settings.max_sequences < 1024 or settings.max_sequences_per_client < 128,
                closers=frozenset({"budget", None, "verifier"} if is_unruly else {"budget", None}),
                tells_each_logprob=engine is not LLAMA,
                honours_seeds=settings.sends_seeds,
                least_tokens=0,
                stand_ins=[*stand_ins, alone],
                runtimes=runtimes,
                has_plugin=engine.kind.has_plugin,
            )


def _settings(rng: random.Random, engine: DrawnEngine) -> RemoteSettings:
    return RemoteSettings(
        default_max_tokens=rng.choice((40, 90)),
        max_sequences=rng.choice((1024, 1024, 12)),
        max_sequences_per_client=rng.choice((128, 128, 4)),
        jump_forward=rng.random() < 0.8,
        selection=rng.choice((Selection(), Selection(), Selection("accept", 4), DRAFT)),
        shares_prefixes=rng.random() < 0.3,
        takes_images=engine.kind.takes_images and rng.random() < 0.5,
        sends_seeds=rng.random() < 0.9,
        sends_units=engine.kind.has_plugin and rng.random() < 0.3,
        watch=WatchSettings(probe_s=0.5, first_retry_s=0.05, last_retry_s=0.2, stall_s=10),
    )


def _stand_in(rng: random.Random, engine: DrawnEngine, text: LoadedModel, context: int) -> Seeded:
    """A replica of the engine `tight`, whose requests have this context."""
    context += engine.num_reserved
    stand_in = engine.stand_in(text, context_length=context, token_s=rng.choice((0, 0, 0.001, 0.01)))
    if engine is not LLAMA:
        stand_in.together = rng.choice((1, 1, 3, 40))
        stand_in.num_cached = rng.choice((None, 0, 7, 10_000))
    if isinstance(stand_in, SeededSglang):
        stand_in.is_incremental = rng.random() < 0.7
    return stand_in


def _runtime(
    stack: AsyncExitStack,
    stand_ins: list[Any],
    text: LoadedModel,
    settings: RemoteSettings,
) -> RemoteRuntime:
    """The runtime of a model whose engines are these stand-ins, which are served from now on."""
    kind = ENGINE_KINDS[stand_ins[0].kind]
    addresses = [EngineAddress(stack.enter_context(serving(stand_in))) for stand_in in stand_ins]
    clients = [kind.connect(address, text.prepared) for address in addresses]
    return RemoteRuntime(text, clients, settings, secret=SECRET, write_grammar=kind.write_grammar)


async def _ready(runtimes: list[RemoteRuntime]) -> None:
    """Wait until all engines have passed the canary."""
    for runtime in runtimes:
        for _ in range(2000):
            health = await runtime.health()
            if all(not state.reason for state in health.engines):
                break
            await asyncio.sleep(0.01)
        assert not health.reason, f"{runtime._loaded.syntax}: {health.reason}"


def _break(rng: random.Random, stand_ins: list[Any]) -> None:
    """Let some requests of these break off, or write what nobody allowed."""
    for stand_in in stand_ins:
        stand_in.writes = {rng.randint(0, 40): rng.choice(FAULTS) for _ in range(3)}
        stand_in.num_faults = rng.randint(1, 8)
