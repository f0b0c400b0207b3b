"""Slow grammars: sequences whose masks take long wait, so that those of other clients need not.

A mask usually takes a tenth of a millisecond. If very many derivations fit a text, it takes a second: the
grammar is ambiguous, perhaps by malice. All sequences share the engine's only thread. So the thread's
processor time is counted for each sequence: for its masks, its closer and its forced tokens.

- A sequence is slow if its last token took more than `SLOW_S`, or if the last slow token of its client is
  less than `RECENT_S` ago: a short answer ends before it is known that it is slow. A step has only as many
  slow sequences as took `STEP_S` together, but at least one. The client that has had fewest tokens comes
  first.
- Once a step has spent `STEP_S`, it fills no more masks: the other sequences wait for the next step.
- While other clients have quick sequences, slow ones rest for `REST` times as long as they took.
- A sequence whose slow tokens took more than `MAX_SLOW_S` fails. A schema that takes as long to compile is
  refused too.
"""

import math
import time
from collections.abc import Callable, Collection, Iterator
from collections.abc import Sequence as Several
from contextlib import contextmanager
from itertools import accumulate, chain

from runtime.sequence import Sequence

SLOW_S = 0.01
STEP_S = 0.1
REST = 4
RECENT_S = 5.0
MAX_SLOW_S = 3.0
_USUAL_S = 0.001
"""So much time of each token does not count in a step: a step has hundreds of usual tokens."""

Clock = Callable[[], float]


class SlowGrammars:
    """Counts the time that the grammar of each sequence takes, and says which sequences sit out a step."""

    def __init__(
        self,
        clock: Clock = time.monotonic,
        processor_clock: Clock = time.thread_time,
        begin_for: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._begin_for = begin_for
        """Called with the client of a sequence whose time is counted from now on."""
        self._clock = clock
        self._processor_clock = processor_clock
        self._resumes_at = -math.inf
        self._step_s = 0.0
        self._slow_shares: dict[str, tuple[float, float]] = {}
        """What the last slow token of a share took, and when that is forgotten."""

    def begin_step(self) -> None:
        """A step begins: it may spend `STEP_S`."""
        self._step_s = 0.0

    def has_time(self) -> bool:
        """Whether this step may fill one more mask."""
        return self._step_s <= STEP_S

    @contextmanager
    def timed(self, sequence: Sequence) -> Iterator[None]:
        """Add the processor time of the block to the sequence's next token."""
        self._begin_for(sequence.share)
        start = self._processor_clock()
        try:
            yield
        finally:
            taken_s = self._processor_clock() - start
            sequence.token_s += taken_s
            self._step_s += max(0.0, taken_s - _USUAL_S)

    def end_token(self, sequence: Sequence) -> bool:
        """End the counting of one token; returns whether the sequence's slow tokens have taken too long."""
        taken_s, sequence.token_s = sequence.token_s, 0.0
        sequence.slow_token_s = taken_s if taken_s > SLOW_S else 0.0
        if sequence.slow_token_s:
            sequence.slow_s += taken_s
            now = self._clock()
            self._resumes_at = now + REST * taken_s
            self._slow_shares = {share: slow for share, slow in self._slow_shares.items() if slow[1] > now}
            self._slow_shares[sequence.share] = taken_s, now + RECENT_S
        return sequence.slow_s > MAX_SLOW_S

    def expected_s(self, sequence: Sequence) -> float:
        """What the next token of a slow sequence will take; 0 for a quick one."""
        if sequence.slow_token_s or sequence.matcher is None:
            return sequence.slow_token_s
        recent = self._slow_shares.get(sequence.share)
        return recent[0] if recent and self._clock() < recent[1] else 0.0

    def resting(
        self, due: Several[Sequence], waiting: Several[Sequence], served: Callable[[str], float]
    ) -> Collection[Sequence]:
        """The sequences that sit out the next step, of those with tokens to compute.

        `served` says how many tokens a share has had.
        """
        expected_s = {sequence: self.expected_s(sequence) for sequence in due}
        slow = [sequence for sequence in due if expected_s[sequence]]
        if not slow:
            return ()
        others = (sequence for sequence in waiting if sequence not in expected_s)
        quick = chain((s for s in due if not expected_s[s]), (s for s in others if not self.expected_s(s)))
        quick_shares = {sequence.share for sequence in quick}
        have_rested = self._clock() >= self._resumes_at
        candidates = [s for s in slow if have_rested or not quick_shares - {s.share}]
        candidates.sort(key=lambda sequence: served(sequence.share))
        totals_s = accumulate(expected_s[sequence] for sequence in candidates)
        num_stepped = max(1, sum(total_s <= STEP_S for total_s in totals_s))
        return frozenset(slow).difference(candidates[:num_stepped])
