"""Client shares: how the clients of one engine share its batches and its memory.

Sequences of one client (`client_id`) start in the order of arrival. Between clients, six rules hold:

- The client that has had fewest tokens (`FairShares`) starts its next sequence first.
- A step's prefill is divided equally between the clients that have prompts to compute.
- A step computes only some sequences of a client, in turns, so that other clients need not wait for them all.
- If a batch is full, a client with at least two sequences more than the waiting client loses its youngest.
- If pages are short, the client that holds most loses its youngest sequence. For a new sequence this happens
  only if that client holds more than twice what the new sequence's client would hold.
- No new sequence takes a place or pages from a client that has had no more tokens than its own.

A client can also lose a sequence because it has had many more tokens than the waiting client. So clients take
turns even if there are more of them than fit into a batch. With a single client, none of this has an effect.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from collections.abc import Sequence as Several
from itertools import count

from runtime.scheduling.sequence import Sequence
from toolspecs.fairness.fair_shares import FairShares

TURN_TOKENS = 32
"""A client that has had this many more tokens than another one gives it a place in the batch.

Half the length of the sequence that would lose its place is added, since it may be computed again.
"""


class ClientShares:
    """Counts the tokens of each client, and says whose sequence comes next or gives way."""

    def __init__(self) -> None:
        self._tokens = FairShares()
        self._turns = count(1)

    def enter(self, sequence: Sequence) -> None:
        """A sequence was queued."""
        self._tokens.enter(sequence.client_id)

    def leave(self, sequence: Sequence) -> None:
        """A sequence is done."""
        self._tokens.leave(sequence.client_id)

    def num_of(self, client_id: str) -> int:
        """How many sequences of a client run or wait; any thread may ask."""
        return self._tokens.num_present(client_id)

    def charge(self, sequence: Sequence, end: int) -> None:
        """Charge a sequence's client for its tokens up to `end`; tokens computed a second time are free."""
        start = max(sequence.num_computed, sequence.num_charged)
        if end > start:
            self._tokens.charge(sequence.client_id, end - start)
            sequence.num_charged = end

    def in_order(self, running: Several[Sequence]) -> list[Sequence]:
        """The running sequences; those of the client that holds most pages come last: they may give way."""
        num_pages = self._num_pages(running)
        return sorted(running, key=lambda sequence: num_pages[sequence.client_id])

    def next_of(self, waiting: Iterable[Sequence]) -> Sequence:
        """The waiting sequence that is to start next."""
        return min(waiting, key=self._served)  # the first of equals

    def quotas(
        self, running: Iterable[Sequence], waiting: Several[Sequence], budget: int
    ) -> defaultdict[str, int]:
        """How many tokens each client may have in this step; a running sequence may always have one."""
        prefilling = {sequence.client_id for sequence in running if sequence.num_pending > 1}
        if waiting:
            prefilling.add(self.next_of(waiting).client_id)
        quota = budget // max(1, len(prefilling))
        return defaultdict(lambda: quota)

    def take_turns(self, due: Iterable[Sequence], most: int) -> set[Sequence]:
        """Give each client at most `most` places in this step, in turns; returns those that sit out.

        A client that is alone has all places.
        """
        of_client: defaultdict[str, list[Sequence]] = defaultdict(list)
        for sequence in due:
            of_client[sequence.client_id].append(sequence)
        if len(of_client) == 1:
            return set()
        sitting_out: set[Sequence] = set()
        for sequences in of_client.values():
            sequences.sort(key=lambda sequence: sequence.last_turn)
            sitting_out.update(sequences[most:])
            for sequence in sequences[:most]:
                sequence.last_turn = next(self._turns)
        return sitting_out

    def giving_place(self, running: Several[Sequence], waiting: Sequence) -> Sequence | None:
        """The running sequence that gives its place in a full batch to `waiting`; None if none has to."""
        num_running = Counter(sequence.client_id for sequence in running)
        return self._giving_way(running, num_running, waiting, limit=num_running[waiting.client_id] + 1)

    def giving_pages(self, running: Several[Sequence], waiting: Sequence, num_pages: int) -> Sequence | None:
        """The running sequence that gives its pages to `waiting`, which needs `num_pages`, if one has to."""
        held = self._num_pages(running)
        return self._giving_way(running, held, waiting, limit=2 * (held[waiting.client_id] + num_pages))

    def last_of_largest(self, running: Several[Sequence]) -> Sequence:
        """The last sequence of the client that holds most pages."""
        num_pages = self._num_pages(running)
        most = max(num_pages.values())
        return next(sequence for sequence in reversed(running) if num_pages[sequence.client_id] == most)

    def _giving_way(
        self, running: Several[Sequence], held: Counter[str], waiting: Sequence, limit: int
    ) -> Sequence | None:
        """The youngest sequence of the client that holds most; None if the client is within its limit.

        A client that has had no more tokens would start again at once, before `waiting`, and give way again
        in the next step.
        """
        others = [
            s
            for s in running
            if self._served(s) > self._served(waiting) and held[s.client_id] > held[waiting.client_id]
        ]
        if not others:
            return None
        candidate = max(reversed(others), key=lambda s: (held[s.client_id], self._served(s)))
        ahead = self._served(candidate) - self._served(waiting)
        has_more = held[candidate.client_id] > limit
        return candidate if has_more or ahead > TURN_TOKENS + len(candidate.token_ids) / 2 else None

    @staticmethod
    def _num_pages(running: Iterable[Sequence]) -> Counter[str]:
        num_pages: Counter[str] = Counter()
        for sequence in running:
            num_pages[sequence.client_id] += len(sequence.page_table)
        return num_pages

    def _served(self, sequence: Sequence) -> float:
        """The tokens that a sequence's client has had. Only differences mean anything."""
        return self._tokens.served(sequence.client_id)
