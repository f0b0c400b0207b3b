"""The composition root: makes the application, the runtime and the store that the settings ask for."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from litestar import Litestar
from litestar.datastructures import State
from litestar.di import Provide
from opentelemetry import trace

from compiler.cache.grammar_cache import GrammarCache
from compiler.isolation.compile_job import CompilePool
from compiler.isolation.limits import CompileLimits
from compiler.isolation.pools import ThreadPool, WorkerPool
from gateway.access.access_control import AccessControl, read_allowed_hosts
from gateway.access.api_keys import ApiKeys
from gateway.access.configured_keys import ConfiguredKeys
from gateway.access.cors import Cors, read_origins
from gateway.access.grants import GRANT, Grant
from gateway.access.principal import Principal, principal_of
from gateway.access.rate_limits import RateLimits
from gateway.access.route_scopes import Authorization, OpenPaths
from gateway.api_document.document_routes import API_ROUTES, DOCUMENT_ROUTES
from gateway.console.console_routes import CONSOLE_ROUTES
from gateway.data_dir import open_store_of, read_secret, warn_of_own_secret
from gateway.generation.allowance import LimitedRequests
from gateway.generation.completions import Completions
from gateway.generation.stored_responses import StoredResponses
from gateway.generation.tool_search import ToolSearcher
from gateway.generation.tool_vectors import Embedder, ToolVectors
from gateway.http.headers import HttpRequest, RequestIds, name_methods
from gateway.http.json_contents import ContentLimits
from gateway.http.problems import respond
from gateway.http.request_bodies import RequestBodies
from gateway.processors import num_usable_cores
from gateway.served_models import load_embedder, start_runtime
from gateway.service_views import ServiceViews
from gateway.services import Services
from gateway.setting_sources import library_environment, source_environment
from gateway.settings import Settings
from gateway.sources.outbound import IPNetwork, SourceAccess, read_networks
from gateway.sources.source_process import SourceProcesses
from gateway.store_upkeep import collecting, retention_of
from gateway.telemetry.access_log import AccessLog
from gateway.telemetry.exporters import Meters
from gateway.telemetry.recent_requests import KeptRequests
from gateway.telemetry.recorders import Recorders
from gateway.toolsets.registry import Registry
from gateway.toolsets.tool_imports import ToolImports
from runtime.protocol import Runtime
from toolspecs.catalog import Catalog
from toolspecs.quota import Quota
from toolspecs.store import Store
from toolspecs.toolset_contents import DecodedContents

MOST_COMPILE_WORKERS = 4
"""The number of compile workers by default, on a machine with more than two cores."""


def create_app(
    settings: Settings,
    *,
    runtime: Runtime | None = None,
    compile_pool: CompilePool | None = None,
    store: Store | None = None,
    tracer_provider: trace.TracerProvider | None = None,
    meters: Meters | None = None,
    embedder: Embedder | None = None,
) -> Litestar:
    """The gateway as a Litestar application.

    Arguments that are None are made from the settings. All are closed with the application.

    Raises:
        SettingsError: the keys or the secret cannot be read, or the store cannot be opened.
        ExtraMissing: the telemetry cannot be opened.
    """
    configured_keys = ConfiguredKeys.read(settings)
    hosts = read_allowed_hosts(settings)
    origins = read_origins(settings)
    trusted_proxies = read_networks(settings.trusted_proxies or "", "trusted_proxies")
    secret = read_secret(settings)
    warn_of_own_secret(settings)
    opened_store = store or open_store_of(settings)
    resources = _Resources(
        settings=settings,
        secret=secret,
        store=opened_store,
        source_access=settings.source_access,
        keys=ApiKeys(opened_store),
        limits=RateLimits(opened_store),
        recorders=Recorders.open(settings, tracer_provider, meters),
        compile_pool=compile_pool,
        runtime=runtime,
        embedder=embedder,
    )
    app = _litestar(resources, trusted_proxies)
    # These wrap the application, since Litestar runs middleware only for paths that have a route.
    controlled = AccessControl(
        app.asgi_handler,
        configured_keys,
        resources.keys,
        hosts=hosts,
        open_paths=OpenPaths.of(app),
        origins=origins,
    )
    app.asgi_handler = RequestIds(AccessLog(Cors(controlled, origins)))
    return app


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resources:
    """What exists before the start; the last three are made at the start if they are None."""

    settings: Settings
    secret: bytes
    store: Store
    source_access: SourceAccess
    keys: ApiKeys
    limits: RateLimits
    recorders: Recorders
    compile_pool: CompilePool | None
    runtime: Runtime | None
    embedder: Embedder | None


def _litestar(resources: _Resources, trusted_proxies: Sequence[IPNetwork]) -> Litestar:
    """The application with its routes, without access control yet."""

    def principal(request: HttpRequest) -> Principal:
        return principal_of(request.scope, trusted_proxies)

    recorders = resources.recorders
    return Litestar(
        [*API_ROUTES, *DOCUMENT_ROUTES, *(CONSOLE_ROUTES if resources.settings.console else ())],
        dependencies={
            "services": Provide(_services_of, sync_to_thread=False),
            "principal": Provide(principal, sync_to_thread=False),
        },
        before_send=[name_methods],
        exception_handlers={Exception: respond},
        lifespan=[partial(_lifespan, resources=resources)],
        logging_config=None,
        middleware=[
            *(Authorization(), recorders.requests, KeptRequests(recorders.ring)),
            LimitedRequests(resources.limits),
        ],
        openapi_config=None,  # `gateway.api_document` describes more than the handlers do
    )


@asynccontextmanager
async def _lifespan(app: Litestar, resources: _Resources) -> AsyncIterator[None]:
    """Start the runtime and the compile pool, and give the routes their services.

    Everything is closed in reverse order, even if the start fails: the runtime, the compile pool, the store,
    the telemetry.
    """
    settings, store, recorders = resources.settings, resources.store, resources.recorders
    async with AsyncExitStack() as opened:
        opened.push_async_callback(recorders.close)
        opened.push_async_callback(store.close)
        opened.push_async_callback(resources.limits.close)
        compilers = resources.compile_pool or open_compile_pool(settings)
        grammars = GrammarCache(
            store,
            memory_bytes=settings.grammar_cache_bytes,
            secret=resources.secret,
            compile_pool=compilers,
            observer=recorders.telemetry,
        )
        opened.push_async_callback(grammars.close)
        runtime = resources.runtime
        if runtime is None:
            compilers.launch()
            runtime = await asyncio.to_thread(start_runtime, settings, compilers.learn)
        opened.push_async_callback(runtime.close)
        await runtime.start(grammars)
        for model in await runtime.models():
            await compilers.start(model.prepared)
        await opened.enter_async_context(recorders.engines.of(runtime, grammars, store))
        embedder = resources.embedder or await asyncio.to_thread(load_embedder, settings)
        searcher = ToolSearcher(vectors=ToolVectors(embedder) if embedder else None)
        opened.callback(searcher.close)
        views = _service_views(resources, grammars, runtime, searcher)
        opened.callback(views.whole.bodies.close)
        app.state.views = views
        app.state.services = views.whole
        await opened.enter_async_context(collecting(store, retention_of(settings)))
        yield


def _service_views(
    resources: _Resources, grammars: GrammarCache, runtime: Runtime, searcher: ToolSearcher
) -> ServiceViews:
    """Connect the services that the routes use."""
    settings, recorders = resources.settings, resources.recorders
    decoded = DecodedContents()
    bodies = _bodies(settings)
    responses = _responses(resources, bodies.contents)
    sources = _sources(resources, bodies.contents)

    def catalog_of(store: Store) -> Catalog:
        quota = Quota(settings.quota_bytes, settings.quota_toolsets)
        return Catalog(store, quota=quota, decoded=decoded)

    def services_of(catalog: Catalog, visible: Runtime, grant: Grant) -> Services:
        registry = Registry(catalog, grammars, runtime)
        completions = Completions(
            catalog,
            grammars,
            visible,
            recorders.telemetry,
            searcher.of_tenant(grant.tenant),
            max_choices=settings.max_choices,
            request_seconds=settings.request_seconds,
            tenant=grant.tenant,
            is_strict=settings.strict_fields,
        )
        return Services(
            store=catalog.store,
            runtime=visible,
            grammars=grammars,
            registry=registry,
            imports=ToolImports(registry),
            sources=sources,
            completions=completions,
            responses=responses,
            bodies=bodies,
            keys=resources.keys,
            meters=recorders.meters,
            requests=recorders.ring,
            totals=recorders.telemetry.totals,
            is_strict=settings.strict_fields,
        )

    return ServiceViews(resources.store, runtime, catalog_of=catalog_of, services_of=services_of)


def _bodies(settings: Settings) -> RequestBodies:
    """The reader of request bodies, with the limits of the settings."""
    return RequestBodies(
        max_bytes=settings.max_body_bytes,
        max_toolset_bytes=settings.max_toolset_bytes,
        max_large=settings.max_large_bodies,
        contents=ContentLimits(num_values=settings.max_body_values),
    )


def _responses(resources: _Resources, contents: ContentLimits) -> StoredResponses:
    return StoredResponses(
        resources.store,
        lifetime_s=resources.settings.response_seconds,
        max_bytes=resources.settings.response_bytes,
        contents=contents,
    )


def _sources(resources: _Resources, contents: ContentLimits) -> SourceProcesses:
    return SourceProcesses(
        max_bytes=resources.settings.max_toolset_bytes,
        contents=contents,
        environment=source_environment(),
        access=resources.source_access,
    )


def load_runtime(settings: Settings, compile_pool: CompilePool) -> Runtime:
    """Start the compile pool and the runtime together; if the runtime fails, the pool is closed."""
    compile_pool.launch()
    try:
        return start_runtime(settings, compile_pool.learn)
    except BaseException:
        asyncio.run(compile_pool.close())
        raise


def open_compile_pool(settings: Settings) -> CompilePool:
    """Make the pool that compiles grammars: worker processes, or threads of this process if there are 0.

    One client may have all workers but one. So with a worker more than cores, one client can use all cores,
    and another client still finds a worker.
    """
    num_workers = settings.compile_workers
    if num_workers is None:
        num_workers = min(num_usable_cores() + 1, MOST_COMPILE_WORKERS)
    limits = CompileLimits(
        seconds=settings.compile_seconds,
        memory_bytes=settings.compile_bytes,
        request_seconds=settings.compile_request_seconds,
    )
    if num_workers:
        return WorkerPool(num_workers, limits, library_environment())
    return ThreadPool(limits=limits)


def _services_of(state: State, request: HttpRequest) -> Services:
    views: Any = state.views
    assert isinstance(views, ServiceViews)
    return views.of(request.scope.get(GRANT))  # type: ignore[arg-type] # `AccessControl` put it there
