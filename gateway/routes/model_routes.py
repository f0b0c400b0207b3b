"""The routes of the models served, and of the token ids of their prompts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, get, post
from litestar.params import FromPath, FromQuery, QueryParameter
from msgspec import Meta

from gateway.body import convert
from gateway.completions import split_model
from gateway.errors import InvalidField
from gateway.principal import RequestPrincipal
from gateway.routes.transport import read_body, read_wire_request, told, unless_gone
from gateway.services import WiredServices
from gateway.wire.openai import ChatRequest, read_completions_request
from gateway.wire.openai import read_request as read_chat_request
from runtime.protocol import ModelCard
from runtime.text.detokenizer import TokenBytes
from toolspecs.catalog import Catalog
from toolspecs.errors import StoreError


@get("/v1/models")
async def list_models(
    services: WiredServices,
    after_id: FromQuery[str | None] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=1000)] = 100,
) -> dict[str, Any]:
    """A page of the models, with the fields that OpenAI's and Anthropic's clients read.

    Each model is followed by its names with a toolset, `model:toolset`, sorted.
    """
    cards = await services.runtime.models()
    found = _named_models(cards, services.registry.catalog, after_id, limit + 1)
    models = [model async for model in found]
    page = models[:limit]
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {}
    return {"object": "list", "data": page, "has_more": len(models) > limit, **ends}


async def _named_models(
    cards: tuple[ModelCard, ...], catalog: Catalog, after_id: str | None, limit: int
) -> AsyncIterator[dict[str, Any]]:
    """Up to `limit` names of models behind `after_id`; raises InvalidField if that is none."""
    last = None if after_id is None else split_model(after_id, cards)
    is_behind = last is None
    for card in cards:
        after = None
        if not is_behind and last and card is last[0]:
            is_behind, after = True, next((toolset.name for toolset in last[1]), None)
        elif is_behind:
            yield _model(card)
            limit -= 1
        if not (is_behind and limit > 0):
            continue
        with suppress(StoreError):  # the models can be used without the store
            for toolset in (await catalog.list(after=after, limit=limit)).items:
                yield _model(card, f"{card.model_id}:{toolset.name}")
                limit -= 1


@get("/v1/models/{model_id:path}")
async def get_model(model_id: FromPath[str], services: WiredServices) -> dict[str, Any]:
    """One model, also under the name `model:toolset`."""
    name = model_id.removeprefix("/")
    model, toolsets = split_model(name, await services.runtime.models())
    for reference in toolsets:
        await services.registry.catalog.resolve(reference)
    return _model(model, name)


def _model(card: ModelCard, name: str | None = None) -> dict[str, Any]:
    name = name or card.model_id
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "callgate",
        "type": "model",
        "display_name": name,
        "created_at": "1970-01-01T00:00:00Z",
        "context_length": card.context_length,
        "callgate": {"syntax": card.syntax, "vocabulary": card.vocabulary.digest},
    }


class DetokenizeBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `/detokenize`."""

    model: str
    tokens: list[Annotated[int, Meta(ge=0)]]


def read_tokenize_request(body: Any, **options: Any) -> ChatRequest:
    """The body of `/tokenize`: that of a completion, or of a chat."""
    is_chat = isinstance(body, dict) and "messages" in body
    return read_chat_request(body, **options) if is_chat else read_completions_request(body, **options)


@post("/tokenize", status_code=200)
async def tokenize(
    request: Request[Any, Any, Any], services: WiredServices, principal: RequestPrincipal
) -> Response[Any]:
    """The token ids of a prompt or of a conversation, as vLLM's users ask for them."""
    asked = await read_wire_request(request, services, principal.share, read_tokenize_request)
    ids = await unless_gone(request, services.completions.prompt_ids(asked.turn, principal.share))
    model, _ = split_model(asked.turn.model, await services.runtime.models())
    answer = {"count": len(ids), "max_model_len": model.context_length, "tokens": ids}
    return Response(answer, headers=told(asked.ignored))


@post("/detokenize", status_code=200)
async def detokenize(
    request: Request[Any, Any, Any], services: WiredServices, principal: RequestPrincipal
) -> dict[str, Any]:
    """The text of token ids."""
    asked = convert(await read_body(request, services, principal.share), DetokenizeBody)
    model, _ = split_model(asked.model, await services.runtime.models())
    if outside := next((i for i in asked.tokens if i >= model.vocabulary.width), None):
        raise InvalidField("tokens", f"{outside} is not a token id; they are below {model.vocabulary.width}")
    if len(asked.tokens) > model.context_length:
        raise InvalidField("tokens", f"at most {model.context_length} are a prompt, these are more")
    token_bytes = TokenBytes(model.vocabulary)
    text = await asyncio.to_thread(lambda: token_bytes.of(asked.tokens).decode(errors="replace"))
    return {"prompt": text}


MODEL_ROUTES = (list_models, get_model, tokenize, detokenize)
