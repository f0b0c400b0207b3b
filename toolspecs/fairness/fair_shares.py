"""Fair shares: decides who is served next, by how much service each has had.

A client's id is any text; service is, for example, a compile worker's seconds or a step's tokens. The client
that has had least is served next (start-time fair queueing). A client that arrives or returns starts level
with the least served of those present. So idle time is not saved up, and leaving for a moment does not erase
excess service.

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
"""How many absent clients are remembered at most."""


class FairShares:
    """The service of each client. Its memory is bounded, however many clients come and go."""

    def __init__(self) -> None:
        self._served: dict[str, float] = {}
        self._num_present: Counter[str] = Counter()

    def enter(self, client_id: str) -> None:
        """A client asks for service, perhaps for several things; each `enter` is matched by one `leave`."""
        if client_id not in self._num_present:
            self._served[client_id] = max(self._served.get(client_id, 0.0), self._floor())
        self._num_present[client_id] += 1

    def leave(self, client_id: str) -> None:
        """One thing that a client asked for is done or no longer wanted."""
        self._num_present[client_id] -= 1
        if not self._num_present[client_id]:
            del self._num_present[client_id]
            self._forget()

    def num_present(self, client_id: str) -> int:
        """How many things a client waits for or is being served; any thread may call this."""
        return self._num_present[client_id]

    def charge(self, client_id: str, amount: float) -> None:
        """Count service for a client that is present."""
        self._served[client_id] += amount

    def served(self, client_id: str) -> float:
        """The service of a client that is present. Only differences mean anything."""
        return self._served[client_id]

    def _floor(self) -> float:
        """The least service of those present."""
        return min((self._served[client_id] for client_id in self._num_present), default=0.0)

    def _forget(self) -> None:
        """Forget all clients once nobody is present; if too many are absent, the half that has had least."""
        if not self._num_present:
            self._served.clear()
        elif len(self._served) - len(self._num_present) > MAX_REMEMBERED:
            absent = sorted(self._served.keys() - self._num_present.keys(), key=self._served.__getitem__)
            for client_id in absent[: len(absent) // 2]:
                del self._served[client_id]
