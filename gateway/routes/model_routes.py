"""The routes of the models: Chat Completions, Responses, the models served, and whether they can serve."""

from typing import Any

from litestar import Request, Response, get, post
from litestar.params import FromPath

from gateway.completions import split_model
from gateway.principal import RequestPrincipal
from gateway.problems import openai_error
from gateway.routes.transport import read_wire_request, stream, told, unless_gone
from gateway.services import WiredServices
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
    asked = await read_wire_request(request, read_responses_request, is_strict=services.is_strict)
    generation = await unless_gone(request, services.completions.start(asked.turn, principal.share))
    headers = told((*asked.ignored, *generation.ignored))
    writer = ResponseWriter(generation, asked.echoed)
    if not asked.is_streamed:
        return Response(await unless_gone(request, writer.whole()), headers=headers)
    return stream(generation, writer.events(), broken_off=writer.failed, headers=headers)


@get("/v1/models")
async def list_models(services: WiredServices) -> dict[str, Any]:
    """The models served, in OpenAI's shape."""
    return {"object": "list", "data": [_model(card) for card in await services.runtime.models()]}


@get("/v1/models/{model_id:path}")
async def get_model(model_id: FromPath[str], services: WiredServices) -> dict[str, Any]:
    """One model, also under the name `model:toolset`."""
    name = model_id.removeprefix("/")
    model, toolsets = split_model(name, await services.runtime.models())
    for reference in toolsets:
        await services.registry.catalog.resolve(reference)
    return _model(model) | {"id": name}


def _model(card: ModelCard) -> dict[str, Any]:
    return {
        "id": card.model_id,
        "object": "model",
        "created": 0,
        "owned_by": "callgate",
        "context_length": card.context_length,
        "callgate": {"syntax": card.syntax, "vocabulary": card.vocabulary.digest},
    }


@get("/healthz")
async def healthz(services: WiredServices) -> Response[dict[str, Any]]:
    """200 while the process works; 503 when only a restart helps."""
    health = await services.runtime.health()
    if health.is_lost:
        return Response({"status": "failed", "reason": health.reason}, status_code=503)
    return Response({"status": "ok"})


@get("/readyz")
async def readyz(services: WiredServices) -> Response[dict[str, Any]]:
    """Whether requests can be served; if not, why."""
    reason = await services.unready_reason()
    if reason:
        return Response({"status": "unready", "reason": reason}, status_code=503)
    return Response({"status": "ready"})
