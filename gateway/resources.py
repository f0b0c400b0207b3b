"""What a gateway needs before it serves: resources, opened at once, and what takes seconds to load."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from opentelemetry import trace

from compiler.isolation.compile_job import CompilePool
from compiler.isolation.limits import CompileLimits
from compiler.isolation.pools import ThreadPool, WorkerPool
from gateway.access.access_control import AllowedHosts, read_allowed_hosts
from gateway.access.api_keys import ApiKeys
from gateway.access.configured_keys import ConfiguredKeys
from gateway.access.cors import read_origins
from gateway.access.rate_limits import RateLimits
from gateway.data_dir import open_store_of, read_secret, warn_of_own_file, warn_of_own_secret
from gateway.errors import TooMuchHeld
from gateway.generation.tool_vectors import Embedder
from gateway.served_models import load_embedder, start_runtime
from gateway.setting_sources import library_environment
from gateway.settings import Settings
from gateway.sources.outbound import IPNetwork, SourceAccess, read_networks
from gateway.telemetry.recorders import Recorders
from gateway.usable_cores import num_usable_cores
from runtime.protocol import Runtime
from toolspecs.held_parts import HeldParts
from toolspecs.store import Store

MAX_COMPILE_WORKERS = 4
"""The number of compile workers by default, on a machine with more than two cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What the settings name, read and opened; wrong settings fail here, before a model is loaded."""

    settings: Settings
    configured_keys: ConfiguredKeys
    hosts: AllowedHosts | None
    origins: frozenset[str]
    trusted_proxies: Sequence[IPNetwork]
    secret: bytes
    source_access: SourceAccess
    store: Store
    keys: ApiKeys
    limits: RateLimits
    held: HeldParts
    recorders: Recorders

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        store: Store | None = None,
        tracer_provider: trace.TracerProvider | None = None,
    ) -> "Resources":
        """Read and open everything; the store is not reached yet.

        Raises:
            SettingsError: the keys, the hosts, the secret or the redactor cannot be read, or the store cannot
                be opened.
            ExtraMissing: the telemetry cannot be opened.
        """
        configured_keys = ConfiguredKeys.read(settings)
        hosts = read_allowed_hosts(settings)
        origins = read_origins(settings)
        trusted_proxies = read_networks(settings.trusted_proxies or "", "trusted_proxies")
        secret = read_secret(settings)
        warn_of_own_secret(settings)
        warn_of_own_file(settings)
        opened_store = store or open_store_of(settings)
        return cls(
            settings=settings,
            configured_keys=configured_keys,
            hosts=hosts,
            origins=origins,
            trusted_proxies=trusted_proxies,
            secret=secret,
            source_access=settings.source_access,
            store=opened_store,
            keys=ApiKeys(opened_store),
            limits=RateLimits(opened_store),
            held=HeldParts(settings.max_held_bytes, TooMuchHeld),
            recorders=Recorders.open(settings, tracer_provider),
        )


@dataclass(frozen=True, slots=True)
class Loaded:
    """What takes seconds to load: the compile pool and the models, and the model that embeds tools."""

    compile_pool: CompilePool
    runtime: Runtime
    embedder: Embedder | None

    @classmethod
    def load(
        cls,
        settings: Settings,
        *,
        compile_pool: CompilePool | None = None,
        runtime: Runtime | None = None,
        embedder: Embedder | None = None,
    ) -> "Loaded":
        """Load what is not given; the compile pool starts meanwhile, and is closed if a model fails.

        Raises:
            ModelLoadError: a model cannot be loaded; with path and reason.
            SettingsError, UnusableDevice, UnknownSyntax: a setting does not fit the model or the machine.
        """
        embedder = embedder or load_embedder(settings)
        compile_pool = compile_pool or open_compile_pool(settings)
        if runtime is None:
            compile_pool.launch()
            try:
                runtime = start_runtime(settings, compile_pool.learn)
            except BaseException:
                asyncio.run(compile_pool.close())
                raise
        return cls(compile_pool, runtime, embedder)


def open_compile_pool(settings: Settings) -> CompilePool:
    """Make the pool that compiles grammars: worker processes, or threads of this process if there are 0.

    One client may have all workers but one. So with a worker more than cores, one client can use all cores,
    and another client still finds a worker.
    """
    num_workers = settings.compile_workers
    if num_workers is None:
        num_workers = min(num_usable_cores() + 1, MAX_COMPILE_WORKERS)
    limits = CompileLimits(
        seconds=settings.compile_seconds,
        memory_bytes=settings.compile_bytes,
        request_seconds=settings.compile_request_seconds,
    )
    if num_workers:
        return WorkerPool(num_workers, limits, library_environment())
    return ThreadPool(limits=limits)
