"""Several models behind one runtime: each request goes to the runtime that serves its model."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from compiler.cache.grammar_cache import GrammarCache
from runtime.errors import UnknownModel
from runtime.events import Event, PromptRendered
from runtime.protocol import Health, ModelCard, Runtime
from runtime.request import GenerationRequest, Sampling
from toolspecs.tool import ShownTools


@dataclass(frozen=True, eq=False, slots=True)
class RoutedModel:
    """A model's name and runtime, and what its card says besides: see `ModelCard`."""

    model_id: str
    runtime: Runtime
    aliases: tuple[str, ...] = ()
    prompt_tools: ShownTools = ShownTools.ALL
    tool_search: int | None = None
    sampling: Sampling | None = None
    """None leaves it as the model's authors recommend."""


class ModelRouter:
    """Serves models of distinct names, each by its own runtime."""

    def __init__(self, models: Sequence[RoutedModel]) -> None:
        self._models = tuple(models)
        self._runtimes = {model.model_id: model.runtime for model in models}
        assert len(self._runtimes) == len(models), "two models of one name"

    async def start(self, grammars: GrammarCache) -> None:
        """Begin to serve."""
        for runtime in self._runtimes.values():
            await runtime.start(grammars)

    def generate(self, request: GenerationRequest) -> AsyncIterator[PromptRendered | Event]:
        """The events of the runtime that serves the model."""
        return self._of(request).generate(request)

    async def prompt_ids(self, request: GenerationRequest) -> list[int]:
        """The token ids of the prompt."""
        return await self._of(request).prompt_ids(request)

    async def health(self) -> Health:
        """Ready if one model is; the reason names those that are not. Lost if one is: a restart helps it."""
        by_model = {name: await runtime.health() for name, runtime in self._runtimes.items()}
        if len(by_model) == 1:
            return next(iter(by_model.values()))
        reasons = [f"{name}: {health.reason}" for name, health in by_model.items() if health.reason]
        return Health(
            is_ready=any(health.is_ready for health in by_model.values()),
            reason="; ".join(reasons),
            is_lost=any(health.is_lost for health in by_model.values()),
            engines=tuple(engine for health in by_model.values() for engine in health.engines),
            loads=tuple(load for health in by_model.values() for load in health.loads),
        )

    async def models(self) -> tuple[ModelCard, ...]:
        """The models of all runtimes."""
        return tuple(
            [
                replace(
                    card,
                    aliases=model.aliases,
                    prompt_tools=model.prompt_tools,
                    tool_search=model.tool_search,
                    sampling=model.sampling or card.sampling,
                )
                for model in self._models
                for card in await model.runtime.models()
            ]
        )

    async def close(self) -> None:
        """Close all runtimes."""
        await asyncio.gather(*(runtime.close() for runtime in self._runtimes.values()))

    def _of(self, request: GenerationRequest) -> Runtime:
        if request.model not in self._runtimes:
            raise UnknownModel(request.model, tuple(self._runtimes))
        return self._runtimes[request.model]
