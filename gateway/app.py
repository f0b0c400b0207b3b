"""The composition root: connects what the settings name to an application."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any

from litestar import Litestar
from litestar.datastructures import State
from litestar.di import Provide
from litestar.types import ASGIApp
from opentelemetry import trace

from compiler.cache.grammar_cache import GrammarCache
from compiler.isolation.compile_job import CompilePool
from gateway.access.access_control import AccessControl
from gateway.access.cors import Cors
from gateway.access.grants import Grant, grant_of
from gateway.access.principal import principal_of
from gateway.access.route_scopes import AuthorizationMiddleware, OpenPaths
from gateway.api_document.document_routes import API_ROUTES, DOCUMENT_ROUTES
from gateway.console.console_routes import CONSOLE_ROUTES
from gateway.generation.allowance import AllowanceMiddleware
from gateway.generation.completions import Completions
from gateway.generation.stored_responses import StoredResponses
from gateway.generation.tool_finder import ToolFinder
from gateway.generation.tool_search import ToolSearcher
from gateway.generation.tool_vectors import Embedder, ToolVectors
from gateway.http.headers import HttpRequest, RequestIds, name_methods
from gateway.http.held_contents import HoldingMiddleware
from gateway.http.problems import respond
from gateway.http.request_bodies import BodyLimit, RequestBodies
from gateway.http.unfinished_requests import UnfinishedRequests
from gateway.resources import Loaded, Resources
from gateway.routes.request_context import RequestContext
from gateway.service_views import ServiceViews
from gateway.services import Services, WiredServices
from gateway.setting_sources import source_environment
from gateway.settings import Settings
from gateway.sources.source_process import SourceProcesses
from gateway.store_upkeep import collecting, retention_of
from gateway.telemetry.access_log import AccessLog
from gateway.telemetry.recent_requests import RecentRequestsMiddleware
from gateway.toolsets.registry import Registry
from gateway.toolsets.tool_imports import ToolImports
from runtime.protocol import Circuit, Runtime
from toolspecs.json_scan import ContentLimits
from toolspecs.revisions.catalog import Catalog
from toolspecs.revisions.quota import Quota
from toolspecs.revisions.toolset_contents import DecodedContents
from toolspecs.store import Store

FIRST_TRIAL_S = 10.0
"""How long a gateway that starts waits for the first checks of its external engines."""


def create_app(
    settings: Settings,
    *,
    runtime: Runtime | None = None,
    compile_pool: CompilePool | None = None,
    store: Store | None = None,
    tracer_provider: trace.TracerProvider | None = None,
    embedder: Embedder | None = None,
) -> Litestar:
    """The gateway as a Litestar application: opens and loads what is not given, and connects all.

    Everything, given or not, is closed with the application.

    Raises:
        SettingsError, ExtraMissing: see `Resources.open`.
        ModelLoadError, UnusableDevice, UnknownSyntax: see `Loaded.load`.
    """
    resources = Resources.open(settings, store=store, tracer_provider=tracer_provider)
    loaded = Loaded.load(settings, compile_pool=compile_pool, runtime=runtime, embedder=embedder)
    return connect(resources, loaded)


def connect(resources: Resources, loaded: Loaded) -> Litestar:
    """The application over what is open and loaded; it closes all of it when it ends."""
    app = _litestar(resources, loaded)
    # These wrap the application, since Litestar runs middleware only for paths that have a route.
    controlled = AccessControl(
        app.asgi_handler,
        resources.configured_keys,
        resources.keys,
        hosts=resources.hosts,
        open_paths=OpenPaths.of(app),
        origins=resources.origins,
    )
    app.asgi_handler = outermost(UnfinishedRequests(controlled), resources.origins)
    return app


def outermost(app: ASGIApp, origins: frozenset[str]) -> ASGIApp:
    """An application whose answers all have an id, a line in the log, and what pages of `origins` need."""
    return RequestIds(AccessLog(Cors(app, origins)))


def _litestar(resources: Resources, loaded: Loaded) -> Litestar:
    """The application with its routes, without access control yet."""

    def context(services: WiredServices, request: HttpRequest) -> RequestContext:
        return RequestContext(request, services, principal_of(request.scope, resources.trusted_proxies))

    recorders = resources.recorders
    return Litestar(
        [*API_ROUTES, *DOCUMENT_ROUTES, *(CONSOLE_ROUTES if resources.settings.console else ())],
        dependencies={
            "services": Provide(_services_of, sync_to_thread=False),
            "context": Provide(context, sync_to_thread=False),
        },
        before_send=[name_methods],
        exception_handlers={Exception: respond},
        lifespan=[partial(_lifespan, resources=resources, loaded=loaded)],
        logging_config=None,
        middleware=[
            AuthorizationMiddleware(),
            recorders.request_spans,
            RecentRequestsMiddleware(recorders.ring),
            AllowanceMiddleware(resources.limits),
            HoldingMiddleware(resources.held),
        ],
        openapi_config=None,  # `gateway.api_document` describes more than the handlers do
    )


@asynccontextmanager
async def _lifespan(app: Litestar, resources: Resources, loaded: Loaded) -> AsyncIterator[None]:
    """Start the runtime and the compile pool, and give the routes their services.

    Everything is closed in reverse order, even if the start fails: the runtime, the compile pool, the store,
    the telemetry.
    """
    settings, store, recorders = resources.settings, resources.store, resources.recorders
    compile_pool, runtime = loaded.compile_pool, loaded.runtime
    async with AsyncExitStack() as opened:
        opened.push_async_callback(recorders.close)
        opened.push_async_callback(store.close)
        opened.push_async_callback(resources.limits.close)
        grammars = GrammarCache(
            store,
            memory_bytes=settings.grammar_cache_bytes,
            secret=resources.secret,
            compile_pool=compile_pool,
            observer=recorders.telemetry,
        )
        opened.push_async_callback(grammars.close)
        opened.push_async_callback(runtime.close)
        await runtime.start(grammars)
        for model in await runtime.models():
            await compile_pool.start(model.prepared)
        await opened.enter_async_context(recorders.engines.of(runtime, grammars, store))
        searcher = ToolSearcher(vectors=ToolVectors(loaded.embedder) if loaded.embedder else None)
        opened.callback(searcher.close)
        views = _service_views(resources, grammars, runtime, searcher)
        opened.callback(views.whole.bodies.close)
        app.state.views = views
        await opened.enter_async_context(collecting(store, retention_of(settings)))
        await _engines_tried(runtime)
        yield


async def _engines_tried(runtime: Runtime) -> None:
    """Wait until each model has an external engine that takes requests, or all of its engines were tried.

    Otherwise, a gateway that takes the place of another one refuses all requests of its first seconds.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(FIRST_TRIAL_S):
            while True:
                engines = (await runtime.health()).engines
                served = {engine.model_id for engine in engines if engine.circuit is Circuit.CLOSED}
                if not any(engine.is_untried and engine.model_id not in served for engine in engines):
                    return
                await asyncio.sleep(0.05)


def _service_views(
    resources: Resources, grammars: GrammarCache, runtime: Runtime, searcher: ToolSearcher
) -> ServiceViews:
    """Connect the services that the routes use."""
    settings, recorders = resources.settings, resources.recorders
    decoded = DecodedContents()
    bodies = _bodies(resources)
    responses = _responses(resources, bodies.contents)
    sources = _sources(resources, bodies.contents)

    def catalog_of(store: Store) -> Catalog:
        quota = Quota(settings.quota_bytes, settings.quota_toolsets)
        return Catalog(store, quota=quota, decoded=decoded)

    def services_of(catalog: Catalog, visible: Runtime, grant: Grant) -> Services:
        registry = Registry(catalog, grammars, runtime, tells_compile_times=grant.tenant is None)
        completions = Completions(
            ToolFinder(catalog, searcher.of_tenant(grant.tenant)),
            grammars,
            visible,
            recorders.telemetry,
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
            recent_requests=recorders.ring,
            totals=recorders.telemetry.totals,
            request_seconds=settings.request_seconds,
            is_strict=settings.strict_fields,
        )

    return ServiceViews(resources.store, runtime, catalog_of=catalog_of, services_of=services_of)


def _bodies(resources: Resources) -> RequestBodies:
    """The reader of request bodies, with the limits of the settings."""
    settings = resources.settings
    return RequestBodies(
        limit=BodyLimit(settings.max_body_bytes, "max_body_bytes"),
        toolset_limit=BodyLimit(settings.max_toolset_bytes, "max_toolset_bytes"),
        max_large=settings.max_large_bodies,
        contents=ContentLimits(num_values=settings.max_body_values, setting="max_body_values"),
        has_others=resources.held.has_others,
    )


def _responses(resources: Resources, contents: ContentLimits) -> StoredResponses:
    return StoredResponses(
        resources.store,
        lifetime_s=resources.settings.response_seconds,
        max_bytes=resources.settings.response_bytes,
        contents=contents,
    )


def _sources(resources: Resources, contents: ContentLimits) -> SourceProcesses:
    return SourceProcesses(
        max_bytes=resources.settings.max_toolset_bytes,
        contents=contents,
        environment=source_environment(),
        access=resources.source_access,
    )


def _services_of(state: State, request: HttpRequest) -> Services:
    views: Any = state.views
    assert isinstance(views, ServiceViews)
    return views.of(grant_of(request.scope))
