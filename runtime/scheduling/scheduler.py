"""The scheduler: which tokens of which sequences the next step computes."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from runtime.errors import Overloaded, TooManySequences
from runtime.events import FinishReason
from runtime.scheduling.batch import Batch, Chunk, StepBudget
from runtime.scheduling.client_shares import ClientShares
from runtime.scheduling.page_pool import PagePool
from runtime.scheduling.sequence import Sequence, SequenceStatus
from runtime.scheduling.slow_grammars import SlowGrammars
from runtime.settings import EngineSettings

RECOVERY_STEPS = 64
"""After a shortage of memory, one more sequence may run every this many steps."""


class PageCopy(NamedTuple):
    """A page whose contents must be copied to another page before the next step."""

    source: int
    target: int


class Scheduler:
    """Continuous batching: sequences start in the order of arrival, and running ones go first.

    Prefill shares a step with decoding, in chunks within the token budget. When pages run out, the youngest
    running sequence is preempted: it loses its pages, and is computed again later. Where sequences belong to
    several clients, `ClientShares` decides instead of age alone.
    """

    def __init__(self, settings: EngineSettings, pool: PagePool, slow: SlowGrammars) -> None:
        self.settings = settings
        self.pool = pool
        self.slow = slow
        self.running: list[Sequence] = []
        self.waiting: list[Sequence] = []
        self.shares = ClientShares()
        self.max_running = settings.max_batch
        self._num_steps_since_shortage = 0
        self.num_preempted = 0

    def __iter__(self) -> Iterator[Sequence]:
        """All sequences, running ones first."""
        yield from self.running
        yield from self.waiting

    def add(self, sequence: Sequence) -> Sequence | None:
        """Queue a sequence. Its whole context must fit into the pool.

        A population counts as many sequences as it runs at once. If the queue is full, a client with more
        waiting choices makes room: its newest choice that has never run is ended and returned.

        Raises:
            TooManySequences: its client has too many already.
            Overloaded: the queue is full.
        """
        own = _choices(other for other in self if other.client_id == sequence.client_id)
        if sum(other.num_together for other in (*own, sequence)) > self.settings.max_sequences_per_client:
            raise TooManySequences(self.settings.max_sequences_per_client)
        dropped = None
        waiting = _choices(self.waiting)
        if len(waiting) >= self.settings.max_waiting:
            dropped = self._choice_to_drop(waiting, sequence.client_id)
            if dropped is None:
                raise Overloaded
            self.end(dropped)
        self.enqueue(sequence)
        return dropped

    def enqueue(self, sequence: Sequence) -> None:
        """Queue a sequence of a choice that `add` admitted; no limits apply."""
        sequence.status = SequenceStatus.WAITING
        self.waiting.append(sequence)
        self.shares.enter(sequence)

    def park(self, sequence: Sequence) -> None:
        """Take a sequence out of the batch, without its pages, until it is resumed."""
        self.remove(sequence)
        sequence.status = SequenceStatus.PARKED
        sequence.token_counts = None

    def resume(self, sequence: Sequence) -> None:
        """Put a parked sequence at the head of the queue: its choice was admitted long ago."""
        sequence.status = SequenceStatus.WAITING
        self.waiting.insert(0, sequence)
        self.shares.enter(sequence)

    def has_room_for_copy(self, sequence: Sequence) -> bool:
        """Whether a copy of a sequence can run now, on the same pages; only a running sequence has pages."""
        is_running = sequence.status is SequenceStatus.RUNNING
        has_partial_page = sequence.num_computed % self.pool.page_size > 0
        return is_running and len(self.running) < self.max_running and self.pool.num_free >= has_partial_page

    def start_copy(self, twin: Sequence, sequence: Sequence) -> PageCopy | None:
        """Run `twin`, a copy of a running sequence, on the same pages; there must be room for it.

        Both sequences go on writing the last page if it is not full, so they cannot share it. The caller must
        carry out the returned copy of that page; None if there is none.
        """
        num_full, num_rest = divmod(sequence.num_computed, self.pool.page_size)
        shared = sequence.page_table[:num_full]
        self.pool.share(shared)
        new_pages = self.pool.allocate(bool(num_rest))
        twin.page_table = shared + new_pages
        twin.num_computed = sequence.num_computed
        twin.status = SequenceStatus.RUNNING
        self.running.append(twin)
        self.shares.enter(twin)
        return PageCopy(sequence.page_table[num_full], new_pages[0]) if new_pages else None

    def _choice_to_drop(self, waiting: list[Sequence], client_id: str) -> Sequence | None:
        """The newest choice that has never run, of the client with most waiting choices.

        None if that client has hardly more than `client_id`, or if all its choices have run.
        """
        num_waiting = Counter(other.client_id for other in waiting)
        largest, number = num_waiting.most_common(1)[0]
        if number <= num_waiting[client_id] + 1:
            return None
        unstarted = (other for other in reversed(waiting) if other.client_id == largest and not other.has_run)
        return next(unstarted, None)

    def remove(self, sequence: Sequence, *, is_tainted: bool = False) -> list[int]:
        """Remove a sequence, running or waiting; returns the pages that are free now."""
        for sequences in (self.running, self.waiting):
            if sequence in sequences:
                sequences.remove(sequence)
                self.shares.leave(sequence)
        return self._release(sequence, is_tainted=is_tainted)

    def end(
        self, sequence: Sequence, reason: FinishReason = FinishReason.STOP, *, is_tainted: bool = False
    ) -> list[int]:
        """Remove a sequence for good, unless it has ended already; returns the pages that are free now."""
        if sequence.status is SequenceStatus.FINISHED:
            return []
        pages = self.remove(sequence, is_tainted=is_tainted)
        sequence.finish(reason)
        return pages

    def schedule(self) -> Batch:
        """The batch of the next step; it is empty only if all work is that of resting slow sequences."""
        self._recover()
        self._make_room()
        max_tokens, num_preempted = self.settings.max_batch_tokens, self.num_preempted
        budget = StepBudget(max_tokens, self.shares.quotas(self.running, self.waiting, max_tokens))
        chunks = self._continue_running(budget)
        if self.num_preempted == num_preempted:  # otherwise pages are short
            chunks += self._start_waiting(budget)
        return Batch(tuple(chunks))

    def _continue_running(self, budget: StepBudget) -> list[Chunk]:
        """The chunks of running sequences; each leaves one token of the budget to every later sequence."""
        chunks = []
        in_order = self.shares.in_order(self.running)
        due = self._due_sequences(in_order)
        for index, sequence in enumerate(in_order):
            if sequence not in due or sequence.status is not SequenceStatus.RUNNING:
                continue  # it may have been preempted just now, for the pages of an earlier one
            num_later = len(in_order) - index - 1
            chunk = self._continue(sequence, budget.max_tokens(sequence, num_later), in_order[index:])
            if chunk is not None:
                chunks.append(chunk)
                budget.spend(chunk)
        return chunks

    def _start_waiting(self, budget: StepBudget) -> list[Chunk]:
        """The chunks of waiting sequences that start now, until one does not fit."""
        chunks = []
        while self.waiting and budget.num_left > 0:
            sequence = self.shares.next_of(self.waiting)
            chunk = self._admit(sequence, budget)
            if chunk is None:
                break
            if chunk.num_tokens:
                chunks.append(chunk)
                budget.spend(chunk)
        return chunks

    def _due_sequences(self, running: list[Sequence]) -> set[Sequence]:
        """The running sequences that this step computes: those with tokens due, except those that sit out."""
        due = [sequence for sequence in running if sequence.num_due]
        resting = self.slow.resting(due, self.waiting)
        due = [sequence for sequence in due if sequence not in resting]
        return set(due) - self.shares.take_turns(due, self.settings.max_stepped_per_client)

    def waiting_for_masks(self, sampled: list[Sequence]) -> Collection[Sequence]:
        """The sequences of a step that wait for their next masks, since these take long and others do not."""
        return self.slow.resting(sampled, (*self.running, *self.waiting))

    def preempt(self, sequence: Sequence, *, is_tainted: bool = False) -> None:
        """Take a running sequence's pages, and put it at the head of the queue."""
        self.running.remove(sequence)
        self._release(sequence, is_tainted=is_tainted)
        sequence.status = SequenceStatus.WAITING
        self.waiting.insert(0, sequence)
        self.num_preempted += 1

    def preempt_batch(self, batch: Batch) -> list[Sequence]:
        """Preempt a batch that could not be computed, and let half as many sequences run from now on.

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

    def lift_limit(self) -> None:
        """Let as many sequences run as the settings say: the one that made its batches fail has ended."""
        self.max_running = self.settings.max_batch

    def _recover(self) -> None:
        """Let one more sequence run every `RECOVERY_STEPS` after a shortage of memory."""
        if self.max_running < self.settings.max_batch:
            self._num_steps_since_shortage += 1
            if self._num_steps_since_shortage % RECOVERY_STEPS == 0:
                self.max_running += 1

    def _make_room(self) -> None:
        """Preempt sequences that must make room for the next waiting sequence; held ones go first.

        This happens before the step has chunks: a sequence with a chunk keeps its pages, as others may read
        them.
        """
        if not self.waiting:
            return
        self._park_held()
        sequence = self.shares.next_of(self.waiting)
        if len(self.running) >= self.max_running and (
            victim := self.shares.giving_place(self.running, sequence)
        ):
            self.preempt(victim)
        num_pages = self._num_pages(len(sequence.token_ids))
        if len(self.running) < self.max_running:
            while self._num_missing_pages(sequence) > 0 and (
                victim := self.shares.giving_pages(self.running, sequence, num_pages)
            ):
                self.preempt(victim)

    def _park_held(self) -> None:
        """Park sequences that wait for the others of their population."""
        for sequence in [sequence for sequence in self.running if sequence.is_held]:
            self.park(sequence)

    def _cached_pages(self, sequence: Sequence) -> list[int]:
        """The pages of a waiting sequence's longest cached prefix.

        The last token is always computed, because its logits choose the next one. So are forced tokens that
        must still be weighed, and the token before them, even if another sequence has computed the same.
        """
        size = self.pool.page_size
        num_known = len(sequence.token_ids) if sequence.weight is None else sequence.weight.num_counted
        return self.pool.match(sequence.page_digests(size)[: (num_known - 1) // size])

    def _num_missing_pages(self, sequence: Sequence) -> int:
        """How many more pages than are free a waiting sequence needs."""
        cached = self._cached_pages(sequence)
        num_new = self._num_pages(len(sequence.token_ids)) - len(cached)
        return num_new - (self.pool.num_free - self.pool.count_free(cached))

    def _continue(self, sequence: Sequence, budget: int, unscheduled: list[Sequence]) -> Chunk | None:
        """The next chunk of a running sequence; None if it was preempted for lack of pages.

        Pages are taken from `unscheduled` sequences, which have no chunk in this step yet.
        """
        num_tokens = min(sequence.num_due, budget)
        num_missing = self._num_pages(sequence.num_computed + num_tokens) - len(sequence.page_table)
        if num_missing > self.pool.num_free:
            self._park_held()
        while num_missing > self.pool.num_free:
            still_running = [other for other in unscheduled if other.status is SequenceStatus.RUNNING]
            victim = self.shares.last_of_largest(still_running)
            self.preempt(victim)
            if victim is sequence:
                return None
        sequence.page_table += self.pool.allocate(max(0, num_missing))
        return self._schedule_chunk(sequence, num_tokens)

    def _admit(self, sequence: Sequence, budget: StepBudget) -> Chunk | None:
        """Start a waiting sequence after its longest cached prefix; None if its tokens do not fit now."""
        if len(self.running) >= self.max_running or self._num_missing_pages(sequence) > 0:
            return None
        cached = self._cached_pages(sequence)
        self.waiting.remove(sequence)
        self.running.append(sequence)
        sequence.status = SequenceStatus.RUNNING
        self.pool.share(cached)
        num_pages = self._num_pages(len(sequence.token_ids))
        sequence.page_table = cached + self.pool.allocate(num_pages - len(cached))
        sequence.num_computed = len(cached) * self.pool.page_size
        if not sequence.has_run:
            sequence.has_run = True
            sequence.times.note_begun()
            sequence.counters.num_cached = sequence.num_computed
        return self._schedule_chunk(sequence, min(sequence.num_due, budget.max_tokens(sequence)))

    def _schedule_chunk(self, sequence: Sequence, num_tokens: int) -> Chunk:
        """Schedule tokens of a sequence: charge its client, and publish the pages that they fill.

        A sequence of the same batch may read these: every layer writes the whole batch before it reads.
        """
        chunk = Chunk(sequence, sequence.num_computed, num_tokens)
        self.shares.charge(sequence, chunk.end)
        digests = sequence.page_digests(self.pool.page_size)
        for index in range(chunk.start // self.pool.page_size, chunk.end // self.pool.page_size):
            self.pool.publish(sequence.page_table[index], digests[index])
        return chunk

    def _release(self, sequence: Sequence, *, is_tainted: bool) -> list[int]:
        pages = self.pool.release(sequence.page_table, is_tainted=is_tainted)
        sequence.page_table = []
        sequence.num_computed = 0
        return pages

    def _num_pages(self, num_tokens: int) -> int:
        return -(-num_tokens // self.pool.page_size)


def _choices(sequences: Iterable[Sequence]) -> list[Sequence]:
    """The first sequence of each choice, in order."""
    return list(dict.fromkeys(sequence.first for sequence in sequences))
