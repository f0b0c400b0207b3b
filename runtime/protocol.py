"""The protocol the gateway drives, whatever engine stands behind it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from compiler.vocabulary import Vocabulary
from runtime.events import Event
from runtime.request import GenerationRequest


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A served model: its vocabulary and call syntax are what grammars are compiled for."""

    model_id: str
    vocabulary: Vocabulary
    syntax: str
    context_length: int


@dataclass(frozen=True, slots=True)
class Health:
    """Whether requests can be served, and if not, why; `is_lost`: nor will they be, by this process."""

    is_ready: bool
    reason: str = ""
    is_lost: bool = False
    num_running: int = 0
    num_waiting: int = 0


class Runtime(Protocol):
    """An engine that generates. Errors are those of runtime/errors.py."""

    def generate(self, request: GenerationRequest) -> AsyncIterator[Event]:
        """Events of all choices, interleaved; closing the iterator early aborts the request."""

    async def abort(self, request_id: str) -> None:
        """Stop generating for a request; unknown ids are ignored."""

    async def health(self) -> Health:
        """The state right now."""

    async def models(self) -> tuple[ModelCard, ...]:
        """The models served."""

    async def close(self) -> None:
        """Stop; running requests end with `GenerationFailed`."""
