"""Slow grammars: sequences whose masks take long wait, so that those of other clients need not.

A mask usually takes a tenth of a millisecond. If very many derivations fit a text, it takes a second: the
grammar is ambiguous, perhaps by malice. All sequences share the engine's only thread. So the thread's
processor time is counted for each sequence: for its masks, its closer and its forced tokens.

- A sequence is slow if its last token took more than `SLOW_S`. Beside sequences of other clients, so are its
  `FIRST_TOKENS`, if its client had a slow one less than `RECENT_S` ago: a short answer ends before it is
  known that it is slow. So are all of its tokens, if that one took more than `STEP_S`: an output may fail
  with its first slow token.
- A step has only as many slow sequences as take `STEP_S` together, but at least one. The client whose recent
  slow tokens took least comes first.
- A step fills masks in one phase, and writes tokens in another. Once a phase has spent `STEP_S`, the other
  sequences wait. Those that have waited longest come first in the next step.
- While other clients have quick sequences, slow ones rest for `REST_FACTOR` times as long as the slowest
  took. Meanwhile a step has slow sequences of `LIGHT_STEP_S` only, of *light* clients, which took far less
  than another one. They do not prolong the rest.
- A sequence whose slow tokens took more than `MAX_SLOW_S` fails. A schema that takes as long to compile is
  refused too.
"""

import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Sequence as Several
from contextlib import contextmanager
from itertools import accumulate
from typing import NamedTuple

from compiler.timed_fills import TimedFills
from runtime.scheduling.sequence import Sequence

SLOW_S = 0.01
STEP_S = 0.1
REST_FACTOR = 4
RECENT_S = 5.0
FIRST_TOKENS = 4
LIGHT = 8
"""A client is light whose recent slow tokens took less than this part of those of another one."""
LIGHT_STEP_S = 2 * SLOW_S
"""How much of a step light clients' slow sequences may take while the others rest."""
MAX_SLOW_S = 3.0
_USUAL_S = 0.001
"""This much of each token's time is not counted, since a step may have hundreds of usual tokens."""


class _SlowTokens(NamedTuple):
    """The slow tokens of a client: what the last one took, what all took, and when the last one was.

    `total_s` halves every `RECENT_S`. A client without slow tokens for that long has none.
    """

    last_s: float = 0.0
    total_s: float = 0.0
    noted_at: float = -math.inf

    def at(self, now: float) -> "_SlowTokens":
        """What is left of them at a later time."""
        age_s = now - self.noted_at
        if age_s >= RECENT_S:
            return _SlowTokens()
        return self._replace(total_s=self.total_s / 2 ** (age_s / RECENT_S))


class SlowGrammars:
    """Counts the time that the grammar of each sequence takes, and says which sequences sit out a step."""

    def __init__(self, fills: TimedFills) -> None:
        self._begin_for = fills.begin_for
        self._processor_clock = fills.processor_s
        self._clock = time.monotonic
        self._resumes_at = -math.inf
        self._phase_s = 0.0
        self._block_start: float | None = None
        """When the block began whose time is being added."""
        self._slow_clients: dict[str, _SlowTokens] = {}

    def begin_phase(self) -> None:
        """A phase of a step begins, masks or tokens; each may spend `STEP_S`."""
        self._phase_s = 0.0

    def has_time(self) -> bool:
        """Whether this phase may go on, with one more sequence or one more token of the current one."""
        running_s = 0.0
        if self._block_start is not None:
            running_s = max(0.0, self._processor_clock() - self._block_start - _USUAL_S)
        return self._phase_s + running_s <= STEP_S

    def has_time_for(self, sequence: Sequence) -> bool:
        """Whether this phase may go on with a sequence. Text without a grammar never waits."""
        return sequence.matcher is None or self.has_time()

    @contextmanager
    def timed(self, sequence: Sequence) -> Iterator[None]:
        """Add the processor time of the block to the sequence's next token."""
        self._begin_for(sequence.client_id)
        self._block_start = start = self._processor_clock()
        try:
            yield
        finally:
            self._block_start = None
            taken_s = self._processor_clock() - start
            sequence.grammar_time.next_s += taken_s
            self._phase_s += max(0.0, taken_s - _USUAL_S)

    def end_token(self, sequence: Sequence) -> None:
        """A token of a sequence ends: count its time if it was slow."""
        spent = sequence.grammar_time
        taken_s, spent.next_s = spent.next_s, 0.0
        spent.last_slow_s = taken_s if taken_s > SLOW_S else 0.0
        if spent.last_slow_s:
            spent.all_slow_s += taken_s
            self._note(sequence.client_id, taken_s)

    def has_taken_too_long(self, sequence: Sequence) -> bool:
        """Whether a sequence's slow tokens have taken more than `MAX_SLOW_S` together, so that it fails."""
        return sequence.grammar_time.all_slow_s > MAX_SLOW_S

    def _note(self, client_id: str, taken_s: float) -> None:
        """Note a slow token of a client."""
        now = self._clock()
        recent = self._recent()
        own = recent.get(client_id, _SlowTokens())
        if taken_s > LIGHT_STEP_S or not _is_light(own, recent):
            self._resumes_at = max(self._resumes_at, now + REST_FACTOR * taken_s)
        self._slow_clients = {name: slow for name, slow in self._slow_clients.items() if name in recent}
        self._slow_clients[client_id] = _SlowTokens(taken_s, own.total_s + taken_s, now)

    def _recent(self) -> dict[str, _SlowTokens]:
        """The slow tokens of all clients that have had some recently."""
        now = self._clock()
        recent = {client_id: tokens.at(now) for client_id, tokens in self._slow_clients.items()}
        return {client_id: tokens for client_id, tokens in recent.items() if tokens.total_s}

    def expected_s(self, sequence: Sequence, *, is_client_alone: bool = False) -> float:
        """What the next token of a slow sequence will take; 0 for a quick one."""
        last_slow_s = sequence.grammar_time.last_slow_s
        if last_slow_s or sequence.matcher is None or is_client_alone:
            return last_slow_s
        recent_s = self._slow_clients.get(sequence.client_id, _SlowTokens()).at(self._clock()).last_s
        return recent_s if recent_s > STEP_S or sequence.num_output < FIRST_TOKENS else 0.0

    def resting(self, due: Several[Sequence], others: Iterable[Sequence]) -> Collection[Sequence]:
        """The sequences that sit out the next step, of those with tokens to compute."""
        everyone = (*due, *others)
        is_alone = len({sequence.client_id for sequence in everyone}) == 1
        expected_s = {sequence: self.expected_s(sequence, is_client_alone=is_alone) for sequence in due}
        slow = [sequence for sequence in due if expected_s[sequence]]
        if not slow:
            return ()
        quick_clients = {
            sequence.client_id
            for sequence in everyone
            if not expected_s.get(sequence, sequence.grammar_time.last_slow_s)
        }
        recent = self._recent()
        tokens_of = {sequence: recent.get(sequence.client_id, _SlowTokens()) for sequence in slow}
        slow.sort(key=lambda sequence: tokens_of[sequence].total_s)
        have_rested = self._clock() >= self._resumes_at
        free = [s for s in slow if have_rested or not quick_clients - {s.client_id}]
        light = [s for s in slow if s not in free and _is_light(tokens_of[s], recent)]
        stepped = free[: max(1, _num_within(STEP_S, [expected_s[s] for s in free]))]
        stepped += light[: _num_within(LIGHT_STEP_S, [expected_s[s] for s in light])]
        return frozenset(slow).difference(stepped)


def turn_order(sequence: Sequence) -> tuple[bool, int]:
    """A sort key for the turns in a phase: text without a grammar first, then those that waited longest."""
    return sequence.matcher is not None, -sequence.grammar_time.num_waits


def _is_light(own: _SlowTokens, recent: Mapping[str, _SlowTokens]) -> bool:
    """Whether a client's slow tokens took far less than those of another one."""
    return LIGHT * own.total_s < max((tokens.total_s for tokens in recent.values()), default=0.0)


def _num_within(seconds: float, expected_s: Iterable[float]) -> int:
    """How many tokens fit into a time, one after another."""
    return sum(sum_s <= seconds for sum_s in accumulate(expected_s))
