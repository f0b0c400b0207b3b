"""Prefix sharing: what the second request with the same tools still waits for, and what a sequence costs to keep."""

import statistics
from dataclasses import dataclass

from side_by_side.servers import Server
from side_by_side.workload import Workload


@dataclass(frozen=True, slots=True)
class FirstTokens:
    """Seconds to the first token of a call: of the first request with its tools, and of the next ones' median."""

    first: float
    next: float

    @property
    def ratio(self) -> float:
        """The next ones' over the first one's."""
        return self.next / self.first


def first_tokens(server: Server, workload: Workload, *, num_next: int = 5) -> FirstTokens:
    """Ask one question after the other, each about the same tools."""
    seconds = [server.first_token_seconds(workload, number) for number in range(1 + num_next)]
    return FirstTokens(seconds[0], statistics.median(seconds[1:]))
