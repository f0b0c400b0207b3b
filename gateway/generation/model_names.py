"""The names of models in requests: a model's id, an alias, or `model:toolset`."""

from fnmatch import fnmatchcase
from itertools import chain

from gateway.errors import InvalidField
from runtime.errors import UnknownModel
from runtime.protocol import ModelCard
from toolspecs.errors import InvalidName
from toolspecs.toolset import ToolsetReference


def split_model(name: str, served: tuple[ModelCard, ...]) -> tuple[ModelCard, tuple[ToolsetReference, ...]]:
    """The model that the field `model` names, and the toolset if it is `model:toolset`.

    Raises:
        UnknownModel: no such model is served.
        InvalidField: the toolset is missing or malformed.
    """
    if (card := _card_of(name, served)) is not None:
        return card, ()
    model_id, colon, toolset = name.rpartition(":")
    card = _card_of(model_id, served) if colon else None
    if card is None:
        raise UnknownModel(name, tuple(card.model_id for card in served))
    if not toolset:
        reason = f"there is no toolset after the colon; write {model_id!r}, or '{model_id}:TOOLSET'"
        raise InvalidField("model", reason)
    try:
        return card, (ToolsetReference.parse(toolset),)
    except InvalidName as error:
        raise InvalidField("model", str(error)) from error


def _card_of(name: str, served: tuple[ModelCard, ...]) -> ModelCard | None:
    """The model with this name, or else the first model with a matching alias."""
    own = (card for card in served if card.model_id == name)
    aliased = (card for card in served if any(_is_alias(alias, name) for alias in card.aliases))
    return next(chain(own, aliased), None)


def _is_alias(alias: str, name: str) -> bool:
    """Whether a name matches an alias; `*` takes no colon, or it would take the toolset after it."""
    return alias.count(":") == name.count(":") and fnmatchcase(name, alias)
