"""The services as a key sees them: only the toolsets and models that it may use, in its tenant.

Routes get their services from here. So no route has to check what a key may see: for the route, nothing else
exists.
"""

from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import replace

from compiler.cache.grammar_cache import GrammarCache
from gateway.access.api_keys import store_of_tenant
from gateway.access.grants import Grant
from gateway.services import Services
from runtime.events import Event, PromptRendered
from runtime.protocol import Health, ModelCard, Runtime, reasons_of
from runtime.request import GenerationRequest
from toolspecs.lru_cache import LruCache
from toolspecs.revisions.catalog import Catalog
from toolspecs.store import Store

MAX_CATALOGS = 1000
"""Tenants whose catalogs, with what they read last, are kept in memory."""

MakeServices = Callable[[Catalog, Runtime, Grant], Services]


class ServiceViews:
    """Makes the services of each request: `catalog_of` opens a catalog, `services_of` makes its services."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        *,
        catalog_of: Callable[[Store], Catalog],
        services_of: MakeServices,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._catalog_of = catalog_of
        self._services_of = services_of
        self._catalogs: LruCache[Catalog] = LruCache(MAX_CATALOGS)
        self._catalog = catalog_of(store)
        self.whole = services_of(self._catalog, runtime, Grant())

    def of(self, grant: Grant | None) -> Services:
        """The services for a grant; None is for routes without keys, which show no toolsets."""
        if grant is None or grant.sees_all:
            return self.whole
        catalog = self._catalog if grant.tenant is None else self._tenants_catalog(grant.tenant)
        if grant.toolsets is not None:
            catalog = catalog.restricted_to(grant.toolsets)
        runtime = self._runtime if grant.models is None else RestrictedRuntime(self._runtime, grant.models)
        return self._services_of(catalog, runtime, grant)

    def _tenants_catalog(self, tenant: str) -> Catalog:
        catalog = self._catalogs.get(tenant)
        if catalog is None:
            catalog = self._catalog_of(store_of_tenant(self._store, tenant))
            self._catalogs.put(tenant, catalog, 1)
        return catalog


class RestrictedRuntime:
    """A runtime that lists only some of its models. Requests for the others find no model."""

    def __init__(self, runtime: Runtime, model_ids: Collection[str]) -> None:
        self._runtime = runtime
        self._model_ids = frozenset(model_ids)

    async def start(self, grammars: GrammarCache) -> None:
        """See `Runtime.start`."""
        await self._runtime.start(grammars)

    def generate(self, request: GenerationRequest) -> AsyncIterator[PromptRendered | Event]:
        """See `Runtime.generate`."""
        return self._runtime.generate(request)

    async def prompt_ids(self, request: GenerationRequest) -> list[int]:
        """See `Runtime.prompt_ids`."""
        return await self._runtime.prompt_ids(request)

    async def health(self) -> Health:
        """See `Runtime.health`; the reason names none of the other models and their engines."""
        health = await self._runtime.health()
        engines = tuple(engine for engine in health.engines if engine.model_id in self._model_ids)
        loads = tuple(load for load in health.loads if load.model_id in self._model_ids)
        return replace(health, reason=reasons_of(engines), engines=engines, loads=loads)

    async def models(self) -> tuple[ModelCard, ...]:
        """See `Runtime.models`."""
        return tuple(card for card in await self._runtime.models() if card.model_id in self._model_ids)

    async def close(self) -> None:
        """See `Runtime.close`."""
        await self._runtime.close()
