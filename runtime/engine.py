"""The engine: schedule, run, mask, sample, postprocess. It knows token ids only."""

import logging
import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from compiler.errors import MatchingTooSlow
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.timed_fills import MAX_FILL_S
from runtime.decoding.engine_populations import EnginePopulations
from runtime.decoding.masks import TokenMasks
from runtime.decoding.step_sampler import StepSampler
from runtime.decoding.token_writer import Output, TokenWriter
from runtime.device import is_out_of_memory
from runtime.errors import (
    DeadlineExceeded,
    GenerationFailed,
    GrammarTooSlow,
    Overloaded,
    PromptTooLong,
    RuntimeFault,
    Unforeseen,
    unfit_budget,
)
from runtime.forward.attention import KVCache
from runtime.jump_forward import JumpForward
from runtime.protocol import EngineLoad
from runtime.scheduling.batch import Batch
from runtime.scheduling.page_pool import PagePool
from runtime.scheduling.scheduler import Scheduler
from runtime.scheduling.sequence import Sequence, SequenceStatus
from runtime.scheduling.slow_grammars import MAX_SLOW_S, SlowGrammars, turn_order
from runtime.settings import EngineSettings
from runtime.written_token import SampledToken, WrittenToken

logger = logging.getLogger(__name__)

IDLE_S = 0.001
"""How long a step waits if it has nothing to compute."""
MAX_FAILED_ALONE = 8
"""The engine stops when so many steps of a single sequence have failed, one after the other."""


class Runner(Protocol):
    """Computes the logits of a batch; `ModelRunner` is one."""

    cache: KVCache
    num_columns: int
    is_async: bool  # whether `run` may return before the logits are computed

    def run(self, batch: Batch) -> Tensor:
        """Float32 logits [len(batch.rows), num_columns]."""


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
        # It takes up to a second: done here, so that no sequence's first token waits for it.
        prepared.guarded.prepare()
        stop_ids = frozenset(prepared.vocabulary.stop_ids)
        self.pool = PagePool(runner.cache.num_pages, runner.cache.page_size)
        slow = SlowGrammars(prepared.timed_fills)
        self.scheduler = Scheduler(settings, self.pool, slow)
        self.masks = TokenMasks(prepared, runner.num_columns)
        self.sampler = StepSampler(self.masks, self.scheduler)
        self.writer = TokenWriter(self.masks, stop_ids, jump_forward, slow.has_time)
        self.populations = EnginePopulations(self.scheduler, runner.cache, self._begin, self._write_chosen)
        # A sequence that runs alone must fit into the pool, or it could never finish.
        self.context_length = min(context_length, self.pool.num_usable * self.pool.page_size)
        self.num_steps = 0
        self.num_stepped_sequences = 0
        self._num_failed_alone = 0
        self._is_models_turn = False
        """Steps of forced tokens take turns with the model's, so that neither holds up the other."""
        self._ready: list[Output] = []
        self._next_deadline = math.inf

    def current_load(self, model_id: str) -> EngineLoad:
        """How busy the engine is, and its counters since it started; any thread may call this."""
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
        """Queue a sequence, after its budget is cut down to what fits into the context.

        Tokens that the grammar forces after the prompt are appended at once, so that the model computes
        them together with the prompt.

        Raises:
            PromptTooLong: the prompt leaves no room for an output.
            BudgetTooSmall: the budget is below the shortest valid output.
            Overloaded: the queue is full, or the client has too many sequences.
        """
        self.fit_budget(sequence)
        if dropped := self.scheduler.add(sequence):
            self._ready.append(Output(dropped, error=Overloaded(), is_last=True))
        self._next_deadline = min(self._next_deadline, sequence.deadline)
        self._begin(sequence)

    def fit_budget(self, sequence: Sequence) -> None:
        """Cut a sequence's budget down to what fits into the context; check that an output fits into it.

        If the shortest output is long, the first call takes time, and later calls do not. So another thread
        may call this first, before the engine's thread calls `add`.

        Raises:
            PromptTooLong: the prompt leaves no room for an output.
            BudgetTooSmall: the budget is below the shortest valid output.
        """
        num_left = self.context_length - len(sequence.prompt_ids)
        if num_left < 1:
            raise PromptTooLong(len(sequence.prompt_ids), self.context_length)
        asked, closer = sequence.max_tokens, sequence.closer
        sequence.max_tokens = min(asked, num_left)
        if closer is not None and not closer.fits(sequence.max_tokens):
            raise unfit_budget(asked, closer.minimum(), len(sequence.prompt_ids), self.context_length)

    def stop(self, sequence: Sequence) -> None:
        """End a sequence and the others of its population, free their pages, and release the others."""
        self.populations.stop(sequence)

    @torch.inference_mode()
    def step(self, meanwhile: Callable[[], None] = lambda: None) -> list[Output]:
        """Advance every scheduled sequence; returns at most one output for each.

        Tokens forced after a prompt are returned at once, before the prompt is computed. `meanwhile` is
        called once the model's work is queued, so that it runs while a device computes; it may stop
        sequences. A population has a single output, when one of its sequences is selected.
        """
        return list(self.populations.select(self._step(meanwhile)))

    def _step(self, meanwhile: Callable[[], None]) -> list[Output]:
        if outputs := self._take_ready():
            return outputs
        self._expire()
        forced = [] if self._is_models_turn else self._write_forced()
        was_models_turn, self._is_models_turn = self._is_models_turn, bool(forced)
        self._ready += forced
        return self._take_ready() or self._run_model(meanwhile, may_rest=not was_models_turn)

    def _take_ready(self) -> list[Output]:
        outputs, self._ready = self._ready, []
        return outputs

    def _run_model(self, meanwhile: Callable[[], None], *, may_rest: bool) -> list[Output]:
        """Compute and sample the next batch; if there is none, rest for a moment if the step `may_rest`."""
        batch = self.scheduler.schedule()
        if not batch.chunks:
            if may_rest:
                time.sleep(IDLE_S)  # slow sequences rest, and no other sequence has work
            return []
        self.num_steps += 1
        self.num_stepped_sequences += len(batch.chunks)
        try:
            logits = self.runner.run(batch)
            meanwhile()
            tokens = self.sampler.sample(logits, batch)
        except Exception as error:  # noqa: BLE001 - raised again where it is not a sequence's
            return self._undo(batch, error)
        self._num_failed_alone = 0
        return self._postprocess(batch, tokens)

    def check_integrity(self) -> None:
        """Assert that the page pool's reference counts match the page tables of all sequences."""
        self.pool.check_integrity(sequence.page_table for sequence in self.scheduler)

    def _begin(self, sequence: Sequence) -> None:
        """Write what the grammar forces after the prompt."""
        output = self._isolated(sequence, lambda: self._write_first_forced(sequence))
        if output.tokens or output.is_last:
            self._ready.append(output)

    def _write_chosen(self, sequence: Sequence, token: SampledToken) -> None:
        """Write a token that a population has chosen."""
        self._ready.append(self._extend(sequence, token))

    def _write_first_forced(self, sequence: Sequence) -> Output:
        tokens = self.writer.write_forced(sequence)
        return self._output(sequence, tokens) if tokens else Output(sequence)

    def _expire(self) -> None:
        """End the sequences whose deadline has passed, whether they run or wait.

        If other members of a sequence's population are whole, the population selects one of them instead.
        """
        now = time.monotonic()
        if now < self._next_deadline:
            return
        for sequence in [sequence for sequence in self.scheduler if sequence.deadline <= now]:
            if sequence.status is SequenceStatus.FINISHED:  # its population may have ended just now
                continue
            if sequence.population is not None and sequence.population.end_early():
                self._ready.append(Output(sequence))  # without tokens, so that its population advances
            else:
                self.stop(sequence)
                self._ready.append(Output(sequence, error=DeadlineExceeded(), is_last=True))
        self._next_deadline = min((sequence.deadline for sequence in self.scheduler), default=math.inf)

    def _undo(self, batch: Batch, error: Exception) -> list[Output]:
        """Preempt a batch that failed for want of memory, or by a fault that one of its sequences met.

        Its sequences are computed again in smaller batches. One that was alone in its batch fails.

        Raises:
            Exception: the error, if too many have failed alone in a row: then the engine is at fault.
        """
        preempted = self.scheduler.preempt_batch(batch)
        if len(batch.chunks) > 1:
            return []
        if not preempted:  # it was alone, and has been stopped
            self.scheduler.lift_limit()
            return []
        if is_out_of_memory(error):
            return [self._fail(preempted[0], GenerationFailed("not enough memory for one sequence"))]
        self._num_failed_alone += 1
        if self._num_failed_alone == MAX_FAILED_ALONE:
            raise error
        logger.error("sequence %s failed", preempted[0].sequence_id, exc_info=error)
        self.scheduler.lift_limit()
        return [self._fail(preempted[0], Unforeseen())]

    def _postprocess(self, batch: Batch, tokens: Mapping[Sequence, SampledToken | None]) -> list[Output]:
        """Extend the sampled sequences while there is time, but not those that were stopped in the meantime.

        The last token of those that wait is computed again, for new logits.
        """
        for chunk in batch.chunks:
            if chunk.sequence.status is SequenceStatus.RUNNING:
                chunk.sequence.num_computed = chunk.end
            chunk.sequence.counters.num_computed += chunk.num_tokens
        slow, outputs = self.scheduler.slow, []
        slow.begin_phase()
        for sequence in sorted(batch.sampled, key=turn_order):
            if sequence.status is not SequenceStatus.RUNNING:
                continue
            if sequence in tokens and slow.has_time_for(sequence):
                sequence.grammar_time.num_waits = 0
                outputs.append(self._extend(sequence, tokens[sequence]))
            else:
                sequence.grammar_time.num_waits += 1
                sequence.num_computed -= 1
        return outputs

    def _extend(self, sequence: Sequence, token: SampledToken | None) -> Output:
        """Write a sampled token and the tokens forced after it; end the sequence if it is done."""
        if token is None:
            failed = GenerationFailed("the model's logits are not numbers, or no token is allowed")
            return self._fail(sequence, GrammarTooSlow(MAX_FILL_S) if sequence.is_too_slow else failed)
        return self._isolated(sequence, lambda: self._write_sampled(sequence, token))

    def _write_sampled(self, sequence: Sequence, token: SampledToken) -> Output:
        if sequence.population is not None:
            sequence.population.before_token(sequence, token, self.populations)
        tokens = self.writer.write_sampled(sequence, token)
        return self._output(sequence, tokens) if tokens else Output(sequence)

    def _write_forced(self) -> list[Output]:
        """Write more of the forced tokens of the sequences that have some due, while there is time."""
        slow, outputs = self.scheduler.slow, []
        slow.begin_phase()
        due = [sequence for sequence in self.scheduler if self.writer.is_due(sequence)]
        for sequence in sorted(due, key=turn_order):
            if slow.has_time():
                sequence.grammar_time.num_waits = 0
                outputs.append(self._isolated(sequence, partial(self._write_next_forced, sequence)))
            else:
                sequence.grammar_time.num_waits += 1
        return outputs

    def _write_next_forced(self, sequence: Sequence) -> Output:
        return self._output(sequence, self.writer.write_forced(sequence))

    def _output(self, sequence: Sequence, tokens: tuple[WrittenToken, ...]) -> Output:
        """The output of a sequence that wrote tokens; ends the sequence if it is done."""
        reason = self.writer.finish_reason(sequence)
        if sequence.is_too_slow:  # at once: a thread uses its matcher, so it can neither go on nor be copied
            return self._fail(sequence, GrammarTooSlow(MAX_FILL_S))
        if reason is not None:
            self.scheduler.end(sequence, reason)
        return Output(sequence, tokens, is_last=reason is not None)

    def _isolated(self, sequence: Sequence, extend: Callable[[], Output]) -> Output:
        """What `extend` returns; a failing or slow matcher or closer ends only its own sequence."""
        slow = self.scheduler.slow
        try:
            with slow.timed(sequence):
                output = extend()
        except MatchingTooSlow as error:
            return self._fail(sequence, GrammarTooSlow(error.seconds))
        except Exception:
            logger.exception("sequence %s failed", sequence.sequence_id)
            return self._fail(sequence, Unforeseen())
        slow.end_token(sequence)
        if slow.has_taken_too_long(sequence) and not output.is_last:
            return self._fail(sequence, GrammarTooSlow(MAX_SLOW_S))
        return output

    def _fail(self, sequence: Sequence, error: RuntimeFault) -> Output:
        """End a sequence with an error; its pages are cleared, and their prefixes are not reused.

        What its grammar took counts for its client, although no token came of it.
        """
        self.scheduler.slow.end_token(sequence)
        self.runner.cache.clear(self.scheduler.end(sequence, is_tainted=True))
        return Output(sequence, error=error, is_last=True)
