"""The scheduler: which tokens of which sequences the next step computes."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from runtime.errors import Overloaded
from runtime.page_pool import PagePool
from runtime.sequence import Sequence, State
from runtime.settings import EngineSettings

RECOVERY_STEPS = 64
"""After as many steps that fit, one more sequence is run beside the others."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """`num_tokens` pending tokens of a sequence, from position `start`."""

    sequence: Sequence
    start: int
    num_tokens: int

    @property
    def end(self) -> int:
        """The position after the last token."""
        return self.start + self.num_tokens

    @property
    def is_sampled(self) -> bool:
        """Whether the logits of the last token choose the next one."""
        return self.end == len(self.sequence.token_ids)


@dataclass(frozen=True, slots=True)
class Batch:
    """The chunks of one step; decoding is a chunk of one token."""

    chunks: tuple[Chunk, ...]

    @property
    def num_tokens(self) -> int:
        """Tokens of all chunks."""
        return sum(chunk.num_tokens for chunk in self.chunks)

    @property
    def sampled(self) -> list[Sequence]:
        """The sequences that get a token, in the order of the logits' rows."""
        return [chunk.sequence for chunk in self.chunks if chunk.is_sampled]


class Scheduler:
    """Continuous batching: first come, first served, and whoever runs goes on.

    Prompts share a step with decoding sequences, in chunks under the token budget. When pages run out, the
    youngest sequence is preempted: it loses its pages and is computed again later.
    """

    def __init__(self, settings: EngineSettings, pool: PagePool) -> None:
        self.settings = settings
        self.pool = pool
        self.running: list[Sequence] = []
        self.waiting: deque[Sequence] = deque()
        self.max_running = settings.max_sequences
        self._num_steps_since_retreat = 0
        self.num_preempted = 0

    def __iter__(self) -> Iterator[Sequence]:
        """All sequences, running ones first."""
        yield from self.running
        yield from self.waiting

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence, which must fit into the pool on its own.

        Raises:
            Overloaded: the queue is full.
        """
        if len(self.waiting) >= self.settings.max_waiting:
            raise Overloaded(self.settings.retry_after_s)
        self.waiting.append(sequence)

    def remove(self, sequence: Sequence, *, is_tainted: bool = False) -> list[int]:
        """Let go of a sequence, wherever it is; returns the pages nobody uses now."""
        if sequence in self.running:
            self.running.remove(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)
        return self._release(sequence, is_tainted=is_tainted)

    def schedule(self) -> Batch:
        """The next step's work; empty only if there is nothing to do."""
        self._recover()
        chunks: list[Chunk] = []
        budget = self.settings.max_batch_tokens
        num_preempted = self.num_preempted
        for index, sequence in enumerate(list(self.running)):
            if sequence.state is State.RUNNING:  # not preempted by an older one
                num_younger = len(self.running) - index - 1
                chunk = self._advance(sequence, budget - num_younger)
                chunks += [chunk] if chunk else []
                budget -= chunk.num_tokens if chunk else 0
        while self.waiting and budget > 0 and num_preempted == self.num_preempted:
            chunk = self._admit(self.waiting[0], budget)
            if chunk is None:
                break
            chunks.append(chunk)
            budget -= chunk.num_tokens
        return Batch(tuple(chunks))

    def preempt(self, sequence: Sequence, *, is_tainted: bool = False) -> None:
        """Send a running sequence back to the head of the queue, without its pages."""
        self.running.remove(sequence)
        self._release(sequence, is_tainted=is_tainted)
        sequence.state = State.WAITING
        self.waiting.appendleft(sequence)
        self.num_preempted += 1

    def retreat(self, batch: Batch) -> list[Sequence]:
        """Undo a step that did not fit into memory, and run fewer sequences; later one more, and one more.

        Returns the sequences that wait again: all of the step, but for those that were stopped meanwhile.
        """
        self.max_running = max(1, len(batch.chunks) // 2)
        self._num_steps_since_retreat = 0
        undone = [chunk.sequence for chunk in batch.chunks if chunk.sequence.state is State.RUNNING]
        for sequence in reversed(undone):
            self.preempt(sequence, is_tainted=True)
        return undone

    def _recover(self) -> None:
        """Memory that was short once need not stay so."""
        if self.max_running < self.settings.max_sequences:
            self._num_steps_since_retreat += 1
            if self._num_steps_since_retreat % RECOVERY_STEPS == 0:
                self.max_running += 1

    def _advance(self, sequence: Sequence, budget: int) -> Chunk | None:
        num_tokens = min(sequence.num_pending, budget)
        num_missing = self._num_pages(sequence.num_computed + num_tokens) - len(sequence.page_table)
        while num_missing > self.pool.num_idle:
            victim = self.running[-1]
            self.preempt(victim)
            if victim is sequence:
                return None
        sequence.page_table += self.pool.allocate(max(0, num_missing))
        return self._chunk(sequence, num_tokens)

    def _admit(self, sequence: Sequence, budget: int) -> Chunk | None:
        """Start a waiting sequence if all it has so far fits, behind the longest prefix already computed."""
        if len(self.running) >= self.max_running:
            return None
        size = self.pool.page_size
        hashes = sequence.page_hashes(size)
        # The last token is always computed: its logits are what comes next.
        shared = self.pool.match(hashes[: (len(sequence.token_ids) - 1) // size])
        num_missing = self._num_pages(len(sequence.token_ids)) - len(shared)
        if num_missing > self.pool.num_idle - self.pool.count_idle(shared):
            return None
        self.waiting.popleft()
        self.running.append(sequence)
        sequence.state = State.RUNNING
        self.pool.take(shared)
        sequence.page_table = shared + self.pool.allocate(num_missing)
        sequence.num_computed = len(shared) * size
        sequence.num_published = len(shared)
        if not sequence.has_run:
            sequence.has_run = True
            sequence.tally.num_cached = sequence.num_computed
        return self._chunk(sequence, min(sequence.num_pending, budget))

    def _chunk(self, sequence: Sequence, num_tokens: int) -> Chunk:
        """Publish the pages this chunk fills already: every layer writes the whole batch before it reads."""
        chunk = Chunk(sequence, sequence.num_computed, num_tokens)
        hashes = sequence.page_hashes(self.pool.page_size)
        for index in range(sequence.num_published, chunk.end // self.pool.page_size):
            self.pool.publish(sequence.page_table[index], hashes[index])
            sequence.num_published = index + 1
        return chunk

    def _release(self, sequence: Sequence, *, is_tainted: bool) -> list[int]:
        idle = self.pool.release(sequence.page_table, is_tainted=is_tainted)
        sequence.page_table = []
        sequence.num_computed = sequence.num_published = 0
        return idle

    def _num_pages(self, num_tokens: int) -> int:
        return -(-num_tokens // self.pool.page_size)
