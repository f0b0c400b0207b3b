"""The populations of an engine: does what they ask for their members, and holds back what these write."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from compiler.errors import MatchingTooSlow
from runtime.decoding.token_writer import Output
from runtime.errors import GrammarTooSlow, Unforeseen
from runtime.forward.attention import KVCache
from runtime.scheduling.scheduler import Scheduler
from runtime.scheduling.sequence import Population, Sequence, SequenceStatus
from runtime.written_token import SampledToken

logger = logging.getLogger(__name__)


class EnginePopulations:
    """The `PopulationHost` of one engine.

    `begin` writes what the grammar forces after the prompt of a new member.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        cache: KVCache,
        begin: Callable[[Sequence], None],
        extend: Callable[[Sequence, SampledToken], None],
    ) -> None:
        self._scheduler = scheduler
        self._cache = cache
        self._begin = begin
        self._extend = extend

    def select(self, outputs: Iterable[Output]) -> Iterator[Output]:
        """The outputs, but those of a population are held back until it has selected a sequence.

        Where a sequence fails, its population selects or writes another one, or ends with the error. A
        population has a single output, even if several of its sequences fail.
        """
        for output in self._selected(outputs):
            population = output.sequence.population
            if population is None:
                yield output
            elif not population.has_output:
                population.has_output = True
                yield output

    def _selected(self, outputs: Iterable[Output]) -> Iterator[Output]:
        """The outputs that need not be held back, and all errors."""
        advanced: dict[Population, None] = {}
        for output in outputs:
            population = output.sequence.population
            if population is None:
                yield output
            elif output.error is None:
                population.hold(output.sequence, output.tokens)
                advanced[population] = None
            else:
                yield from self._after_failure(population, output)
        for population in advanced:
            if not population.is_over and (selected := self._advance(population)) is not None:
                yield selected

    def stop(self, sequence: Sequence) -> None:
        """End a sequence and the others of its population, free their pages, and release the others."""
        self._scheduler.end(sequence)
        if sequence.population is not None:
            sequence.population.is_over = True
            for member in sequence.population.members:
                if member is not sequence:
                    self._scheduler.end(member)
                    member.release()

    def start(self, sequence: Sequence) -> None:
        """Queue a new sequence of a choice that was admitted."""
        self._scheduler.enqueue(sequence)
        self._begin(sequence)

    def park(self, sequence: Sequence) -> None:
        """Take a sequence's place and pages, until it is resumed."""
        self._scheduler.park(sequence)
        sequence.num_charged = 0  # what is computed again was not lost to other clients

    def resume(self, sequence: Sequence) -> None:
        """Queue a parked sequence again."""
        self._scheduler.resume(sequence)

    def resume_with(self, sequence: Sequence, token: SampledToken) -> None:
        """Queue a parked sequence again, and write a token that it could have sampled."""
        self._scheduler.resume(sequence)
        self._extend(sequence, token)

    def copy(self, sequence: Sequence, seed: int) -> Sequence:
        """Copy a sequence with another seed, on the same pages if possible."""
        with self._scheduler.slow.timed(sequence):
            twin = sequence.fork(seed)
        if not self._scheduler.has_room_for_copy(sequence):
            self._scheduler.enqueue(twin)
        elif (page_copy := self._scheduler.start_copy(twin, sequence)) is not None:
            self._cache.copy(page_copy.source, page_copy.target)
        return twin

    def set_aside(self, sequence: Sequence, seed: int) -> Sequence:
        """Copy a sequence with another seed, but park the copy."""
        twin = sequence.fork(seed)
        self.park(twin)
        return twin

    def drop(self, sequence: Sequence) -> None:
        """End a sequence but not its population."""
        self._scheduler.end(sequence)

    def _after_failure(self, population: Population, failed: Output) -> Iterator[Output]:
        """The output that is selected instead of one that has failed, if any; its error, if none can be."""
        failed.sequence.status = SequenceStatus.FAILED
        if population.is_over or not population.do_without(failed.sequence):
            self.stop(failed.sequence)
            yield failed
            return
        logger.warning("sequence %s failed, others go on: %s", failed.sequence.sequence_id, failed.error)
        if (selected := self._advance(population)) is not None:
            if (stats := selected.sequence.selection) is not None:
                selected.sequence.selection = replace(stats, is_exact=False)
            yield selected

    def _advance(self, population: Population) -> Output | None:
        """Advance a population; returns the output of the sequence that it has selected, if it has."""
        last = population.members[-1]
        try:
            selected = population.advance(self)
        except MatchingTooSlow as error:  # of a copy
            self.stop(last)
            return Output(last, error=GrammarTooSlow(error.seconds), is_last=True)
        except Exception:
            logger.exception("the population of sequence %s failed", last.sequence_id)
            self.stop(last)
            return Output(last, error=Unforeseen(), is_last=True)
        if selected is None:
            return None
        self.stop(selected)
        return Output(selected, population.written(selected), is_last=True)
