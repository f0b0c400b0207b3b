"""The services of a running gateway, and whether they can serve."""

from collections.abc import Iterable
from dataclasses import dataclass

from litestar.di import NamedDependency

from compiler.cache.grammar_cache import GrammarCache
from gateway.access.api_keys import ApiKeys
from gateway.generation.completions import Completions
from gateway.generation.stored_responses import StoredResponses
from gateway.http.request_bodies import RequestBodies
from gateway.sources.source_process import SourceProcesses
from gateway.telemetry.exporters import Meters
from gateway.telemetry.recent_requests import RequestRing, TurnTotals
from gateway.toolsets.registry import Registry
from gateway.toolsets.tool_imports import ToolImports
from runtime.protocol import ReplicaState, Runtime
from toolspecs.errors import StoreError
from toolspecs.store import Store

LOST = "the engine has failed; only a restart helps"


@dataclass(frozen=True, slots=True)
class Services:
    """What `create_app` connects and the routes use."""

    store: Store
    runtime: Runtime
    grammars: GrammarCache
    registry: Registry
    imports: ToolImports
    sources: SourceProcesses
    completions: Completions
    responses: StoredResponses
    bodies: RequestBodies
    keys: ApiKeys
    meters: Meters
    recent_requests: RequestRing
    totals: TurnTotals
    request_seconds: float | None
    """How long a request may take at most."""
    is_strict: bool
    """Whether requests with fields that have no effect are refused."""

    async def unready_reason(self, *, names_models: bool = False) -> str:
        """Why requests cannot be served now; empty if they can.

        Anybody may read it in the probes, so it contains no address or path, and model names only if
        `names_models`.
        """
        health = await self.runtime.health()
        if health.is_lost:
            return LOST
        if not health.is_ready:
            return _unready_models(health.engines, names_models=names_models) or "no model is ready"
        try:
            await self.store.ping()
        except StoreError:
            return "the store cannot be used; the gateway's log says why"
        return ""


def _unready_models(engines: Iterable[ReplicaState], *, names_models: bool) -> str:
    """Why no engine of the models takes requests; equal reasons once."""
    reasons = dict.fromkeys(
        f"an engine{f' of the model {engine.model_id!r}' if names_models else ''} {engine.public_reason}"
        for engine in engines
        if engine.reason
    )
    return "; ".join(reasons)


WiredServices = NamedDependency[Services]
"""The type by which a route asks for the services."""
