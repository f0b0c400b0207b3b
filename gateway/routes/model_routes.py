"""The routes of the models served."""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any

from litestar import get
from litestar.params import FromPath, FromQuery, QueryParameter

from gateway.errors import InvalidField
from gateway.generation.model_names import split_model
from gateway.services import WiredServices
from runtime.errors import UnknownModel
from runtime.models.model_config import MODEL_FIELDS
from runtime.protocol import ModelCard
from toolspecs.errors import StoreError
from toolspecs.revisions.catalog import Catalog


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
    named_models = _named_models(cards, services.registry.catalog, after_id, limit + 1)
    models = [model async for model in named_models]
    page = models[:limit]
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {}
    return {"object": "list", "data": page, "has_more": len(models) > limit, **ends}


async def _named_models(
    cards: tuple[ModelCard, ...], catalog: Catalog, after_id: str | None, limit: int
) -> AsyncIterator[dict[str, Any]]:
    """Up to `limit` names of models after `after_id`; raises InvalidField if there is no such name."""
    try:
        last = None if after_id is None else split_model(after_id, cards)
    except (InvalidField, UnknownModel) as error:
        raise InvalidField("after_id", str(error)) from error
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
        "lifecycle": "active",
        "max_input_tokens": card.context_length,
        "max_tokens": card.context_length,
        "context_length": card.context_length,
        "callgate": {
            "syntax": card.syntax,
            "vocabulary": card.vocabulary.digest,
            "sampling": {name: getattr(card.sampling, name) for name in MODEL_FIELDS},
        },
    }


MODEL_ROUTES = (list_models, get_model)
