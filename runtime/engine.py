"""The engine: schedule, run, mask, sample, postprocess. It knows token ids only."""

import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Protocol

import torch
from torch import Tensor

from compiler.closing.closer import Closer
from compiler.prepared_vocabulary import PreparedVocabulary
from runtime.device import is_out_of_memory
from runtime.errors import (
    BudgetTooSmall,
    DeadlineExceeded,
    GenerationFailed,
    GrammarTooSlow,
    Overloaded,
    PromptTooLong,
    RuntimeFault,
)
from runtime.events import FinishReason
from runtime.forward.attention import KVCache
from runtime.inspection import Cause
from runtime.jump_forward import MAX_PIECE_BYTES, ForcedToken, JumpForward
from runtime.masks import TokenMasks
from runtime.page_pool import PagePool
from runtime.protocol import EngineLoad
from runtime.sampling import adjust, own_probabilities, sample, tell_drawn
from runtime.scheduler import Batch, Scheduler
from runtime.sequence import Population, Sequence, SequenceStatus
from runtime.settings import EngineSettings
from runtime.slow_grammars import MAX_SLOW_S
from runtime.written_token import SampledToken, WrittenToken, forced_token, write

logger = logging.getLogger(__name__)

MAX_FORCED = 128
"""Tokens that one sequence is given without the model in one step; others wait meanwhile."""
IDLE_S = 0.001
"""How long a step waits that has nothing to compute."""
JUMP_PAUSE = 64
"""Tokens that a sequence samples before a long forced text of which no token is known is looked for again."""


class Runner(Protocol):
    """Computes the logits of a batch; `ModelRunner` is one."""

    cache: KVCache
    num_columns: int
    is_async: bool  # whether `run` may return before the logits are computed

    def run(self, batch: Batch) -> Tensor:
        """Float32 logits [len(batch.rows), num_columns]."""


@dataclass(frozen=True, slots=True)
class Output:
    """The tokens that a step added to a sequence, and whether the sequence ended with them."""

    sequence: Sequence
    tokens: tuple[WrittenToken, ...] = ()
    error: RuntimeFault | None = None
    is_last: bool = False


class Engine:
    """Generates for all its sequences at once, one step at a time.

        engine = Engine(ModelRunner(model, settings), vocabulary, settings, context_length=4096)
        engine.add(Sequence("s", prompt_ids, max_tokens=64, matcher=grammar.matcher()))
        while engine.has_work:
            outputs = engine.step()  # at most one per sequence

    Not thread-safe. Without `jump_forward`, tokens that the grammar forces are sampled like all others.
    """

    def __init__(
        self,
        runner: Runner,
        prepared: PreparedVocabulary,
        settings: EngineSettings,
        *,
        context_length: int,
        jump_forward: JumpForward | None = None,
    ) -> None:
        self.runner = runner
        self.jump_forward = jump_forward
        self.stop_ids = frozenset(prepared.vocabulary.stop_ids)
        self.pool = PagePool(runner.cache.num_pages, runner.cache.page_size)
        self.scheduler = Scheduler(settings, self.pool)
        self.retry_after_s = settings.retry_after_s
        self.masks = TokenMasks(prepared, runner.num_columns)
        # A sequence that runs alone must fit into the pool, or it could never finish.
        self.context_length = min(context_length, self.pool.num_usable * self.pool.page_size)
        self.num_steps = 0
        self.num_stepped_sequences = 0
        self._ready: list[Output] = []
        self._next_deadline = math.inf

    def load(self, model_id: str) -> EngineLoad:
        """What the engine does now, and has done; any thread may ask."""
        return EngineLoad(
            model_id=model_id,
            num_running=len(self.scheduler.running),
            num_waiting=len(self.scheduler.waiting),
            num_pages=self.pool.num_usable,
            num_free_pages=self.pool.num_free,
            num_steps=self.num_steps,
            num_stepped_sequences=self.num_stepped_sequences,
            num_preempted=self.scheduler.num_preempted,
        )

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self.scheduler.running or self.scheduler.waiting or self._ready)

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence, with its budget cut down to what the context leaves.

        Tokens that the grammar forces after the prompt are appended at once, so that the model computes
        them together with the prompt.

        Raises:
            PromptTooLong: the prompt fills the context.
            BudgetTooSmall: the budget is below the shortest valid output.
            Overloaded: the queue is full, or the client has too many sequences.
        """
        self.check_budget(sequence)
        if dropped := self.scheduler.add(sequence):
            dropped.finish(FinishReason.STOP)
            self._ready.append(Output(dropped, error=Overloaded(self.retry_after_s), is_last=True))
        self._next_deadline = min(self._next_deadline, sequence.deadline)
        self._begin(sequence)

    def check_budget(self, sequence: Sequence) -> None:
        """Cut a sequence's budget down to what the context leaves, and check that an output fits.

        Where the shortest output is long, this takes time, which a second call does not take again. So any
        thread may call it before `add` does.

        Raises:
            PromptTooLong: the prompt fills the context.
            BudgetTooSmall: the budget is below the shortest valid output.
        """
        num_left = self.context_length - len(sequence.prompt_ids)
        if num_left < 1:
            raise PromptTooLong(len(sequence.prompt_ids), self.context_length)
        sequence.max_tokens = min(sequence.max_tokens, num_left)
        if sequence.closer is not None and not sequence.closer.fits(sequence.max_tokens):
            raise BudgetTooSmall(sequence.max_tokens, sequence.closer.minimum())

    def stop(self, sequence: Sequence, reason: FinishReason = FinishReason.STOP) -> None:
        """End a sequence and the others of its population, and free their pages."""
        members = [sequence]
        if sequence.population is not None:
            sequence.population.is_over = True
            members += sequence.population.members
        for member in members:
            self._end(member, reason)

    def start(self, sequence: Sequence) -> None:
        """Queue a new sequence of a choice that was admitted; its population does this."""
        self.scheduler.enqueue(sequence)
        self._begin(sequence)

    def park(self, sequence: Sequence) -> None:
        """Take a sequence's place and pages, until it is resumed; its population does this."""
        self.scheduler.park(sequence)

    def resume(self, sequence: Sequence) -> None:
        """Queue a parked sequence again; its population does this."""
        self.scheduler.enqueue(sequence)

    def copy(self, sequence: Sequence, seed: int) -> Sequence:
        """A copy that goes on with another seed, on the same pages if it can; its population does this."""
        twin = sequence.fork(seed)
        if (copied := self.scheduler.adopt(twin, sequence)) is None:
            self.scheduler.enqueue(twin)
        elif copied:
            self.runner.cache.copy(*copied)
        return twin

    def drop(self, sequence: Sequence) -> None:
        """End a sequence and not its population, which does this."""
        self._end(sequence, FinishReason.STOP)

    @torch.inference_mode()
    def step(self, meanwhile: Callable[[], None] = lambda: None) -> list[Output]:
        """Advance every scheduled sequence; returns at most one output for each.

        Tokens forced after a prompt are returned at once, before the prompt is computed. `meanwhile` is
        called once the model's work is queued, so that it runs while a device computes; it may stop
        sequences. Of a population there is one output, when one of its sequences is selected.
        """
        return list(self._selected(self._step(meanwhile)))

    def _step(self, meanwhile: Callable[[], None]) -> list[Output]:
        if not self._ready:
            self._expire()
            self._ready += self._write_forced()
        if self._ready:
            outputs, self._ready = self._ready, []
            return outputs
        batch = self.scheduler.schedule()
        if not batch.chunks:
            time.sleep(IDLE_S)  # slow sequences rest, and nobody else can go on
            return []
        self.num_steps += 1
        self.num_stepped_sequences += len(batch.chunks)
        try:
            logits = self.runner.run(batch)
            meanwhile()
            tokens = self._mask_and_sample(self._weigh_forced(logits, batch), batch.sampled)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            return self._undo(batch)
        return self._postprocess(batch, tokens)

    def check_integrity(self) -> None:
        """Assert that the page tables of all sequences are the users that the page pool counts."""
        self.pool.check_integrity(sequence.page_table for sequence in self.scheduler)

    def _selected(self, outputs: list[Output]) -> Iterator[Output]:
        """The outputs, with those of populations held back until these have selected a sequence."""
        advanced: dict[Population, None] = {}
        for output in outputs:
            population = output.sequence.population
            if population is None:
                yield output
            elif output.error is None:
                population.hold(output.sequence, output.tokens)
                advanced[population] = None
            else:
                self.stop(output.sequence)
                yield output
        for population in advanced:
            if not population.is_over and (selected := self._advance(population)) is not None:
                yield selected

    def _advance(self, population: Population) -> Output | None:
        """Have a population go on; returns the output of the sequence that it has selected."""
        last = population.members[-1]
        try:
            selected = population.advance(self)
        except Exception as error:
            logger.exception("sequence %s", last.sequence_id)
            self.stop(last)
            return Output(last, error=GenerationFailed(f"{type(error).__name__}: {error}"), is_last=True)
        if selected is None:
            return None
        self.stop(selected)
        return Output(selected, population.written(selected), is_last=True)

    def _begin(self, sequence: Sequence) -> None:
        """Write what the grammar forces after the prompt."""
        with self.scheduler.slow.counted(sequence):
            if tokens := self._jump(sequence):
                is_last = self._finish_if_done(sequence)
                self._ready.append(Output(sequence, tokens, is_last=is_last))

    def _end(self, sequence: Sequence, reason: FinishReason) -> None:
        if sequence.status is not SequenceStatus.FINISHED:
            self.scheduler.remove(sequence)
            sequence.finish(reason)

    def _expire(self) -> None:
        """End the sequences whose deadline has passed, whether they run or wait."""
        now = time.monotonic()
        if now < self._next_deadline:
            return
        for sequence in [sequence for sequence in self.scheduler if sequence.deadline <= now]:
            if sequence.status is not SequenceStatus.FINISHED:  # as it is if its population has ended
                self.stop(sequence)
                self._ready.append(Output(sequence, error=DeadlineExceeded(), is_last=True))
        self._next_deadline = min((sequence.deadline for sequence in self.scheduler), default=math.inf)

    def _weigh_forced(self, logits: Tensor, batch: Batch) -> Tensor:
        """Weigh forced tokens by the rows before them; returns the rows of which tokens are sampled."""
        rows = batch.rows
        token_ids = [row.forced_id for row in rows]
        forced = [i for i, token_id in enumerate(token_ids) if token_id is not None]
        if not forced:
            return logits
        sequences = [rows[i].sequence for i in forced]
        ids = [token_id for token_id in token_ids if token_id is not None]
        probabilities = own_probabilities(logits[forced], sequences, ids)
        for sequence, probability in zip(sequences, probabilities, strict=True):
            assert sequence.weight is not None, "only weighed sequences have such rows"
            sequence.weight.count_forced(probability)
        return logits[[i for i, token_id in enumerate(token_ids) if token_id is None]]

    def _mask_and_sample(self, logits: Tensor, sequences: list[Sequence]) -> list[SampledToken | None]:
        """One token per sequence; `sample` is the first to wait for the device, with all masks filled."""
        if not sequences:
            return []
        for sequence in sequences:
            with self.scheduler.slow.counted(sequence):
                self.masks.fill(sequence)
        adjust(logits, sequences)
        masked = self.masks.apply(logits, sequences)
        tokens = sample(masked.probabilities, sequences)
        tell_drawn(masked.probabilities, sequences, tokens)
        if rows := self.masks.count(masked, sequences):
            again = [sequences[row] for row in rows]
            probabilities = self.masks.recompute(logits[rows], again)
            anew = sample(probabilities, again)
            tell_drawn(probabilities, again, anew)
            for row, token in zip(rows, anew, strict=True):
                tokens[row] = token
        self.masks.inspect(masked, sequences, tokens)
        return tokens

    def _undo(self, batch: Batch) -> list[Output]:
        """Preempt a batch that did not fit into memory; a sequence that was alone in it fails."""
        preempted = self.scheduler.preempt_batch(batch)
        if preempted and len(batch.chunks) == 1:
            return [self._fail(preempted[0], GenerationFailed("not enough memory for one sequence"))]
        return []

    def _postprocess(self, batch: Batch, tokens: list[SampledToken | None]) -> list[Output]:
        """Extend the sampled sequences, except those that were stopped in the meantime."""
        for chunk in batch.chunks:
            if chunk.sequence.status is SequenceStatus.RUNNING:
                chunk.sequence.num_computed = chunk.end
            chunk.sequence.counters.num_computed += chunk.num_tokens
        return [
            self._extend(sequence, token)
            for sequence, token in zip(batch.sampled, tokens, strict=True)
            if sequence.status is SequenceStatus.RUNNING
        ]

    def _extend(self, sequence: Sequence, token: SampledToken | None) -> Output:
        """Append a token and what it forces; end the sequence if it is done."""
        if token is None:
            reason = "the model's logits are not numbers, or no token is allowed"
            return self._fail(sequence, GenerationFailed(reason))
        return self._guarded(sequence, lambda: self._append_or_close(sequence, token))

    def _write_forced(self) -> list[Output]:
        """Give more of their forced tokens to the sequences of which nearly all tokens are computed."""
        jumping = [
            sequence
            for sequence in self.scheduler
            if sequence.forced is not None
            and (
                sequence.closed_by is not None
                or 0 < sequence.num_computed >= len(sequence.token_ids) - MAX_FORCED
            )
        ]
        return [self._guarded(sequence, partial(self._jump_on, sequence)) for sequence in jumping]

    def _guarded(self, sequence: Sequence, extend: Callable[[], Output]) -> Output:
        """What `extend` returns; a matcher or closer that fails or takes long ends its own sequence alone."""
        try:
            with self.scheduler.slow.counted(sequence):
                output = extend()
        except Exception as error:
            logger.exception("sequence %s", sequence.sequence_id)
            return self._fail(sequence, GenerationFailed(f"{type(error).__name__}: {error}"))
        if self.scheduler.slow.end_token(sequence) and not output.is_last:
            return self._fail(sequence, GrammarTooSlow(MAX_SLOW_S))
        return output

    def _jump_on(self, sequence: Sequence) -> Output:
        tokens = self._jump(sequence)
        return Output(sequence, tokens, is_last=self._finish_if_done(sequence))

    def _append_or_close(self, sequence: Sequence, token: SampledToken) -> Output:
        sequence.times.has_token()
        if not self._fits_budget(sequence, token.token_id):
            assert sequence.closer is not None
            return self._close(sequence, sequence.closer, token.token_id)
        written = self._append(sequence, token)
        if sequence.weight is not None:
            sequence.weight.count_drawn()
        forced = self._jump(sequence) if token.token_id not in self.stop_ids else ()
        is_last = self._finish_if_done(sequence)
        return Output(sequence, (written, *forced), is_last=is_last)

    def _jump(self, sequence: Sequence) -> tuple[WrittenToken, ...]:
        """Append tokens that the grammar forces, at most `MAX_FORCED`; `forced` holds those that follow."""
        tokens = tuple(islice(self._append_forced(sequence), MAX_FORCED))
        sequence.counters.num_forced += len(tokens)
        return tokens

    def _append_forced(self, sequence: Sequence) -> Iterator[WrittenToken]:
        """Append and yield forced tokens, until another token is possible or the budget runs out."""
        cause = None
        if sequence.is_inspected:
            cause = Cause.FORCED if sequence.closed_by is None else Cause.CLOSED
        while (forced := sequence.forced or self._find_forced(sequence)) is not None:
            sequence.forced = forced
            for token_id, alternatives in forced:
                if not self._is_certain(sequence, token_id, alternatives):
                    sequence.forced = None
                    return
                yield self._append(sequence, forced_token(token_id, sequence.num_logprobs, cause))
            sequence.forced = None

    def _find_forced(self, sequence: Sequence) -> Iterator[ForcedToken] | None:
        """The tokens that the grammar forces next; None if none are known."""
        is_due = sequence.closed_by is None and sequence.num_output >= sequence.next_jump
        if self.jump_forward is None or sequence.matcher is None or not is_due:
            return None
        if sequence.weight is not None and sequence.sampling.penalises:
            return None  # a chunk of forced tokens is weighed without those before each of them
        text = sequence.matcher.forced_text()
        tokens = self.jump_forward.tokens(text)
        first = next(tokens, None)
        if first is not None:
            return chain([first], tokens)
        if len(text) > MAX_PIECE_BYTES:
            sequence.next_jump = sequence.num_output + JUMP_PAUSE
        return None

    def _is_certain(self, sequence: Sequence, token_id: int, alternatives: tuple[int, ...] | None) -> bool:
        """Whether a forced token is the only one possible, and fits the budget; those of a closer do."""
        if sequence.closed_by is not None:
            return True
        if alternatives is not None and not self.masks.allows_only(sequence, alternatives):
            return False
        # The last token of a weighed output is drawn: when it comes, those before it have been computed.
        num_kept = 0 if sequence.weight is None else 1
        return sequence.remaining > num_kept and self._fits_budget(sequence, token_id)

    def _fits_budget(self, sequence: Sequence, token_id: int) -> bool:
        """Whether the output can still be completed within its budget after this token."""
        return sequence.closer is None or sequence.closer.admits(token_id, sequence.remaining)

    def _finish_if_done(self, sequence: Sequence) -> bool:
        """End the sequence if it wrote a stop token, can write nothing else, or has no budget left."""
        last = sequence.token_ids[-1]
        if sequence.closed_by is not None:
            if sequence.forced is None:
                self._end(sequence, FinishReason.LENGTH)
        elif last in self.stop_ids or last in sequence.stop_token_ids or self._is_exhausted(sequence):
            self._end(sequence, FinishReason.STOP)
        elif sequence.remaining == 0:
            self._end(sequence, FinishReason.LENGTH)
        return sequence.status is SequenceStatus.FINISHED

    def _is_exhausted(self, sequence: Sequence) -> bool:
        """Whether the sequence can write nothing else; a weighed one draws its stop token all the same."""
        return sequence.weight is None and self.masks.is_exhausted(sequence)

    def _close(self, sequence: Sequence, closer: Closer, rejected_id: int) -> Output:
        """Complete an output within its budget, which the sampled token `rejected_id` would have exceeded.

        An output that is complete already, such as free text, needs no closing: then only that token is
        forbidden, and the sequence samples another one in the next step.
        """
        closing_ids = closer.completion_ids(sequence.remaining)
        if not closing_ids:
            self.masks.forbid(sequence, rejected_id)
            sequence.num_computed -= 1  # the model computes the last id again, for new logits
            return Output(sequence)
        sequence.closed_by = "budget"
        sequence.forced = ((token_id, None) for token_id in closing_ids)
        return self._jump_on(sequence)

    def _append(self, sequence: Sequence, token: SampledToken) -> WrittenToken:
        """Append a token; returns it with the parts that the matcher tells apart in it."""
        written = write(token, sequence.matcher, sequence.closer)
        if written is None:
            raise GenerationFailed(f"the grammar refused token {token.token_id}, which its mask had allowed")
        sequence.token_ids.append(token.token_id)
        sequence.mask = None
        return written

    def _fail(self, sequence: Sequence, error: RuntimeFault) -> Output:
        """End a sequence with an error; the pages it computed are cleared, and no prefix is reused."""
        self.runner.cache.clear(self.scheduler.remove(sequence, is_tainted=True))
        sequence.finish(FinishReason.STOP)
        return Output(sequence, error=error, is_last=True)
