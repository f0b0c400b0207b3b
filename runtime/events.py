"""What a runtime answers with, in order, per choice: deltas, then one `Finished`."""

from dataclasses import dataclass
from enum import StrEnum


class FinishReason(StrEnum):
    """Why a choice ended; `length` with a closed call is still a whole, valid call."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token's text, bytes and natural-log probability under the distribution sampled from."""

    token: str
    token_bytes: bytes
    logprob: float
    top: tuple["TokenLogprob", ...] = ()


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text of a choice, never ending inside a UTF-8 character."""

    choice: int
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class ThoughtDelta:
    """More of what the model thinks before it answers, where its syntax tells that apart."""

    choice: int
    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The `index`-th call of a choice begins: its name is complete."""

    choice: int
    index: int
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """More JSON text of a call's arguments; the deltas of one call concatenate to the whole."""

    choice: int
    index: int
    text: str


@dataclass(frozen=True, slots=True)
class GenerationStats:
    """What one choice cost. Times in microseconds; `mass_removed`: mean probability masked away."""

    num_prompt_tokens: int
    num_cached_tokens: int
    num_output_tokens: int
    num_forced_tokens: int = 0
    num_rescued_tokens: int = 0
    mask_fill_us_sum: float = 0.0
    mask_fill_us_max: float = 0.0
    mass_removed: float = 0.0
    num_thought_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """A choice ended. `closed_by` is "budget" if the engine completed the call itself, else None."""

    choice: int
    reason: FinishReason
    stats: GenerationStats
    closed_by: str | None = None


Event = TextDelta | ThoughtDelta | CallStarted | ArgumentsDelta | Finished
