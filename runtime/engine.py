"""The engine: schedule, run, mask, sample, postprocess. Token ids only."""

import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from compiler.closing.closer import Closer
from compiler.vocabulary import Vocabulary
from runtime.errors import BudgetTooSmall, DeadlineExceeded, GenerationFailed, PromptTooLong, RuntimeFault
from runtime.events import FinishReason
from runtime.forward.attention import KVCache
from runtime.jump_forward import JumpForward
from runtime.masks import TokenMasks
from runtime.memory import is_out_of_memory
from runtime.page_pool import PagePool
from runtime.sampling import Draw, WrittenToken, adjust, certain, sample
from runtime.scheduler import Batch, Scheduler
from runtime.sequence import Sequence, State
from runtime.settings import EngineSettings

logger = logging.getLogger(__name__)


class Runner(Protocol):
    """What turns a batch into logits; `ModelRunner` is one."""

    cache: KVCache
    num_columns: int
    is_async: bool  # whether `run` may return before the logits are computed

    def run(self, batch: Batch) -> Tensor:
        """Float32 logits [len(batch.sampled), num_columns]."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a step added to a sequence, and whether that was the last."""

    sequence: Sequence
    tokens: tuple[WrittenToken, ...] = ()
    error: RuntimeFault | None = None
    is_last: bool = field(init=False)

    def __post_init__(self) -> None:
        """Note how the sequence is now; it may go on before anyone reads this."""
        object.__setattr__(self, "is_last", self.sequence.state is State.FINISHED)


class Engine:
    """Generates for all its sequences at once, one step at a time. Not thread-safe.

    Without `jump_forward` every token is drawn, forced ones too.
    """

    def __init__(
        self,
        runner: Runner,
        vocabulary: Vocabulary,
        settings: EngineSettings,
        *,
        context_length: int,
        jump_forward: JumpForward | None = None,
    ) -> None:
        self.runner = runner
        self.jump_forward = jump_forward
        self.stop_ids = frozenset(vocabulary.stop_ids)
        self.pool = PagePool(runner.cache.num_pages, runner.cache.page_size)
        self.scheduler = Scheduler(settings, self.pool)
        self.masks = TokenMasks(vocabulary, runner.num_columns)
        # A sequence that runs alone must fit, or it could never finish.
        self.context_length = min(context_length, self.pool.num_usable * self.pool.page_size)
        self._ready: list[Output] = []
        self._next_deadline = math.inf

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self.scheduler.running or self.scheduler.waiting or self._ready)

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence; its budget is cut down to what the context leaves.

        What is forced behind the prompt goes through the model with it.

        Raises:
            PromptTooLong: the context has no room after the prompt.
            BudgetTooSmall: the budget is below the shortest valid output.
            Overloaded: the queue is full.
        """
        room = self.context_length - len(sequence.prompt_ids)
        if room < 1:
            raise PromptTooLong(len(sequence.prompt_ids), self.context_length)
        sequence.max_tokens = min(sequence.max_tokens, room)
        if sequence.closer is not None and not sequence.closer.fits(sequence.max_tokens):
            raise BudgetTooSmall(sequence.max_tokens, sequence.closer.minimum())
        self.scheduler.add(sequence)
        self._next_deadline = min(self._next_deadline, sequence.deadline)
        if tokens := self._jump(sequence):
            self._settle(sequence)
            self._ready.append(Output(sequence, tokens))

    def stop(self, sequence: Sequence, reason: FinishReason = FinishReason.STOP) -> None:
        """End a sequence from outside, and free its pages."""
        if sequence.state is not State.FINISHED:
            self.scheduler.remove(sequence)
            sequence.finish(reason)

    @torch.inference_mode()
    def step(self, meanwhile: Callable[[], None] = lambda: None) -> list[Output]:
        """Advance every scheduled sequence; returns what was added to each, at most one output for each.

        What was forced behind a prompt comes out at once, before the prompt is computed. `meanwhile` is
        called when the model's work has been launched, and a device does it at the same time; it may stop
        sequences.
        """
        if not self._ready:
            self._expire()
        if self._ready:
            return self._take_ready()
        batch = self.scheduler.schedule()
        draws = self._compute(batch, meanwhile)
        if draws is None:
            return self._take_ready()
        return self._postprocess(batch, draws)

    def check_integrity(self) -> None:
        """Assert that no page is lost or shared by mistake."""
        self.pool.check_integrity(sequence.page_table for sequence in self.scheduler)

    def _expire(self) -> None:
        """End the sequences whose time is over, whether they run or wait."""
        now = time.monotonic()
        if now < self._next_deadline:
            return
        for sequence in [sequence for sequence in self.scheduler if sequence.deadline <= now]:
            self.stop(sequence)
            self._ready.append(Output(sequence, error=DeadlineExceeded()))
        self._next_deadline = min((sequence.deadline for sequence in self.scheduler), default=math.inf)

    def _compute(self, batch: Batch, meanwhile: Callable[[], None]) -> list[Draw | None] | None:
        """A draw for every sequence sampled; None if there is nothing to compute or no memory for it."""
        if not batch.chunks:
            return None
        try:
            logits = self.runner.run(batch)
            meanwhile()
            if self.runner.is_async:
                for sequence in batch.sampled:
                    self.masks.fill(sequence)
            return self._draw(logits, batch.sampled) if batch.sampled else []
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            self._retreat(batch)
            return None

    def _retreat(self, batch: Batch) -> None:
        """Undo a step that did not fit; a sequence that was alone in it can only fail, unless stopped."""
        undone = self.scheduler.retreat(batch)
        if undone and len(batch.chunks) == 1:
            self._ready.append(self._fail(undone[0], "not enough memory for one sequence"))

    def _draw(self, logits: Tensor, sequences: list[Sequence]) -> list[Draw | None]:
        """Mask and sample. A device is first waited for in `sample`, with the masks filled meanwhile."""
        adjust(logits, sequences)
        masked = self.masks.apply(logits, sequences)
        draws = sample(masked.probabilities, sequences)
        if faint := self.masks.tally(masked, sequences):
            again = [sequences[row] for row in faint]
            for row, draw in zip(faint, sample(self.masks.restore(logits[faint], again), again), strict=True):
                draws[row] = draw
        return draws

    def _postprocess(self, batch: Batch, draws: list[Draw | None]) -> list[Output]:
        """Extend what was sampled, but for what was stopped meanwhile."""
        for chunk in batch.chunks:
            if chunk.sequence.state is State.RUNNING:
                chunk.sequence.num_computed = chunk.end
        drawn = zip(batch.sampled, draws, strict=True)
        return [self._extend(*pair) for pair in drawn if pair[0].state is State.RUNNING]

    def _extend(self, sequence: Sequence, draw: Draw | None) -> Output:
        """Add the token to its sequence, and end the sequence where nothing may follow."""
        if draw is None:
            return self._fail(sequence, "the model's logits are not numbers, or no token is allowed")
        try:
            return self._take(sequence, draw)
        except Exception as error:  # a matcher or closer that fails takes its own sequence along, no other
            logger.exception("sequence %s", sequence.sequence_id)
            return self._fail(sequence, f"{type(error).__name__}: {error}")

    def _take(self, sequence: Sequence, draw: Draw) -> Output:
        if sequence.closer is not None and not sequence.closer.admits(draw.token_id, sequence.remaining):
            return self._close(sequence, sequence.closer, draw.token_id)
        token = self._append(sequence, draw)
        forced = self._jump(sequence) if draw.token_id not in self.stop_ids else ()
        self._settle(sequence)
        return Output(sequence, (token, *forced))

    def _jump(self, sequence: Sequence) -> tuple[WrittenToken, ...]:
        """Append what must follow."""
        forced = tuple(self._forced(sequence))
        sequence.tally.num_forced += len(forced)
        return forced

    def _forced(self, sequence: Sequence) -> Iterator[WrittenToken]:
        """Append and yield what is forced, up to where other text may begin, or the budget has a say."""
        if self.jump_forward is None or sequence.matcher is None:
            return
        while (spelled := self.jump_forward.spelled(sequence.matcher.forced_text())).ids:
            for token_id, beginnings in zip(spelled.ids, spelled.beginnings, strict=True):
                is_open = beginnings is not None and not self.masks.allows_only(sequence, beginnings)
                if is_open or not self._admits(sequence, token_id):
                    return
                yield self._append(sequence, certain(token_id, sequence.num_logprobs))

    def _admits(self, sequence: Sequence, token_id: int) -> bool:
        closer = sequence.closer
        return sequence.remaining > 0 and (closer is None or closer.admits(token_id, sequence.remaining))

    def _settle(self, sequence: Sequence) -> None:
        """End a sequence where nothing may follow."""
        if sequence.token_ids[-1] in self.stop_ids or self.masks.is_exhausted(sequence):
            self.stop(sequence, FinishReason.STOP)
        elif sequence.remaining == 0:
            self.stop(sequence, FinishReason.LENGTH)

    def _close(self, sequence: Sequence, closer: Closer, too_much: int) -> Output:
        """Complete the output with what is left of its budget, which the token drawn would have overrun.

        Where it is complete already, as free text is, only that token is out of the question.
        """
        forced = closer.closing(sequence.remaining)
        if not forced:
            self.masks.forbid(sequence, too_much)
            sequence.num_computed -= 1  # the last id goes through the model again, for another draw
            return Output(sequence)
        tokens = tuple(
            self._append(sequence, certain(token_id, sequence.num_logprobs)) for token_id in forced
        )
        sequence.tally.num_forced += len(forced)
        sequence.closed_by = "budget"
        self.stop(sequence, FinishReason.LENGTH)
        return Output(sequence, tokens)

    def _append(self, sequence: Sequence, draw: Draw) -> WrittenToken:
        """Append a token, and pass on what the matcher told apart in it, unread."""
        token_id, matcher = draw.token_id, sequence.matcher
        if matcher is not None and not matcher.accept(token_id):
            raise GenerationFailed(f"the grammar refused token {token_id}, which it had allowed")
        if sequence.closer is not None:
            sequence.closer.accepted(token_id)
        sequence.token_ids.append(token_id)
        sequence.mask = None
        if matcher is None:
            return WrittenToken(draw)
        return WrittenToken(draw, matcher.parts(), matcher.is_in_thought())

    def _fail(self, sequence: Sequence, reason: str) -> Output:
        """End a sequence alone; nothing it computed is used again."""
        self.runner.cache.clear(self.scheduler.remove(sequence, is_tainted=True))
        sequence.finish(FinishReason.STOP)
        return Output(sequence, error=GenerationFailed(reason))

    def _take_ready(self) -> list[Output]:
        ready, self._ready = self._ready, []
        return ready
