"""The events of a generation: `PromptRead`, then for each choice deltas in order and one `Finished`."""

from dataclasses import dataclass
from enum import StrEnum


class FinishReason(StrEnum):
    """Why a choice ended. A call that the budget closer completed is valid, and ends in `length`."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token's text, bytes and natural log probability in the masked distribution.

    `top` has the most probable tokens at this position.
    """

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
    """More of what the model thinks before it answers, if its call syntax marks thoughts."""

    choice: int
    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The call number `index` of a choice begins. Its name is complete."""

    choice: int
    index: int
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """More JSON text of a call's arguments; the deltas of one call, concatenated, are all of it."""

    choice: int
    index: int
    text: str


@dataclass(frozen=True, slots=True)
class GenerationStats:
    """What one choice cost, with times in microseconds.

    `num_rescued_tokens` counts the steps in which the mask forbade the model's most probable token.
    `mass_removed` is the mean probability that the masks removed per step. `num_refused_tokens` counts the
    tokens of another engine that the grammar refused: each was cut, with what the engine wrote behind it.
    `num_computed_tokens` counts the tokens that the model computed, those of the prompt included.
    `log_weight` is the natural logarithm of the answer's weight (`runtime.weights`), None if it was not
    weighed.
    """

    num_prompt_tokens: int
    num_cached_tokens: int
    num_output_tokens: int
    num_forced_tokens: int = 0
    num_rescued_tokens: int = 0
    mask_fill_us_sum: float = 0.0
    mask_fill_us_max: float = 0.0
    mass_removed: float = 0.0
    num_thought_tokens: int = 0
    num_refused_tokens: int = 0
    num_computed_tokens: int = 0
    log_weight: float | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """A choice ended.

    `closed_by` is "budget" if the engine completed the call itself, else None. `stop_string` is the one that
    ended the text, if one did.
    """

    choice: int
    reason: FinishReason
    stats: GenerationStats
    closed_by: str | None = None
    stop_string: str | None = None


@dataclass(frozen=True, slots=True)
class PromptRead:
    """The prompt is made of the messages and has so many tokens; nothing is computed yet."""

    num_prompt_tokens: int


Event = TextDelta | ThoughtDelta | CallStarted | ArgumentsDelta | Finished
