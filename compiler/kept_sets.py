"""A bound for the sets of states that the networks of one vocabulary's grammars keep together.

A network keeps the sets that texts have led to (`compiler.recogniser.network`), up to some 20 MB. Networks
belong to cached grammars, and a cache of small ones has thousands, which count without these sets. So their
number is bounded, too: when it is reached, every network forgets its sets. Those in use build anew what they
need, which takes a part of the time that it took to reach the bound.
"""

from threading import Lock
from typing import Protocol
from weakref import WeakSet

MAX_KEPT_TOGETHER = 1_000_000
"""States in all sets of all networks, of which each takes about a tenth of a kilobyte."""


class KeepsSets(Protocol):
    """A network."""

    def forget_all_sets(self) -> None:
        """Forget the sets of states; another thread may be building some."""


class KeptSets:
    """Counts what networks keep, and has all of them forget it beyond the bound; thread-safe."""

    def __init__(self) -> None:
        self._networks: WeakSet[KeepsSets] = WeakSet()
        self._num_kept = 0
        self._lock = Lock()

    @property
    def num_kept(self) -> int:
        """At least as many states as all networks keep: what a network forgets by itself still counts."""
        return self._num_kept

    def add(self, network: KeepsSets, num_states: int) -> None:
        """Count what a network has begun to keep."""
        with self._lock:
            self._networks.add(network)
            self._num_kept += num_states
            if self._num_kept <= MAX_KEPT_TOGETHER:
                return
            networks, self._networks, self._num_kept = self._networks, WeakSet(), 0
        for each in list(networks):
            each.forget_all_sets()
