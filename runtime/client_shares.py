"""Client shares: how the clients of one engine share its batches and its memory.

A sequence has a `share`, a text that stands for its client. Within a share, sequences start in the order of
arrival. Between shares, five rules hold:

- The share that has had fewest tokens (`FairShares`) starts its next sequence first.
- A step's prefill is divided equally between the shares that have prompts to compute.
- A step computes only some sequences of a share, in turns, so that other shares need not wait for them all.
- If a batch is full, a share with at least two sequences more than the waiting share loses its youngest.
- If pages are short, the share that holds most loses its youngest sequence. For a new sequence this happens
  only if that share holds more than twice what the new sequence's share would hold.

A share can also lose a sequence because it has had many more tokens than the waiting share. So clients take
turns even if there are more of them than fit into a batch. With a single share, none of this has an effect.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from collections.abc import Sequence as Several
from itertools import count

from runtime.sequence import Sequence
from toolspecs.fair_shares import FairShares

TURN_TOKENS = 32
"""A share that has had this many more tokens than another one gives it a place in the batch.

Half the length of the sequence that would lose its place is added, since it may be computed again.
"""


class ClientShares:
    """Counts the tokens of each share, and says whose sequence comes next or gives way."""

    def __init__(self) -> None:
        self._tokens = FairShares()
        self._turns = count(1)

    def enter(self, sequence: Sequence) -> None:
        """A sequence was queued."""
        self._tokens.enter(sequence.share)

    def leave(self, sequence: Sequence) -> None:
        """A sequence is done."""
        self._tokens.leave(sequence.share)

    def num_of(self, share: str) -> int:
        """How many sequences of a share run or wait; any thread may ask."""
        return self._tokens.num_present(share)

    def charge(self, sequence: Sequence, end: int) -> None:
        """Charge a sequence's share for its tokens up to `end`; tokens computed a second time are free."""
        start = max(sequence.num_computed, sequence.num_charged)
        if end > start:
            self._tokens.charge(sequence.share, end - start)
            sequence.num_charged = end

    def in_order(self, running: Several[Sequence]) -> list[Sequence]:
        """The running sequences; those of the share that holds most pages come last, as they may give way."""
        num_pages = self._num_pages(running)
        return sorted(running, key=lambda sequence: num_pages[sequence.share])

    def next_of(self, waiting: Iterable[Sequence]) -> Sequence:
        """The waiting sequence that is to start next."""
        return min(waiting, key=self._served)  # the first of equals

    def quotas(
        self, running: Iterable[Sequence], waiting: Several[Sequence], budget: int
    ) -> defaultdict[str, int]:
        """How many tokens each share may have in this step; a running sequence may always have one."""
        prefilling = {sequence.share for sequence in running if sequence.num_pending > 1}
        if waiting:
            prefilling.add(self.next_of(waiting).share)
        quota = budget // max(1, len(prefilling))
        return defaultdict(lambda: quota)

    def resting(self, due: Iterable[Sequence], most: int) -> set[Sequence]:
        """The sequences of `due` that sit out this step, so that each share has at most `most` in it."""
        of_share: defaultdict[str, list[Sequence]] = defaultdict(list)
        for sequence in due:
            of_share[sequence.share].append(sequence)
        if len(of_share) == 1:
            return set()
        resting: set[Sequence] = set()
        for sequences in of_share.values():
            sequences.sort(key=lambda sequence: sequence.last_turn)
            resting.update(sequences[most:])
            for sequence in sequences[:most]:
                sequence.last_turn = next(self._turns)
        return resting

    def giving_place(self, running: Several[Sequence], waiting: Sequence) -> Sequence | None:
        """The running sequence that gives its place in a full batch to `waiting`; None if none has to."""
        num_running = Counter(sequence.share for sequence in running)
        return self._giving_way(running, num_running, waiting, limit=num_running[waiting.share] + 1)

    def giving_pages(self, running: Several[Sequence], waiting: Sequence, num_pages: int) -> Sequence | None:
        """The running sequence that gives its pages to `waiting`, which needs `num_pages`, if one has to."""
        held = self._num_pages(running)
        return self._giving_way(running, held, waiting, limit=2 * (held[waiting.share] + num_pages))

    def last_of_largest(self, running: Several[Sequence]) -> Sequence:
        """The last sequence of the share that holds most pages."""
        num_pages = self._num_pages(running)
        most = max(num_pages.values())
        return next(sequence for sequence in reversed(running) if num_pages[sequence.share] == most)

    def _giving_way(
        self, running: Several[Sequence], held: Counter[str], waiting: Sequence, limit: int
    ) -> Sequence | None:
        """The youngest sequence of the share that holds most; None if the share is within its limit."""
        others = [s for s in running if s.share != waiting.share and held[s.share] > held[waiting.share]]
        if not others:
            return None
        candidate = max(reversed(others), key=lambda s: (held[s.share], self._served(s)))
        ahead = self._served(candidate) - self._served(waiting)
        has_more = held[candidate.share] > limit
        return candidate if has_more or ahead > TURN_TOKENS + len(candidate.token_ids) / 2 else None

    @staticmethod
    def _num_pages(running: Iterable[Sequence]) -> Counter[str]:
        num_pages: Counter[str] = Counter()
        for sequence in running:
            num_pages[sequence.share] += len(sequence.page_table)
        return num_pages

    def served(self, share: str) -> float:
        """The tokens that a share has had. Only differences mean anything."""
        return self._tokens.served(share)

    def _served(self, sequence: Sequence) -> float:
        return self.served(sequence.share)
