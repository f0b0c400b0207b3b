"""What compiling may cost; a schema that costs more is refused."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from compiler.errors import LimitReached, NotReached, NotTried, UnsupportedSchema
from compiler.frontend.depth import MAX_DEPTH, check_depth


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileLimits:
    """Per schema.

    `seconds` are of processor time, so that a machine that is busy otherwise refuses nobody's schema for it,
    and `wall_seconds` by the clock bound what one waits for a refusal. `memory_bytes` is what a worker may
    allocate beyond what it starts with; real tools take 30 MB with a vocabulary of 152k. `schema_bytes` are
    of compact JSON, `stored_bytes` of the stored form, compressed, `grammar_bytes` of the compiled one.
    `request_seconds`, by the clock, are for all schemas of one request together.
    """

    seconds: float = 3.0
    memory_bytes: int = 512 * 2**20
    schema_bytes: int = 2 * 2**20
    depth: int = MAX_DEPTH
    stored_bytes: int = 8 * 2**20
    grammar_bytes: int = 128 * 2**20
    request_seconds: float = 120.0

    @property
    def wall_seconds(self) -> float:
        """Longest time by the clock."""
        return 4 / 3 * self.seconds

    def check_schema(self, document: Any, num_bytes: int) -> None:
        """Refuse a document that is too deep or, written in `num_bytes`, too large.

        Raises:
            UnsupportedSchema: says which limit.
        """
        check_depth(document, self.depth)
        if num_bytes > self.schema_bytes:
            reason = f"{num_bytes} bytes of schema; at most {self.schema_bytes} are compiled"
            raise UnsupportedSchema("", "", reason, "Shorten the schema.")

    def check_result(self, num_stored_bytes: int, num_grammar_bytes: int) -> None:
        """Refuse a compiled grammar that is too large to keep.

        Raises:
            UnsupportedSchema: says which limit.
        """
        for num_bytes, limit, form in (
            (num_stored_bytes, self.stored_bytes, "stored"),
            (num_grammar_bytes, self.grammar_bytes, "in memory"),
        ):
            if num_bytes > limit:
                reason = f"its grammar takes {num_bytes} bytes {form}; at most {limit} are kept"
                raise UnsupportedSchema("", "", reason, "Split the schema, or lower its counts and bounds.")


MAX_LIMITS_REACHED = 3
_NUM_LOADS = 16


class CompileBudget:
    """One request's: all workers but one at once, few hopeless schemas, and so much time for all together.

    Time starts now. What is compiled when it ends is finished, since each schema has limits of its own.
    """

    def __init__(self, limits: CompileLimits, num_workers: int) -> None:
        self.turns = asyncio.Semaphore(max(1, num_workers - 1))
        self.loads = asyncio.Semaphore(_NUM_LOADS)
        self.seconds = limits.request_seconds
        self._num_limits_reached = 0
        self._end = time.monotonic() + self.seconds

    @property
    def is_over(self) -> bool:
        """Whether the time is."""
        return time.monotonic() >= self._end

    def check(self) -> None:
        """Raise `NotTried` or `NotReached` instead of beginning with another schema."""
        if self._num_limits_reached >= MAX_LIMITS_REACHED:
            reason = f"not tried: {MAX_LIMITS_REACHED} others took too much time or memory"
            raise NotTried("", "", reason, "Submit it without them.")
        if self.is_over:
            reason = f"not reached: compiling what was asked for takes longer than {self.seconds:g} seconds"
            raise NotReached("", "", reason, "Send it again: what was compiled is kept. Or send fewer tools.")

    def count(self, _limit: LimitReached) -> None:
        """A schema was hopeless."""
        self._num_limits_reached += 1
