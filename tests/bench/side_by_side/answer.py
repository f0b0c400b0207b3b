"""What an engine answered, and how long it took."""

import statistics
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """One request's outcome, seconds by the clock; `num_valid` of its `num_calls` validate."""

    seconds: float
    num_tokens: int
    num_calls: int
    num_valid: int
    num_forced: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """All answers to requests of which `concurrency` were open at once."""

    concurrency: int
    seconds: float
    answers: tuple[Answer, ...]

    @property
    def calls_per_second(self) -> float:
        """Valid calls' requests per second: an answer counts once, if a call of it is whole and valid."""
        return sum(answer.num_valid > 0 for answer in self.answers) / self.seconds

    @property
    def requests_per_second(self) -> float:
        """Answered requests per second, whatever they answered."""
        return sum(answer.error is None for answer in self.answers) / self.seconds

    @property
    def tokens_per_second(self) -> float:
        """Tokens of all answers per second."""
        return sum(answer.num_tokens for answer in self.answers) / self.seconds

    @property
    def share_valid(self) -> float:
        """Answers with at least one call and none that is broken."""
        good = sum(0 < answer.num_calls == answer.num_valid for answer in self.answers)
        return good / len(self.answers)

    @property
    def share_forced(self) -> float:
        """Tokens that needed no forward pass of their own, of all."""
        return sum(a.num_forced for a in self.answers) / max(1, sum(a.num_tokens for a in self.answers))

    @property
    def median_seconds(self) -> float:
        """Of one answer, from its request on."""
        return statistics.median(answer.seconds for answer in self.answers)
