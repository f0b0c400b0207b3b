"""A runtime that plays a script, and remembers what it was asked for."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from compiler.prepared_vocabulary import prepare
from compiler.vocabulary import Vocabulary
from runtime.events import (
    ArgumentsDelta,
    CallStarted,
    Event,
    Finished,
    FinishReason,
    GenerationStats,
    TextDelta,
)
from runtime.protocol import Circuit, EngineLoad, Health, ModelCard, ReplicaState
from runtime.request import GenerationRequest

STATS = GenerationStats(
    num_prompt_tokens=11,
    num_cached_tokens=4,
    num_output_tokens=7,
    num_forced_tokens=3,
    num_rescued_tokens=2,
    num_masks=4,
    mask_fill_us_sum=70.0,
    mask_fill_us_max=20.0,
    num_masked_steps=4,
    mass_removed=0.25,
)


LOAD = EngineLoad(
    model_id="tiny",
    num_running=3,
    num_waiting=2,
    num_pages=64,
    num_free_pages=40,
    num_steps=10,
    num_stepped_sequences=25,
    num_preempted=1,
)
ELSEWHERE = ReplicaState(
    model_id="big",
    name="vllm:8000",
    circuit=Circuit.OPEN,
    reason="cannot be reached",
    version="0.32.0",
    num_running=4,
    num_served=7,
    num_failed=2,
    num_refused_tokens=5,
    num_expected_refusals=2,
    canary_age_s=12.54,
)
"""What a runtime tells of an engine here, and of one elsewhere."""


def text(*pieces: str, choice: int = 0, **numbers: Any) -> list[Event]:
    """A choice of text; `numbers` are those of `STATS` that it has otherwise."""
    end = Finished(choice, FinishReason.STOP, replace(STATS, **numbers))
    return [*(TextDelta(choice, piece) for piece in pieces), end]


def call(
    name: str, *pieces: str, choice: int = 0, closed_by: str | None = None, **numbers: Any
) -> list[Event]:
    """A choice of one call; `numbers` are those of `STATS` that it has otherwise."""
    reason = FinishReason.LENGTH if closed_by else FinishReason.TOOL_CALLS
    return [
        CallStarted(choice, 0, name),
        *(ArgumentsDelta(choice, 0, piece) for piece in pieces),
        Finished(choice, reason, replace(STATS, **numbers), closed_by=closed_by),
    ]


@dataclass
class FakeRuntime:
    """Plays `script`: events, errors to raise, or numbers of seconds to wait. `steps` are told at its beginning."""

    script: Sequence[Event | Exception | float] = field(default_factory=lambda: text("Hello."))
    health_now: Health = field(default_factory=lambda: Health(is_ready=True))
    requests: list[GenerationRequest] = field(default_factory=list)
    num_aborted: int = 0
    is_closed: bool = False
    steps: Sequence[str] = ()
    card: ModelCard = field(
        default_factory=lambda: ModelCard(
            "tiny", prepare(Vocabulary.of_bytes()), "hermes", context_length=512
        )
    )

    async def start(self, grammars) -> None:
        """It plays a script, whatever the grammars are."""

    async def generate(self, request: GenerationRequest) -> AsyncIterator[Event]:
        self.requests.append(request)
        is_whole = False
        for step in self.steps:
            getattr(request.times, step)()
        try:
            for step in self.script:
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, int | float):
                    await asyncio.sleep(step)
                else:
                    yield step
            is_whole = True
        finally:
            self.num_aborted += not is_whole

    async def prompt_ids(self, request: GenerationRequest) -> list[int]:
        self.requests.append(request)
        return list(range(STATS.num_prompt_tokens))

    async def health(self) -> Health:
        return self.health_now

    async def models(self) -> tuple[ModelCard, ...]:
        return (self.card,)

    async def close(self) -> None:
        self.is_closed = True
