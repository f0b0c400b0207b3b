"""The budget of searches: how much a search for a completion may do before it gives up."""

import math
from dataclasses import dataclass

from compiler.errors import UnsupportedGrammar

MAX_ATTEMPTS = 40_000
"""The attempts before an output is begun, some ten seconds of processor time; real schemas need a few.
Distinct arrays of few distinct values have so many orders that a search could take hours. With a limit in
seconds, an answer would end on one machine and fail on another."""


@dataclass(slots=True)
class SearchBudget:
    """How much more some searches may do together."""

    num_left: int = MAX_ATTEMPTS
    """Attempts to get past a repetition; one that reads much counts as several (see `guarded_completion`)."""
    num_bytes_left: float = math.inf
    """Bytes of completions to spell and to count tokens of."""
    most_guarded_bytes: float = math.inf
    """The longest completion to look for under a guard, where each byte is read several times."""
    has_given_up: bool = False
    """Whether a larger budget might have found more."""

    def spend_attempts(self, num_attempts: int) -> None:
        """Count attempts.

        Raises:
            UnsupportedGrammar: there were too many.
        """
        self.num_left -= num_attempts
        if self.num_left < 0:
            self.has_given_up = True
            raise UnsupportedGrammar(
                "too many attempts found no text that ends the output without repeating a key or an item;"
                " lower minItems where items must be unique"
            )

    def allows_guarded(self, num_bytes: int) -> bool:
        """Whether a completion of so many bytes may be looked for under a guard."""
        self.has_given_up |= num_bytes > self.most_guarded_bytes
        return num_bytes <= self.most_guarded_bytes

    def try_spend_bytes(self, num_bytes: int) -> bool:
        """Count bytes; False, and nothing is counted, if they are too many."""
        if num_bytes > self.num_bytes_left:
            self.has_given_up = True
            return False
        self.num_bytes_left -= num_bytes
        return True
