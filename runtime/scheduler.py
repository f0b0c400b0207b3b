"""The scheduler: which tokens of which sequences the next step computes."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from runtime.errors import Overloaded
from runtime.page_pool import PagePool
from runtime.sequence import Sequence, SequenceStatus
from runtime.settings import EngineSettings

RECOVERY_STEPS = 64
"""After a shortage of memory, one more sequence may run for every so many steps that fit."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """`num_tokens` pending tokens of a sequence, from position `start` on."""

    sequence: Sequence
    start: int
    num_tokens: int

    @property
    def end(self) -> int:
        """The position after the last token."""
        return self.start + self.num_tokens

    @property
    def is_sampled(self) -> bool:
        """Whether the logits of the last token choose the sequence's next token."""
        return self.end == len(self.sequence.token_ids)


@dataclass(frozen=True, slots=True)
class Batch:
    """The chunks of one step; a decoding sequence has a chunk of one token."""

    chunks: tuple[Chunk, ...]

    @property
    def num_tokens(self) -> int:
        """The tokens of all chunks together."""
        return sum(chunk.num_tokens for chunk in self.chunks)

    @property
    def sampled(self) -> list[Sequence]:
        """The sequences that get a token, in the order of the logits' rows."""
        return [chunk.sequence for chunk in self.chunks if chunk.is_sampled]


class Scheduler:
    """Continuous batching: sequences start in the order of arrival, and running ones go first.

    Prefill shares a step with decoding, in chunks within the token budget. When pages run out, the youngest
    running sequence is preempted: it loses its pages, and is computed again later.
    """

    def __init__(self, settings: EngineSettings, pool: PagePool) -> None:
        self.settings = settings
        self.pool = pool
        self.running: list[Sequence] = []
        self.waiting: deque[Sequence] = deque()
        self.max_running = settings.max_sequences
        self._num_steps_since_shortage = 0
        self.num_preempted = 0

    def __iter__(self) -> Iterator[Sequence]:
        """All sequences, running ones first."""
        yield from self.running
        yield from self.waiting

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence. Its whole context must fit into the pool.

        Raises:
            Overloaded: the queue is full.
        """
        if len(self.waiting) >= self.settings.max_waiting:
            raise Overloaded(self.settings.retry_after_s)
        self.waiting.append(sequence)

    def remove(self, sequence: Sequence, *, is_tainted: bool = False) -> list[int]:
        """Remove a sequence, running or waiting; returns the pages that are free now."""
        if sequence in self.running:
            self.running.remove(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)
        return self._release(sequence, is_tainted=is_tainted)

    def schedule(self) -> Batch:
        """The batch of the next step, empty only if there is no work."""
        self._recover()
        chunks: list[Chunk] = []
        budget = self.settings.max_batch_tokens
        num_preempted = self.num_preempted
        for index, sequence in enumerate(list(self.running)):
            if sequence.status is SequenceStatus.RUNNING:  # an older sequence may have preempted it
                num_younger = len(self.running) - index - 1
                chunk = self._advance(sequence, budget - num_younger)
                if chunk is not None:
                    chunks.append(chunk)
                    budget -= chunk.num_tokens
        while self.waiting and budget > 0 and num_preempted == self.num_preempted:
            chunk = self._admit(self.waiting[0], budget)
            if chunk is None:
                break
            chunks.append(chunk)
            budget -= chunk.num_tokens
        return Batch(tuple(chunks))

    def preempt(self, sequence: Sequence, *, is_tainted: bool = False) -> None:
        """Take a running sequence's pages, and put it at the head of the queue."""
        self.running.remove(sequence)
        self._release(sequence, is_tainted=is_tainted)
        sequence.status = SequenceStatus.WAITING
        self.waiting.appendleft(sequence)
        self.num_preempted += 1

    def preempt_batch(self, batch: Batch) -> list[Sequence]:
        """Preempt a batch that did not fit into memory, and let half as many sequences run from now on.

        The number grows again later, by one every `RECOVERY_STEPS`. Returns the preempted sequences: all of
        the batch, except those that were stopped in the meantime.
        """
        self.max_running = max(1, len(batch.chunks) // 2)
        self._num_steps_since_shortage = 0
        sequences = [
            chunk.sequence for chunk in batch.chunks if chunk.sequence.status is SequenceStatus.RUNNING
        ]
        for sequence in reversed(sequences):
            self.preempt(sequence, is_tainted=True)
        return sequences

    def _recover(self) -> None:
        """Some time after a shortage of memory, let one more sequence run."""
        if self.max_running < self.settings.max_sequences:
            self._num_steps_since_shortage += 1
            if self._num_steps_since_shortage % RECOVERY_STEPS == 0:
                self.max_running += 1

    def _advance(self, sequence: Sequence, budget: int) -> Chunk | None:
        """The next chunk of a running sequence; None if it was preempted for lack of pages."""
        num_tokens = min(sequence.num_pending, budget)
        num_missing = self._num_pages(sequence.num_computed + num_tokens) - len(sequence.page_table)
        while num_missing > self.pool.num_free:
            youngest = self.running[-1]
            self.preempt(youngest)
            if youngest is sequence:
                return None
        sequence.page_table += self.pool.allocate(max(0, num_missing))
        return self._chunk(sequence, num_tokens)

    def _admit(self, sequence: Sequence, budget: int) -> Chunk | None:
        """Start a waiting sequence behind its longest cached prefix; None if its tokens do not fit now."""
        if len(self.running) >= self.max_running:
            return None
        size = self.pool.page_size
        hashes = sequence.page_hashes(size)
        # The last token is always computed: its logits choose the next one.
        cached = self.pool.match(hashes[: (len(sequence.token_ids) - 1) // size])
        num_missing = self._num_pages(len(sequence.token_ids)) - len(cached)
        if num_missing > self.pool.num_free - self.pool.count_free(cached):
            return None
        self.waiting.popleft()
        self.running.append(sequence)
        sequence.status = SequenceStatus.RUNNING
        self.pool.share(cached)
        sequence.page_table = cached + self.pool.allocate(num_missing)
        sequence.num_computed = len(cached) * size
        sequence.num_published = len(cached)
        if not sequence.has_run:
            sequence.has_run = True
            sequence.counters.num_cached = sequence.num_computed
        return self._chunk(sequence, min(sequence.num_pending, budget))

    def _chunk(self, sequence: Sequence, num_tokens: int) -> Chunk:
        """A chunk; the pages that it fills are published now.

        A sequence of the same batch may read them: every layer writes the whole batch before it reads.
        """
        chunk = Chunk(sequence, sequence.num_computed, num_tokens)
        hashes = sequence.page_hashes(self.pool.page_size)
        for index in range(sequence.num_published, chunk.end // self.pool.page_size):
            self.pool.publish(sequence.page_table[index], hashes[index])
            sequence.num_published = index + 1
        return chunk

    def _release(self, sequence: Sequence, *, is_tainted: bool) -> list[int]:
        pages = self.pool.release(sequence.page_table, is_tainted=is_tainted)
        sequence.page_table = []
        sequence.num_computed = sequence.num_published = 0
        return pages

    def _num_pages(self, num_tokens: int) -> int:
        return -(-num_tokens // self.pool.page_size)
