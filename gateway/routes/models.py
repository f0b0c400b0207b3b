"""The models served, in OpenAI's shape."""

from typing import Any

from litestar import get
from litestar.params import FromPath

from gateway.parts import WiredParts
from runtime.errors import UnknownModel
from runtime.protocol import ModelCard


@get("/v1/models")
async def list_models(parts: WiredParts) -> dict[str, Any]:
    """All of them."""
    return {"object": "list", "data": [_model(card) for card in await parts.runtime.models()]}


@get("/v1/models/{model_id:path}")
async def get_model(model_id: FromPath[str], parts: WiredParts) -> dict[str, Any]:
    """One of them."""
    served = {card.model_id: card for card in await parts.runtime.models()}
    name = model_id.removeprefix("/")
    if name not in served:
        raise UnknownModel(name, tuple(served))
    return _model(served[name])


def _model(card: ModelCard) -> dict[str, Any]:
    return {
        "id": card.model_id,
        "object": "model",
        "created": 0,
        "owned_by": "callgate",
        "context_length": card.context_length,
        "callgate": {"syntax": card.syntax, "vocabulary": card.vocabulary.digest},
    }
