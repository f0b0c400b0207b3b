"""A sequence: one prompt, and the output that the engine has generated after it so far.

A population is several sequences of one choice, of which one becomes its answer. The base class is here, as
it and its sequences refer to each other; its kinds are in `runtime.decoding.population`.
"""

import hashlib
import math
from abc import ABC, abstractmethod
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from compiler.closing.closer import Closer
from compiler.matcher import Matcher
from runtime.events import ClosedBy, FinishReason, GenerationStats, SelectionStats
from runtime.jump_forward import ForcedToken
from runtime.request import RequestTimes, Sampling
from runtime.scheduling.token_counts import TokenCounts
from runtime.scheduling.weights import Weight
from runtime.selection import SelectionStrategy
from runtime.written_token import SampledStep, SampledToken, WrittenToken


class SequenceStatus(Enum):
    """Whether a sequence waits for pages, has them, or is done.

    A parked sequence waits for its population to resume it, and needs no pages. A member of a population that
    has failed cannot become the answer.
    """

    WAITING = "waiting"
    PARKED = "parked"
    RUNNING = "running"
    FAILED = "failed"
    FINISHED = "finished"


@dataclass(slots=True)
class SequenceCounters:
    """Counts what one sequence has cost so far; see `GenerationStats`."""

    num_cached: int = 0
    num_computed: int = 0
    num_forced: int = 0
    num_rescued: int = 0
    num_masks: int = 0
    fill_us_sum: float = 0.0
    fill_us_max: float = 0.0
    num_masked_steps: int = 0
    mass_removed_sum: float = 0.0

    def count_fill(self, microseconds: float) -> None:
        """Count one mask and the time it took to fill."""
        self.num_masks += 1
        self.fill_us_sum += microseconds
        self.fill_us_max = max(self.fill_us_max, microseconds)

    def count_masked_step(self, step: SampledStep) -> None:
        """Count one token that was sampled under a mask and is written."""
        self.num_masked_steps += 1
        self.mass_removed_sum += step.mass_removed
        self.num_rescued += step.is_rescued


@dataclass(slots=True)
class GrammarTime:
    """The processor time that the grammar of one sequence has taken (`runtime.scheduling.slow_grammars`)."""

    next_s: float = 0.0
    """The time for its next token so far."""
    last_slow_s: float = 0.0
    """The time of its last token if that was slow, else 0."""
    all_slow_s: float = 0.0
    """The time of all its slow tokens."""
    num_waits: int = 0
    """How many steps in a row the sequence has waited because others took long."""


@dataclass(eq=False, slots=True)
class Sequence:
    """The token ids of a prompt and its output, the pages of their keys and values, and how to sample.

    The first fields come with the request; the engine writes all others.
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
    is_inspected: bool = False
    deadline: float = math.inf
    """A time of `time.monotonic`."""
    client_id: str = ""
    """Whose sequence it is (`runtime.scheduling.client_shares`)."""
    prefix_salt: str = ""
    """Only sequences with the same salt share pages."""
    min_tokens: int = 0
    stop_token_ids: frozenset[int] = frozenset()
    """Applies only without a matcher, and so does `min_tokens`."""
    weight: Weight | None = None
    """If it is not None, every forced token is computed too, and a stop token is always sampled."""
    times: RequestTimes = field(default_factory=RequestTimes)
    """Shared by all choices of the request."""
    population: "Population | None" = None
    """The sequences of the same choice, if there are several."""
    other_seeds: tuple[int, ...] = ()
    """The seeds of other draws of its population that have written the same tokens so far."""
    num_runners_up: int = 0
    """How many of the most probable other tokens of each step its population wants."""
    next_jump: int = 0
    """Forced tokens are not looked for before the output has this many tokens."""

    status: SequenceStatus = SequenceStatus.WAITING
    finish_reason: FinishReason | None = None
    num_copied: int = 0
    """How many of its output's ids it was copied with: another sequence wrote them."""
    closed_by: ClosedBy | None = None
    """`budget` once the budget closer completes the output."""
    token_ids: list[int] = field(init=False)
    """The prompt and the output. The first `num_computed` have keys and values, the others are pending."""
    num_computed: int = 0
    page_table: list[int] = field(default_factory=list)
    """The pages of the computed ids."""
    has_run: bool = False
    is_held: bool = False
    """It waits for the others of its population. It keeps its pages until another sequence needs them."""
    num_charged: int = 0
    """How many of its first ids have been charged to its client."""
    last_turn: int = 0
    """The number of its last step beside other clients (`runtime.scheduling.client_shares`)."""
    mask: NDArray[np.int32] | None = None
    """The mask of the next token, once it is filled."""
    forced: Iterator[ForcedToken] | None = None
    """Tokens that the next steps write without the model."""
    token_counts: TokenCounts | None = None
    """The counts of its tokens, once a penalty needs them."""
    grammar_time: GrammarTime = field(default_factory=GrammarTime)
    is_too_slow: bool = False
    """One of its masks took too long, and a thread still uses its matcher."""
    counters: SequenceCounters = field(default_factory=SequenceCounters)
    selection: SelectionStats | None = None
    """How it was selected from its population, once it is."""
    _page_digests: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert self.prompt_ids, "an empty prompt gives no logits"
        self.token_ids = list(self.prompt_ids)

    @property
    def first(self) -> "Sequence":
        """The sequence that its choice began with: itself, if it is the only one."""
        return self if self.population is None else self.population.first

    @property
    def num_together(self) -> int:
        """How many sequences its choice has at once, for the limits of a client."""
        return 1 if self.population is None else self.population.num_together

    @property
    def output_ids(self) -> list[int]:
        """The ids after the prompt."""
        return self.token_ids[len(self.prompt_ids) :]

    @property
    def num_output(self) -> int:
        """The number of ids after the prompt."""
        return len(self.token_ids) - len(self.prompt_ids)

    @property
    def num_written(self) -> int:
        """The number of ids that it has written itself."""
        return self.num_output - self.num_copied

    @property
    def num_pending(self) -> int:
        """The number of ids without keys and values."""
        return len(self.token_ids) - self.num_computed

    @property
    def num_due(self) -> int:
        """The number of ids that the next steps compute.

        While tokens are forced, the last pending id is left out, since nothing is sampled from its logits.
        """
        if self.closed_by is not None or self.is_held:
            return 0
        return self.num_pending - (self.forced is not None)

    @property
    def remaining(self) -> int:
        """How many more ids the budget allows."""
        return self.max_tokens - self.num_output

    @property
    def stats(self) -> GenerationStats:
        """The counters, as they are reported with the last event."""
        counters = self.counters
        return GenerationStats(
            num_prompt_tokens=len(self.prompt_ids),
            # Cached pages may also hold tokens that the grammar forces after the prompt.
            num_cached_tokens=min(counters.num_cached, len(self.prompt_ids)),
            num_output_tokens=self.num_output,
            num_computed_tokens=counters.num_computed,
            num_forced_tokens=counters.num_forced,
            num_rescued_tokens=counters.num_rescued,
            num_masks=counters.num_masks,
            mask_fill_us_sum=counters.fill_us_sum,
            mask_fill_us_max=counters.fill_us_max,
            num_masked_steps=counters.num_masked_steps,
            mass_removed=counters.mass_removed_sum / max(1, counters.num_masked_steps),
            log_weight=None if self.weight is None else self.weight.log_product,
            selection=self.selection,
        )

    def page_digests(self, page_size: int) -> list[bytes]:
        """One digest per full page, of all tokens up to its end: equal digests mean equal prefixes.

        Sequences with different salts have different digests, so they do not find each other's pages.
        """
        digests = self._page_digests
        for start in range(len(digests) * page_size, len(self.token_ids) - page_size + 1, page_size):
            before = digests[-1] if digests else self.prefix_salt.encode()
            content = hashlib.blake2b(before, digest_size=16)
            content.update(array("q", self.token_ids[start : start + page_size]).tobytes())
            digests.append(content.digest())
        return digests

    def fork(self, seed: int) -> "Sequence":
        """A copy that continues with another seed; it has no pages yet, but finds those of equal content."""
        twin = copy(self)
        twin.seed = seed
        twin.num_copied = self.num_output
        twin.token_ids = list(self.token_ids)
        if self.matcher is not None and not self.is_too_slow:  # else neither of them goes on
            twin.matcher = self.matcher.fork()
        twin.closer = None if self.closer is None else self.closer.fork()
        twin.weight = None if self.weight is None else self.weight.copy()
        twin.grammar_time = replace(self.grammar_time)
        twin.counters = replace(self.counters, num_computed=0)
        twin.page_table = []
        twin.num_computed = 0
        twin.forced = None
        twin.token_counts = None
        twin._page_digests = list(self._page_digests)  # noqa: SLF001 - of its own class
        return twin

    def release(self) -> None:
        """Let go of what takes memory, once the sequence is done and read.

        It and its population refer to each other, so Python frees them late.
        """
        self.matcher = self.closer = self.mask = self.token_counts = self.forced = None

    def finish(self, reason: FinishReason) -> None:
        """Mark the sequence as done."""
        self.status = SequenceStatus.FINISHED
        self.finish_reason = reason


class PopulationHost(Protocol):
    """What a population asks of its engine (`runtime.decoding.engine_populations`)."""

    def start(self, sequence: Sequence) -> None:
        """Queue a new sequence of a choice that was admitted."""

    def park(self, sequence: Sequence) -> None:
        """Take a sequence's place and pages, until it is resumed."""

    def resume(self, sequence: Sequence) -> None:
        """Queue a parked sequence again."""

    def resume_with(self, sequence: Sequence, token: SampledToken) -> None:
        """Queue a parked sequence again, and write a token that it could have sampled."""

    def copy(self, sequence: Sequence, seed: int) -> Sequence:
        """Begin a copy of a member, with another seed."""

    def set_aside(self, sequence: Sequence, seed: int) -> Sequence:
        """Copy a member, with another seed; the copy is parked."""

    def drop(self, sequence: Sequence) -> None:
        """End a sequence that no longer takes part."""


class Population(ABC):
    """The sequences of one choice. The engine calls `advance` after each step that has extended one of them.

    Decisions depend on the seed and the members' tokens. Only where members are written one after another,
    and this stops early, they also depend on the time, and on how much was written before.
    `is_over` is true once a member is selected or the choice has ended without an answer, and `has_output`
    once the engine has put out the answer or the error.
    """

    strategy: SelectionStrategy
    num_together = 1
    """How many members draw at the same time."""

    def __init__(self, first: Sequence) -> None:
        self.first = first
        self.members = [first]
        self.is_over = self.has_output = False
        self._num_dropped_computed = self._num_dropped_written = 0
        """Tokens of former members."""
        self._written: defaultdict[Sequence, list[WrittenToken]] = defaultdict(list)

    def end_early(self) -> bool:
        """Note that there is no more time; returns whether `advance` selects a whole output then."""
        return False

    def do_without(self, failed: Sequence) -> bool:  # noqa: ARG002 - others may need it
        """Note that a member has failed; returns whether `advance` selects or writes another one."""
        return self.end_early()

    @abstractmethod
    def advance(self, host: PopulationHost) -> Sequence | None:
        """Start, park or resume members; returns the selected member once there is one. It is finished."""

    def hold(self, sequence: Sequence, tokens: Iterable[WrittenToken]) -> None:
        """Hold back tokens that a member has written."""
        self._written[sequence] += tokens

    def written(self, sequence: Sequence) -> tuple[WrittenToken, ...]:
        """All that a member has written."""
        return tuple(self._written[sequence])

    def before_token(  # noqa: B027 - most populations need nothing
        self, sequence: Sequence, token: SampledToken, host: PopulationHost
    ) -> None:
        """Called when a member has sampled a token, before that is written."""

    def _add_copy(self, twin: Sequence, sequence: Sequence) -> None:
        """Add a copy of a member, which has written what that has written."""
        self.members.append(twin)
        self._written[twin] = list(self._written[sequence])

    def _select(
        self,
        sequence: Sequence,
        num_draws: int,
        *,
        is_exact: bool = False,
        effective_size: float | None = None,
    ) -> Sequence:
        self.is_over = True
        members = dict.fromkeys(self.members)
        sequence.selection = SelectionStats(
            strategy=self.strategy,
            num_draws=num_draws,
            is_exact=is_exact,
            num_computed_tokens=self._num_dropped_computed + sum(m.counters.num_computed for m in members),
            effective_size=effective_size,
            num_written_tokens=self._num_dropped_written + sum(m.num_written for m in members),
        )
        return sequence
