"""Fair shares: who of those who wait is served next, by how much service each has had.

A *share* is a text that stands for whoever asks; a compile worker's seconds and a step's tokens are services.
The share that has had least comes next (start-time fair queueing). Whoever comes, or comes back, begins level
with the least served of those present: idle time is not saved up, and service in excess is not forgotten by
leaving for a moment.

>>> shares = FairShares()
>>> shares.enter("heavy")
>>> shares.charge("heavy", 30.0)
>>> shares.enter("light")
>>> shares.charge("heavy", 1.0)
>>> min(["heavy", "light"], key=shares.served)
'light'
"""

from collections import Counter

MAX_REMEMBERED = 4096
"""How many absent shares are remembered at most."""


class FairShares:
    """The service of each share. It is bounded, however many shares come and go."""

    def __init__(self) -> None:
        self._served: dict[str, float] = {}
        self._num_present: Counter[str] = Counter()

    def enter(self, share: str) -> None:
        """A share wants something, perhaps one thing more; for each `enter` there is one `leave`."""
        if share not in self._num_present:
            self._served[share] = max(self._served.get(share, 0.0), self._floor())
        self._num_present[share] += 1

    def leave(self, share: str) -> None:
        """One thing that a share wanted is done, or no longer wanted."""
        self._num_present[share] -= 1
        if not self._num_present[share]:
            del self._num_present[share]
            self._forget()

    def num_present(self, share: str) -> int:
        """How many things a share wants or has now; any thread may ask."""
        return self._num_present[share]

    def charge(self, share: str, amount: float) -> None:
        """Count service for a share that is present."""
        self._served[share] += amount

    def served(self, share: str) -> float:
        """The service of a share that is present. Only differences mean anything."""
        return self._served[share]

    def _floor(self) -> float:
        """The least service of those present."""
        return min((self._served[share] for share in self._num_present), default=0.0)

    def _forget(self) -> None:
        """Forget all shares once nobody is present; if too many are absent, the half that has had least."""
        if not self._num_present:
            self._served.clear()
        elif len(self._served) - len(self._num_present) > MAX_REMEMBERED:
            absent = sorted(self._served.keys() - self._num_present.keys(), key=self._served.__getitem__)
            for share in absent[: len(absent) // 2]:
                del self._served[share]
