"""The events of a generation: `PromptRead`, then for each choice deltas in order and one `Finished`."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from runtime.inspection import Inspection, TokenPlace
from runtime.selection import SelectionStrategy


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
    """How an answer was selected, from `num_sequences`, and how many tokens were computed for all of them.

    `is_exact` says that the answer is an exact draw from the model's distribution among valid answers. If it
    was chosen by weight, `effective_size` is the effective sample size `1 / sum(share ** 2)` of the weights;
    otherwise, or if all weights are zero, it is None. `num_computed_tokens` is None if an engine does not
    report it. `num_written_tokens` counts the tokens of all sequences, without prompts. `broken` are the
    drafts that were not used.
    """

    strategy: SelectionStrategy
    num_sequences: int
    is_exact: bool
    num_computed_tokens: int | None
    effective_size: float | None = None
    num_written_tokens: int = 0
    broken: tuple[BrokenDraft, ...] = ()


@dataclass(frozen=True, slots=True)
class GenerationStats:
    """What one choice cost, with times in microseconds.

    `num_masked_steps` counts the tokens that were sampled under a mask. In `num_rescued_tokens` of these
    steps the mask forbade the model's most probable token, and `mass_removed` is the mean probability that it
    removed. Both are None where the engine cannot tell. `num_masks` masks were filled. `num_refused_tokens`
    counts the tokens of another engine that the grammar refused: each was cut, with what the engine wrote
    after it.
    `num_computed_tokens` counts the tokens that the model computed, those of the prompt included.
    `log_weight` is the natural logarithm of the answer's weight (`runtime.weights`), None if it was not
    weighed. `selection` is None if it was not selected from several sequences.
    """

    num_prompt_tokens: int
    num_cached_tokens: int
    num_output_tokens: int
    num_forced_tokens: int = 0
    num_rescued_tokens: int | None = None
    num_masks: int = 0
    mask_fill_us_sum: float = 0.0
    mask_fill_us_max: float = 0.0
    num_masked_steps: int = 0
    mass_removed: float | None = None
    num_thought_tokens: int = 0
    num_refused_tokens: int = 0
    num_computed_tokens: int = 0
    log_weight: float | None = None
    selection: SelectionStats | None = None


def num_rescued(stats: Iterable[GenerationStats]) -> int | None:
    """The rescued tokens of several choices together; None if one is unknown."""
    counts = [one.num_rescued_tokens for one in stats]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def mass_removed(stats: Iterable[GenerationStats]) -> float | None:
    """The mean probability that masks removed, over the masked steps of all choices; None if unknown."""
    found = [(one.mass_removed, one.num_masked_steps) for one in stats]
    known = [(mass, num_steps) for mass, num_steps in found if mass is not None]
    if len(known) != len(found):
        return None
    return sum(mass * num_steps for mass, num_steps in known) / max(1, sum(n for _, n in known))


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
    """The prompt has been rendered and has `num_tokens` tokens; nothing is computed yet."""

    num_prompt_tokens: int


Event = TextDelta | ThoughtDelta | CallStarted | ArgumentsDelta | InspectedToken | Finished
