"""A sequence: one prompt and what the engine has written after it."""

import hashlib
import math
from array import array
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from compiler.closing.closer import Closer
from compiler.matcher import Matcher
from runtime.events import FinishReason, GenerationStats
from runtime.request import Sampling


class State(Enum):
    """Where a sequence is in its life."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(slots=True)
class Tally:
    """What one sequence has cost so far; see `GenerationStats`."""

    num_cached: int = 0
    num_forced: int = 0
    num_rescued: int = 0
    fill_us_sum: float = 0.0
    fill_us_max: float = 0.0
    num_masked_steps: int = 0
    mass_removed_sum: float = 0.0

    def count_fill(self, microseconds: float) -> None:
        """A mask was filled."""
        self.fill_us_sum += microseconds
        self.fill_us_max = max(self.fill_us_max, microseconds)

    def count_masked_step(self, mass_removed: float, *, is_rescued: bool) -> None:
        """A token was drawn under a mask."""
        self.num_masked_steps += 1
        self.mass_removed_sum += mass_removed
        self.num_rescued += is_rescued


@dataclass(eq=False, slots=True)
class Sequence:
    """Token ids of a prompt and its output, where their keys and values lie, and how to go on.

    The first `num_computed` ids have keys and values in the pages of `page_table`; the rest is pending.
    `deadline` is a time of `time.monotonic`.
    """

    sequence_id: str
    prompt_ids: list[int]
    max_tokens: int
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    choice: int = 0
    matcher: Matcher | None = None
    closer: Closer | None = None
    num_logprobs: int | None = None
    deadline: float = math.inf

    state: State = State.WAITING
    finish_reason: FinishReason | None = None
    closed_by: str | None = None
    token_ids: list[int] = field(init=False)
    has_run: bool = False
    num_computed: int = 0
    num_published: int = 0
    page_table: list[int] = field(default_factory=list)
    mask: NDArray[np.int32] | None = None  # what may come next, once it is known
    tally: Tally = field(default_factory=Tally)
    _page_hashes: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start with the prompt."""
        assert self.prompt_ids, "an empty prompt gives no logits"
        self.token_ids = list(self.prompt_ids)

    @property
    def output_ids(self) -> list[int]:
        """The ids after the prompt."""
        return self.token_ids[len(self.prompt_ids) :]

    @property
    def num_output(self) -> int:
        """Number of ids after the prompt."""
        return len(self.token_ids) - len(self.prompt_ids)

    @property
    def num_pending(self) -> int:
        """Number of ids without keys and values."""
        return len(self.token_ids) - self.num_computed

    @property
    def remaining(self) -> int:
        """How many more ids the budget allows."""
        return self.max_tokens - self.num_output

    @property
    def stats(self) -> GenerationStats:
        """The account of this sequence."""
        tally = self.tally
        return GenerationStats(
            num_prompt_tokens=len(self.prompt_ids),
            # Cached pages may reach beyond the prompt, into what the grammar forces behind it.
            num_cached_tokens=min(tally.num_cached, len(self.prompt_ids)),
            num_output_tokens=self.num_output,
            num_forced_tokens=tally.num_forced,
            num_rescued_tokens=tally.num_rescued,
            mask_fill_us_sum=tally.fill_us_sum,
            mask_fill_us_max=tally.fill_us_max,
            mass_removed=tally.mass_removed_sum / max(1, tally.num_masked_steps),
        )

    def page_hashes(self, page_size: int) -> list[bytes]:
        """One digest per full page; each covers everything before it, so equal digests are equal prefixes."""
        hashes = self._page_hashes
        for start in range(len(hashes) * page_size, len(self.token_ids) - page_size + 1, page_size):
            content = hashlib.blake2b(hashes[-1] if hashes else b"", digest_size=16)
            content.update(array("q", self.token_ids[start : start + page_size]).tobytes())
            hashes.append(content.digest())
        return hashes

    def finish(self, reason: FinishReason) -> None:
        """Nothing follows."""
        self.state = State.FINISHED
        self.finish_reason = reason
