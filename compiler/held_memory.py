"""A bound for the memory that matchers of clients' own grammars hold together.

xgrammar keeps the states of its parser for every position of a text. Where very many derivations fit, their
number grows with the square of the text: sixteen `x?` in a row, with `x ::= [ab]* "a"`, hold 780 MB after
1,600 letters. xgrammar does not tell how much it holds, but the system tells how much the process has grown.
Whose texts are the cause is told by the time that accepting their tokens took: to make states takes time,
about a second for a gigabyte.
"""

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import thread_time
from weakref import WeakSet

from compiler.errors import MatchingTooSlow

MAX_GROWN_BYTES = 2**30
"""How much the process may grow while such texts are written; each token of a usual grammar takes 2 kB."""
LOOK_S = 0.01
"""The system is asked after tokens that took so long together."""
_USUAL_BYTES_PER_S = 2**30
"""What is assumed where the system does not tell."""
_MAX_BYTES_PER_S = 4 * 2**30
"""Growth beyond this rate is not blamed on texts, since states are never made faster."""


@dataclass(eq=False)
class AcceptTime:
    """The processor time that the accepted tokens of one text took, for a client; an empty id is unknown."""

    client_id: str = ""
    seconds: float = 0.0


class HeldMemory:
    """Refuses to continue the largest texts of a client while too much memory is held; thread-safe."""

    def __init__(self) -> None:
        self._times: WeakSet[AcceptTime] = WeakSet()
        self._lock = threading.Lock()
        self._unseen_s = 0.0
        self._begin_bytes = 0

    def begin(self, client_id: str, seconds: float = 0.0) -> AcceptTime:
        """The time of a new text, or of a copy of one that took `seconds`.

        Raises:
            MatchingTooSlow: too much memory is held, and this client's texts have taken longest.
        """
        time = AcceptTime(client_id, seconds)
        with self._lock:
            if not self._times:
                self._begin_bytes = _own_bytes()
            self._times.add(time)
        self._look(time, seconds)
        return time

    def accept(self, time: AcceptTime, client_id: str, accept: Callable[[], bool]) -> tuple[bool, float]:
        """What `accept` returns, and how long it took, which is added to the text's time if it is true.

        Raises:
            MatchingTooSlow: too much memory is held, this client's texts have taken longest, and this is one
                of the longest of them. `accept` was not called.
        """
        time.client_id = client_id
        self._look(time)
        start = thread_time()
        is_accepted = bool(accept())
        step_s = thread_time() - start
        if is_accepted:
            time.seconds += step_s
        with self._lock:
            self._unseen_s += step_s
        return is_accepted, step_s

    def _look(self, time: AcceptTime, added_s: float = 0.0) -> None:
        with self._lock:
            self._unseen_s += added_s
            if self._unseen_s <= LOOK_S:
                return
            times = list(self._times)
        if self._grown_bytes(times) <= MAX_GROWN_BYTES:
            self._unseen_s = 0.0
        elif _is_largest(time, times):
            raise MatchingTooSlow(time.seconds)

    def _grown_bytes(self, times: list[AcceptTime]) -> float:
        total_s = sum(time.seconds for time in times)
        now_bytes = _own_bytes()
        if not now_bytes:
            return _USUAL_BYTES_PER_S * total_s
        return min(now_bytes - self._begin_bytes, _MAX_BYTES_PER_S * total_s)


def _is_largest(own: AcceptTime, times: list[AcceptTime]) -> bool:
    """Whether its client has the longest time together, and the text at least half of its longest one."""
    of_clients: defaultdict[str, list[float]] = defaultdict(list)
    for time in times:
        of_clients[time.client_id].append(time.seconds)
    largest = max(of_clients.values(), key=sum)
    return of_clients[own.client_id] is largest and own.seconds >= max(largest) / 2


def _own_bytes() -> int:
    """The process's own memory, without files and shared memory; 0 where the system does not tell."""
    try:
        status = Path("/proc/self/status").read_text("ascii", "replace")
    except OSError:
        return 0
    found = status.partition("\nRssAnon:")[2].split(maxsplit=1)
    return 1024 * int(found[0]) if found and found[0].isdigit() else 0
