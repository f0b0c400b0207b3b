"""Fair shares: decides who is served next, by how much service each has had.

A *share* is a text that stands for a client; service is, for example, a compile worker's seconds or a step's
tokens. The share that has had least is served next (start-time fair queueing). A share that arrives or
returns starts level with the least served of those present. So idle time is not saved up, and leaving for a
moment does not erase excess service.

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
    """The service of each share. Its memory is bounded, however many shares come and go."""

    def __init__(self) -> None:
        self._served: dict[str, float] = {}
        self._num_present: Counter[str] = Counter()

    def enter(self, share: str) -> None:
        """A share asks for service, perhaps for several things; each `enter` is matched by one `leave`."""
        if share not in self._num_present:
            self._served[share] = max(self._served.get(share, 0.0), self._floor())
        self._num_present[share] += 1

    def leave(self, share: str) -> None:
        """One thing that a share asked for is done or no longer wanted."""
        self._num_present[share] -= 1
        if not self._num_present[share]:
            del self._num_present[share]
            self._forget()

    def num_present(self, share: str) -> int:
        """How many things a share waits for or is being served; any thread may call this."""
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
