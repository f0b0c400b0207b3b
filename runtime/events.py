"""The events of a generation: `PromptRendered`, then for each choice deltas in order and one `Finished`."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from runtime.inspection import Inspection, TokenPlace
from runtime.selection import SelectionStrategy

ClosedBy = Literal["budget", "verifier"]
"""Why the budget closer completed an output: tokens ran out, or an external engine left the grammar again
and again."""


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
    """Call number `index` of a choice begins; its name is complete."""

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
class InspectedToken:
    """A token of a choice, how it came about and where it stands; tokens come in order.

    `text` is empty for a stop token. `candidate_texts` are those of the candidates.
    """

    choice: int
    token_id: int
    text: str
    inspection: Inspection
    place: TokenPlace
    candidate_texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokenDraft:
    """A draft that left the grammar after `num_good` tokens, at `place` or next to it."""

    num_good: int
    place: TokenPlace


@dataclass(frozen=True, slots=True)
class SelectionStats:
    """How an answer was selected from `num_draws` draws, and how many tokens these cost."""

    strategy: SelectionStrategy
    num_draws: int
    """The draws that were begun."""
    is_exact: bool
    """The answer is an exact draw from the model's distribution among valid answers; or, if it was searched
    for, it is proven that none is better (for `accept`: by more than a quarter)."""
    num_computed_tokens: int | None
    """None if an engine does not report it."""
    effective_size: float | None = None
    """The effective sample size `1 / sum(share ** 2)` of an answer that was chosen by weight, if any was
    above 0. Draws that could no longer be chosen count with the weight of what was written."""
    num_written_tokens: int = 0
    """The tokens of all draws, without prompts; what several draws begin with counts once."""
    broken: tuple[BrokenDraft, ...] = ()
    """The drafts that were not used."""


@dataclass(frozen=True, slots=True)
class GenerationStats:
    """What one choice cost, with times in microseconds."""

    num_prompt_tokens: int
    num_cached_tokens: int
    num_output_tokens: int
    num_forced_tokens: int = 0
    num_rescued_tokens: int | None = None
    """Tokens at which the mask forbade the model's own first choice; None if the engine cannot tell."""
    num_masks: int = 0
    mask_fill_us_sum: float = 0.0
    mask_fill_us_max: float = 0.0
    num_masked_steps: int = 0
    """Tokens that were sampled under a mask."""
    mass_removed: float | None = None
    """The mean probability that the mask removed in these steps; None if the engine cannot tell."""
    num_thought_tokens: int = 0
    num_refused_tokens: int = 0
    """Tokens of an external engine that the grammar refused. Each was cut, with all that came after it."""
    num_computed_tokens: int = 0
    """Tokens that the model computed, including the prompt's."""
    log_weight: float | None = None
    """The natural logarithm of the answer's weight (`runtime.scheduling.weights`), if it was weighed."""
    selection: SelectionStats | None = None
    """How it was selected, if it was selected from several sequences."""


def num_rescued(stats: Iterable[GenerationStats]) -> int | None:
    """The rescued tokens of several choices together; None if one is unknown."""
    counts = [choice.num_rescued_tokens for choice in stats]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def mass_removed(stats: Iterable[GenerationStats]) -> float | None:
    """The mean probability that masks removed, over the masked steps of all choices; None if unknown."""
    removed = [(choice.mass_removed, choice.num_masked_steps) for choice in stats]
    known = [(mass, num_steps) for mass, num_steps in removed if mass is not None]
    if len(known) != len(removed):
        return None
    return sum(mass * num_steps for mass, num_steps in known) / max(1, sum(n for _, n in known))


@dataclass(frozen=True, slots=True)
class Finished:
    """A choice ended.

    `stop_string` is the one that ended the text, if one did.
    """

    choice: int
    reason: FinishReason
    stats: GenerationStats
    closed_by: ClosedBy | None = None
    stop_string: str | None = None


@dataclass(frozen=True, slots=True)
class PromptRendered:
    """The prompt has been rendered, and is about to be computed."""

    num_prompt_tokens: int


Event = TextDelta | ThoughtDelta | CallStarted | ArgumentsDelta | InspectedToken | Finished
