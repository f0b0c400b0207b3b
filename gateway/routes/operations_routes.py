"""The routes for operators: recent requests, the system, engines, grammars; and their JSON."""

import asyncio
from collections.abc import Mapping
from typing import Annotated

from litestar import Controller, get
from litestar.params import FromPath, FromQuery, QueryParameter

from compiler.cache.grammar_index import CachedGrammar, CachedPart, grammar_of
from compiler.cache_entry import CacheEntry
from gateway.access.grants import grant_of
from gateway.access.route_scopes import ADMIN
from gateway.errors import UnknownGrammar, UnknownRequest
from gateway.routes.request_context import PageSize, RequestContext, WiredContext, check_query
from gateway.services import WiredServices
from gateway.telemetry.recent_requests import RecentRequest
from gateway.version import VERSION
from runtime.protocol import Circuit, EngineLoad, ReplicaState
from toolspecs.json_value import JSON

MAX_GRAMMAR_TEXT = 200_000
"""Characters of a grammar's text that are sent."""

_UNKNOWN = {
    "status": None,
    "model": None,
    "toolsets": (),
    "error": None,
    "grammar": None,
    "grammar_source": None,
    "first_token_ms": None,
    "input_tokens": None,
    "output_tokens": None,
    "forced_tokens": None,
    "rescued_tokens": None,
    "mass_removed": None,
    "cached_tokens": None,
    "computed_tokens": None,
    "strategy": None,
    "answers": None,
    "finish_reasons": (),
    "closed_by": None,
}
"""The values of a request that failed before they were known."""


class OperationsController(Controller):
    """The routes for operators."""

    path = "/v1"
    before_request = check_query  # type: ignore[assignment] # Litestar calls it without self

    @get("/requests")
    async def list_requests(
        self,
        context: WiredContext,
        *,
        before: Annotated[int | None, QueryParameter(ge=1)] = None,
        limit: PageSize = 100,
        failed: FromQuery[bool] = False,
    ) -> JSON:
        """The most recent finished requests to models, the newest first, with the times of their steps.

        With `failed`, only those that were refused, failed, or were left by their client.

        A key sees its own requests; a key with the scope `admin` sees all. They are those of this process,
        without content.
        """
        owner = _visible_owner(context)
        page = context.services.recent_requests.page(owner, before=before, limit=limit, has_failed=failed)
        return {
            "requests": [request_json(recent, owner) for recent in page.items],
            "next": int(page.next_key) if page.next_key else None,
            "is_off": context.services.recent_requests.is_off,
        }

    @get("/requests/{request_id:path}")
    async def get_request(self, request_id: FromPath[str], context: WiredContext) -> JSON:
        """The last request with this id; an answer has its request's id in `X-Request-ID`."""
        name = request_id.removeprefix("/")
        owner = _visible_owner(context)
        recent = context.services.recent_requests.find(owner, name)
        if recent is None:
            raise UnknownRequest(name, is_off=context.services.recent_requests.is_off)
        return request_json(recent, owner)

    @get("/system")
    async def system(self, services: WiredServices) -> JSON:
        """What this process does now, and what it has done since it started."""
        health = await services.runtime.health()
        grammars, totals = services.grammars, services.totals
        return {
            "version": VERSION,
            "unready_reason": await services.unready_reason(names_models=True) or None,
            "engines": [
                *(embedded_json(load) for load in health.loads),
                *(external_engine_json(state) for state in health.engines),
            ],
            "grammars": {
                "entries": grammars.num_entries,
                "bytes": grammars.num_bytes,
                "waiting": grammars.num_waiting,
                "found": dict(grammars.num_found),
            },
            "totals": {name: getattr(totals, name) for name in totals.__slots__},
        }

    @get("/grammars/{digest:str}")
    async def get_grammar(self, digest: FromPath[str], services: WiredServices) -> JSON:
        """A grammar that this process has used, with its parts and where they are cached.

        A grammar that is a single part also has its text.

        The digest is that of a request's grammar, or of a tool's grammar in a report. Tenants share grammars,
        so this needs the scope `admin`.
        """
        grammar = await services.grammars.find(digest)
        if grammar is None:
            raise UnknownGrammar(digest)
        return await asyncio.to_thread(grammar_json, grammar)


# Not in the controller, because it takes unknown query parameters.
@get("/v1/engines")
async def list_engines(services: WiredServices) -> JSON:
    """The external engines: whether each takes requests, and if not, why."""
    health = await services.runtime.health()
    return {"object": "list", "data": [_engine_json(state) for state in health.engines]}


OPERATIONS_ROUTES = (OperationsController, list_engines)


def _visible_owner(context: RequestContext) -> str | None:
    """The owner whose requests the sender may see; None for all."""
    grant = grant_of(context.request.scope)
    assert grant is not None, "no operations route is open"
    return None if grant.has_any(ADMIN) else grant.owner


def request_json(request: RecentRequest, owner: str | None) -> JSON:
    """A recent request as its owner sees it, or (None) as somebody who may see all sees it."""
    return {"number": request.number_for(owner), **_UNKNOWN, **request.values}


def embedded_json(load: EngineLoad) -> JSON:
    """The engine of this process for one model."""
    return {
        "model": load.model_id,
        "engine": "embedded",
        "is_ready": load.is_ready,
        "reason": None,
        "running": load.num_running,
        "waiting": load.num_waiting,
        "used_pages": load.num_pages - load.num_free_pages,
        "pages": load.num_pages,
        "served": None,
        "failed": None,
        "canary_age_s": None,
    }


def external_engine_json(state: ReplicaState) -> JSON:
    """An external engine in `/v1/system`, with the same fields as an embedded one."""
    is_ready = state.circuit is Circuit.CLOSED
    return {**_state_json(state), "is_ready": is_ready, "waiting": None, "used_pages": None, "pages": None}


def _engine_json(state: ReplicaState) -> JSON:
    """An external engine in the list of engines."""
    return {
        "object": "engine",
        **_state_json(state),
        "circuit": state.circuit,
        "version": state.version or None,
        "refused_tokens": state.num_refused_tokens,
    }


def _state_json(state: ReplicaState) -> JSON:
    """What both lists say of an external engine."""
    return {
        "model": state.model_id,
        "engine": state.name,
        "reason": state.reason or None,
        "running": state.num_running,
        "served": state.num_served,
        "failed": state.num_failed,
        "canary_age_s": None if state.canary_age_s is None else round(state.canary_age_s, 1),
    }


def grammar_json(grammar: CachedGrammar) -> JSON:
    """A grammar with its parts; a single part also has its text, if it is still in memory."""
    recipe = grammar.recipe
    alone = grammar.parts[0].entry if recipe is None else None
    parts = [_part_json(part, grammar.are_stored) for part in grammar.parts]
    return {
        "digest": grammar.digest,
        "syntax": recipe.syntax if recipe else None,
        "tool_choice": recipe.choice.mode.value if recipe and recipe.choice else None,
        "parts": parts,
        **(_text_json(alone) if alone else {"text": None, "is_cut": False, "has_guards": None}),
    }


def _part_json(part: CachedPart, are_stored: Mapping[str, bool]) -> JSON:
    entry = part.entry
    return {
        "name": part.name or None,
        "kind": part.kind,
        "digest": entry.compiled.digest if entry else None,
        "bytes": entry.num_bytes if entry else None,
        "compile_ms": round(entry.compile_ms, 3) if entry else None,
        "in_memory": entry is not None,
        "in_store": are_stored.get(part.key),
    }


def _text_json(entry: CacheEntry) -> JSON:
    grammar = grammar_of(entry)
    text = grammar.ebnf
    return {
        "text": text[:MAX_GRAMMAR_TEXT],
        "is_cut": len(text) > MAX_GRAMMAR_TEXT,
        "has_guards": grammar.plan is not None,
    }
