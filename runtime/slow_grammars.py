"""Slow grammars: sequences whose masks take long must wait, so that those of other clients need not.

A mask usually takes a tenth of a millisecond. If very many derivations fit a text, it takes a second: by
malice, or because a grammar is ambiguous. All sequences share the engine's only thread. So the thread's
processor time is counted for each sequence: for its masks, its closer and its forced tokens.

- A sequence is slow if its last token took more than `SLOW_S`. The slow sequences of one step took no more
  than `STEP_S` together, or it is only one; the client that has had fewest tokens comes first.
- While other clients have quick sequences, slow ones rest for `REST` times as long as they took.
- A sequence whose slow tokens took more than `MAX_SLOW_S` fails: a schema that takes as long to compile is
  refused, too.
"""

import math
import time
from collections.abc import Callable, Collection, Iterator
from collections.abc import Sequence as Several
from contextlib import contextmanager
from itertools import accumulate

from runtime.sequence import Sequence

SLOW_S = 0.01
STEP_S = 0.1
REST = 4
MAX_SLOW_S = 3.0

Clock = Callable[[], float]


class SlowGrammars:
    """Counts the time of each sequence, and says which of them sit out a step."""

    def __init__(self, clock: Clock = time.monotonic, processor_clock: Clock = time.thread_time) -> None:
        self._clock = clock
        self._processor_clock = processor_clock
        self._resumes_at = -math.inf

    @contextmanager
    def counted(self, sequence: Sequence) -> Iterator[None]:
        """Count the processor time of the block for a sequence."""
        start = self._processor_clock()
        try:
            yield
        finally:
            sequence.token_s += self._processor_clock() - start

    def end_token(self, sequence: Sequence) -> bool:
        """End the counting of one token; returns whether the sequence's slow tokens have taken too long."""
        taken_s, sequence.token_s = sequence.token_s, 0.0
        sequence.slow_token_s = taken_s if taken_s > SLOW_S else 0.0
        if sequence.slow_token_s:
            sequence.slow_s += taken_s
            self._resumes_at = self._clock() + REST * taken_s
        return sequence.slow_s > MAX_SLOW_S

    def resting(
        self, running: Several[Sequence], waiting: Several[Sequence], served: Callable[[str], float]
    ) -> Collection[Sequence]:
        """The running sequences that sit out the next step; `served` is what a share has had."""
        slow = [sequence for sequence in running if sequence.slow_token_s]
        if not slow:
            return ()
        quick = {sequence.share for sequence in (*running, *waiting) if not sequence.slow_token_s}
        are_over = self._clock() >= self._resumes_at
        able = [sequence for sequence in slow if are_over or not quick - {sequence.share}]
        able.sort(key=lambda sequence: served(sequence.share))
        taken_s = accumulate(sequence.slow_token_s for sequence in able)
        num_able = max(1, sum(total_s <= STEP_S for total_s in taken_s))
        return frozenset(slow).difference(able[:num_able])
