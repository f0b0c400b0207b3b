"""A turn when it has ended: its metrics, and its fields in the log."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from gateway.telemetry.metrics import (
    CACHED_TOKENS,
    CLOSED_BY,
    DRAFT_END,
    DRAFTS,
    ERROR,
    FILL_TIME,
    FORCED_TOKENS,
    MASKED_TOKENS,
    MASKS,
    MASS_REMOVED,
    MODEL,
    OUTPUTS,
    PROMPT_TOKENS,
    QUEUE_DURATION,
    REQUEST_DURATION,
    RESCUED_TOKENS,
    SLOWEST_FILL,
    TIME_PER_OUTPUT_TOKEN,
    TIME_TO_FIRST_TOKEN,
    TOKEN_TYPE,
    TOKEN_USAGE,
    Labels,
    Metrics,
)
from gateway.telemetry.recent_requests import TurnTotals
from runtime import events
from runtime.events import ClosedBy, Finished, GenerationStats, SelectionStats
from runtime.request import RequestTimes

PROVIDER = "callgate"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTurn:
    """A turn that was answered or has failed.

    `toolset` is the label of its toolset, if it has one. The turn began at `start`, and its first token came
    at `first_at`, both by `time.perf_counter`. `finished` has the choices that completed; token counts and
    mask statistics come from these.
    """

    model_id: str
    operation: str
    toolset: Labels
    start: float
    first_at: float | None
    end: float
    times: RequestTimes | None
    finished: Sequence[Finished]
    error: BaseException | None

    @property
    def stats(self) -> list[GenerationStats]:
        """The statistics of each choice."""
        return [finished.stats for finished in self.finished]

    @property
    def num_prompt_tokens(self) -> int:
        """Tokens of the prompt, which all choices share."""
        return max(stats.num_prompt_tokens for stats in self.stats)

    @property
    def num_output_tokens(self) -> int:
        """Tokens of all choices."""
        return sum(stats.num_output_tokens for stats in self.stats)

    @property
    def num_forced_tokens(self) -> int:
        """Tokens of all choices that the grammar forced."""
        return sum(stats.num_forced_tokens for stats in self.stats)

    @property
    def num_rescued_tokens(self) -> int | None:
        """Rescued tokens of all choices; None if the engine cannot tell."""
        return events.num_rescued(self.stats)

    @property
    def mass_removed(self) -> float | None:
        """The mean probability that masks removed per step; None if the engine cannot tell."""
        return events.mass_removed(self.stats)

    @property
    def selections(self) -> list[SelectionStats]:
        """How choices were selected from several answers."""
        return [stats.selection for stats in self.stats if stats.selection is not None]

    @property
    def num_computed_tokens(self) -> int | None:
        """Tokens that the model computed for all choices, with those of answers that were not selected.

        Those of the prompt count where they were not cached. None if the engine does not tell.
        """
        computed = [
            stats.selection.num_computed_tokens if stats.selection else stats.num_computed_tokens
            for stats in self.stats
        ]
        known = [count for count in computed if count]
        return sum(known) if len(known) == len(computed) else None

    @property
    def finish_reasons(self) -> list[str]:
        """Why each choice ended."""
        return [finished.reason.value for finished in self.finished]

    @property
    def closed_by(self) -> str | None:
        """What closed the first choice that did not end by itself; None if all ended by themselves."""
        return next((finished.closed_by for finished in self.finished if finished.closed_by), None)

    @property
    def time_to_first_token_s(self) -> float | None:
        """The time to the first token, with finding the grammar and queueing; None if no token came."""
        return None if self.first_at is None else self.first_at - self.start

    def log_values(self) -> dict[str, Any]:
        """The turn's fields in the request's log line; unknown values are None."""
        values: dict[str, Any] = {
            "model": self.model_id,
            "error": type(self.error).__qualname__ if self.error is not None else None,
        }
        if (first_s := self.time_to_first_token_s) is not None:
            values["first_token_ms"] = round(first_s * 1e3, 1)
        if self.finished:
            values |= {
                "input_tokens": self.num_prompt_tokens,
                "output_tokens": self.num_output_tokens,
                "forced_tokens": self.num_forced_tokens,
                "rescued_tokens": self.num_rescued_tokens,
                "finish_reasons": self.finish_reasons,
                "closed_by": self.closed_by,
            }
        return values

    def kept_values(self) -> dict[str, Any]:
        """The turn's values in the ring of recent requests that the log line does not have."""
        if not self.finished:
            return {}
        removed = self.mass_removed
        return {
            "mass_removed": None if removed is None else round(removed, 4),
            "cached_tokens": max(stats.num_cached_tokens for stats in self.stats),
            "computed_tokens": self.num_computed_tokens,
            "strategy": next((each.strategy for each in self.selections), None),
            "answers": sum(each.num_draws for each in self.selections)
            if self.selections
            else len(self.stats),
        }

    def add_to(self, totals: TurnTotals) -> None:
        """Add the turn to the totals."""
        totals.turns += 1
        totals.failed += self.error is not None
        if self.finished:
            totals.input_tokens += self.num_prompt_tokens
            totals.output_tokens += self.num_output_tokens
            totals.forced_tokens += self.num_forced_tokens
            if (num_rescued := self.num_rescued_tokens) is not None:
                totals.rescued_tokens = (totals.rescued_tokens or 0) + num_rescued

    def record(self, metrics: Metrics) -> None:
        """Record how long the turn took, and what it computed."""
        own: dict[str, str | int] = {MODEL: self.model_id, **self.toolset}
        labels = {"gen_ai.operation.name": self.operation, "gen_ai.provider.name": PROVIDER, **own}
        failed = {ERROR: type(self.error).__qualname__} if self.error is not None else {}
        metrics.record(REQUEST_DURATION, self.end - self.start, labels | failed)
        if (first_s := self.time_to_first_token_s) is not None:
            metrics.record(TIME_TO_FIRST_TOKEN, first_s, labels)
        if self.finished:
            self._record_tokens(metrics, labels)
            self._record_outputs(metrics, own)
            self._record_masks(metrics, own)
            self._record_drafts(metrics, own)
            self._record_queue(metrics, own)

    def _record_tokens(self, metrics: Metrics, labels: Labels) -> None:
        metrics.record(TOKEN_USAGE, self.num_prompt_tokens, {**labels, TOKEN_TYPE: "input"})
        metrics.record(TOKEN_USAGE, self.num_output_tokens, {**labels, TOKEN_TYPE: "output"})
        longest = max(choice.num_output_tokens for choice in self.stats)
        if self.first_at is not None and longest > 1:
            metrics.record(TIME_PER_OUTPUT_TOKEN, (self.end - self.first_at) / (longest - 1), labels)

    def _record_outputs(self, metrics: Metrics, labels: Labels) -> None:
        closers = Counter(finished.closed_by for finished in self.finished)
        for closer in (None, *get_args(ClosedBy)):
            metrics.add(OUTPUTS, closers[closer], {**labels, CLOSED_BY: closer or "none"})

    def _record_masks(self, metrics: Metrics, labels: Labels) -> None:
        """Record what masks cost and changed, as far as the engine reports it."""
        stats = self.stats
        metrics.add(PROMPT_TOKENS, sum(choice.num_prompt_tokens for choice in stats), labels)
        metrics.add(FORCED_TOKENS, self.num_forced_tokens, labels)
        if num_cached := sum(choice.num_cached_tokens for choice in stats):
            metrics.add(CACHED_TOKENS, num_cached, labels)
        if num_masked := sum(choice.num_masked_steps for choice in stats):
            metrics.add(MASKED_TOKENS, num_masked, labels)
        if (num_rescued := self.num_rescued_tokens) is not None:
            metrics.add(RESCUED_TOKENS, num_rescued, labels)
        if num_masks := sum(choice.num_masks for choice in stats):
            metrics.add(MASKS, num_masks, labels)
            metrics.add(FILL_TIME, sum(choice.mask_fill_us_sum for choice in stats) / 1e6, labels)
            metrics.record(SLOWEST_FILL, max(choice.mask_fill_us_max for choice in stats) / 1e6, labels)
        removed = self.mass_removed
        if removed is not None and any(choice.num_masked_steps for choice in stats):
            metrics.record(MASS_REMOVED, removed, labels)

    def _record_drafts(self, metrics: Metrics, labels: Labels) -> None:
        """Record the outcomes of drafts, if there were any."""
        for selection in (choice.selection for choice in self.stats if choice.selection is not None):
            ends = [draft.place.part for draft in selection.broken]
            for end in (*ends, "taken") if selection.is_exact else ends:
                metrics.add(DRAFTS, 1, {**labels, DRAFT_END: end})

    def _record_queue(self, metrics: Metrics, labels: Labels) -> None:
        times = self.times
        if times and times.queued_ns is not None and times.prefill_ns is not None:
            metrics.record(QUEUE_DURATION, (times.prefill_ns - times.queued_ns) / 1e9, labels)
