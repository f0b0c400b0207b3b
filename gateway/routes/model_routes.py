"""The routes of the models: the three APIs, the models served, and whether they can serve."""

import importlib.metadata
from functools import partial
from typing import Annotated, Any, Literal

from litestar import Request, Response, delete, get, post
from litestar.params import FromPath, FromQuery, QueryParameter

from gateway.completions import split_model
from gateway.principal import RequestPrincipal
from gateway.problems import MESSAGES, anthropic_error, openai_error
from gateway.routes.transport import read_wire_request, stream, told, unless_gone
from gateway.services import WiredServices
from gateway.stored_responses import identified
from gateway.wire.anthropic import MessageWriter
from gateway.wire.anthropic import read_request as read_messages_request
from gateway.wire.openai import chunks, completion
from gateway.wire.openai import read_request as read_chat_request
from gateway.wire.responses import ResponseWriter
from gateway.wire.responses import read_request as read_responses_request
from runtime.protocol import ModelCard


@post("/v1/chat/completions", status_code=200)
async def chat_completions(
    request: Request[Any, Any, Any], services: WiredServices, principal: RequestPrincipal
) -> Response[Any]:
    """The assistant's next turn, whole or as server-sent events."""
    asked = await read_wire_request(request, read_chat_request, is_strict=services.is_strict)
    generation = await unless_gone(request, services.completions.start(asked.turn, principal.share))
    headers = told((*asked.ignored, *generation.ignored))
    if not asked.is_streamed:
        return Response(await unless_gone(request, completion(generation)), headers=headers)
    events = chunks(generation, includes_usage=asked.includes_usage)
    return stream(generation, events, broken_off=openai_error, headers=headers, end="data: [DONE]\n\n")


@post("/v1/responses", status_code=200)
async def create_response(
    request: Request[Any, Any, Any], services: WiredServices, principal: RequestPrincipal
) -> Response[Any]:
    """The assistant's next turn, whole or as server-sent events."""
    stored, owner = services.responses, principal.owner
    asked = await read_wire_request(
        request,
        read_responses_request,
        is_strict=services.is_strict,
        expand=lambda body: stored.expanded(body, owner),
    )
    generation = await unless_gone(request, services.completions.start(asked.turn, principal.share))
    headers = told((*asked.ignored, *generation.ignored))
    save = partial(stored.save, owner, items=asked.items) if asked.is_stored else None
    writer = ResponseWriter(generation, asked.echoed, save)
    if not asked.is_streamed:
        return Response(await unless_gone(request, writer.whole()), headers=headers)
    return stream(generation, writer.events(), broken_off=writer.failed, headers=headers)


@get("/v1/responses/{response_id:str}")
async def get_response(
    response_id: FromPath[str], services: WiredServices, principal: RequestPrincipal
) -> dict[str, Any]:
    """A stored response."""
    return (await services.responses.load(principal.owner, response_id)).response


@delete("/v1/responses/{response_id:str}", status_code=200)
async def delete_response(
    response_id: FromPath[str], services: WiredServices, principal: RequestPrincipal
) -> dict[str, Any]:
    """Remove a stored response."""
    await services.responses.delete(principal.owner, response_id)
    return {"id": response_id, "object": "response", "deleted": True}


@get("/v1/responses/{response_id:str}/input_items")
async def list_input_items(
    response_id: FromPath[str],
    services: WiredServices,
    principal: RequestPrincipal,
    *,
    order: FromQuery[Literal["asc", "desc"]] = "desc",
    after: FromQuery[str | None] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """A page of the input that a stored response answered, with what came before in its conversation."""
    stored = await services.responses.load(principal.owner, response_id)
    items = list(identified(stored.items, response_id))
    if order == "desc":
        items.reverse()
    ids = [item["id"] for item in items]
    start = ids.index(after) + 1 if after in ids else 0
    page = items[start : start + limit]
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {}
    return {"object": "list", "data": page, "has_more": start + limit < len(items), **ends}


@post(MESSAGES, status_code=200)
async def create_message(
    request: Request[Any, Any, Any], services: WiredServices, principal: RequestPrincipal
) -> Response[Any]:
    """The assistant's next turn, whole or as server-sent events, as Anthropic's clients ask for it."""
    asked = await read_wire_request(request, read_messages_request, is_strict=services.is_strict)
    generation = await unless_gone(request, services.completions.start(asked.turn, principal.share))
    headers = told((*asked.ignored, *generation.ignored))
    writer = MessageWriter(generation)
    if not asked.is_streamed:
        return Response(await unless_gone(request, writer.whole()), headers=headers)
    return stream(generation, writer.events(), broken_off=anthropic_error, headers=headers)


@post(f"{MESSAGES}/count_tokens", status_code=200)
async def count_message_tokens(request: Request[Any, Any, Any], services: WiredServices) -> Response[Any]:
    """How many tokens the prompt of a message has."""
    asked = await read_wire_request(request, read_messages_request, is_strict=services.is_strict)
    num_tokens = await unless_gone(request, services.completions.count_tokens(asked.turn))
    return Response({"input_tokens": num_tokens}, headers=told(asked.ignored))


@get("/v1/models")
async def list_models(services: WiredServices) -> dict[str, Any]:
    """The models served, with the fields that OpenAI's and Anthropic's clients read."""
    models = [_model(card) for card in await services.runtime.models()]
    ends = {"first_id": models[0]["id"], "last_id": models[-1]["id"]} if models else {}
    return {"object": "list", "data": models, "has_more": False, **ends}


@get("/v1/models/{model_id:path}")
async def get_model(model_id: FromPath[str], services: WiredServices) -> dict[str, Any]:
    """One model, also under the name `model:toolset`."""
    name = model_id.removeprefix("/")
    model, toolsets = split_model(name, await services.runtime.models())
    for reference in toolsets:
        await services.registry.catalog.resolve(reference)
    return _model(model) | {"id": name, "display_name": name}


def _model(card: ModelCard) -> dict[str, Any]:
    return {
        "id": card.model_id,
        "object": "model",
        "created": 0,
        "owned_by": "callgate",
        "type": "model",
        "display_name": card.model_id,
        "created_at": "1970-01-01T00:00:00Z",
        "context_length": card.context_length,
        "callgate": {"syntax": card.syntax, "vocabulary": card.vocabulary.digest},
    }


@get(["/healthz", "/health", "/ping"])
async def healthz(services: WiredServices) -> Response[dict[str, Any]]:
    """200 while the process works; 503 when only a restart helps."""
    health = await services.runtime.health()
    if health.is_lost:
        return Response({"status": "failed", "reason": health.reason}, status_code=503)
    return Response({"status": "ok"})


@get("/version")
async def version() -> dict[str, Any]:
    """The gateway's version."""
    return {"version": importlib.metadata.version("callgate")}


@get("/readyz")
async def readyz(services: WiredServices) -> Response[dict[str, Any]]:
    """Whether requests can be served; if not, why."""
    reason = await services.unready_reason()
    if reason:
        return Response({"status": "unready", "reason": reason}, status_code=503)
    return Response({"status": "ready"})


MODEL_ROUTES = (
    chat_completions,
    create_response,
    get_response,
    delete_response,
    list_input_items,
    create_message,
    count_message_tokens,
    list_models,
    get_model,
    healthz,
    readyz,
    version,
)
