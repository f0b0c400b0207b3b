"""Limits: what compiling one schema may cost, and what all schemas of one request may cost."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from compiler.errors import NotReached, NotTried, UnsupportedSchema
from compiler.frontend.depth import MAX_DEPTH, check_depth

_WALL_FACTOR = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileLimits:
    """The limits of one schema; one that exceeds them is refused.

    `seconds` is processor time, so that no schema is refused because the machine is busy. A schema is first
    tried for `first_seconds` of it; see `compile_queue`. `memory_bytes` is what a worker may allocate in
    addition to what it starts with; real tools take 30 MB with a vocabulary of 152k tokens. `schema_bytes` is
    the size as compact JSON, `stored_bytes` the size of the stored form, compressed, `grammar_bytes` that of
    the compiled grammar. `request_seconds` is time by the clock for all schemas of one request together.
    `max_waiting` jobs may wait for a worker, `max_waiting_per_client` of one client.
    """

    seconds: float = 3.0
    first_seconds: float = 0.5
    memory_bytes: int = 512 * 2**20
    schema_bytes: int = 2 * 2**20
    depth: int = MAX_DEPTH
    stored_bytes: int = 8 * 2**20
    grammar_bytes: int = 128 * 2**20
    request_seconds: float = 120.0
    max_waiting: int = 256
    max_waiting_per_client: int = 64

    def processor_seconds(self, *, is_long: bool) -> float:
        """The processor time of a long job, or of a first try."""
        return self.seconds if is_long else min(self.first_seconds, self.seconds)

    def wall_seconds(self, *, is_long: bool) -> float:
        """The longest time by the clock. Only a machine with far too much to do reaches it."""
        return _WALL_FACTOR * self.processor_seconds(is_long=is_long)

    def check_schema(self, document: Any, num_bytes: int) -> None:
        """Check a document whose JSON takes `num_bytes`.

        Raises:
            UnsupportedSchema: it is nested too deeply or too large.
        """
        check_depth(document, self.depth)
        if num_bytes > self.schema_bytes:
            reason = f"the schema has {num_bytes} bytes; at most {self.schema_bytes} are compiled"
            raise UnsupportedSchema("", "", reason, "Shorten the schema.")

    def check_result(self, num_stored_bytes: int, num_grammar_bytes: int) -> None:
        """Check the sizes of a compiled grammar.

        Raises:
            UnsupportedSchema: it is too large to be stored or to be held in memory.
        """
        for num_bytes, limit, form in (
            (num_stored_bytes, self.stored_bytes, "stored"),
            (num_grammar_bytes, self.grammar_bytes, "in memory"),
        ):
            if num_bytes > limit:
                reason = f"its grammar takes {num_bytes} bytes {form}; at most {limit} are allowed"
                raise UnsupportedSchema("", "", reason, "Split the schema, or lower its counts and bounds.")


MAX_LIMITS_REACHED = 3
_NUM_LOADS = 16


class CompileBudget:
    """What compiling may cost one request, however many schemas it brings.

    It uses at most all workers but one at a time, stops after a few schemas that reach their limits, and has
    `request_seconds` of time, which start now. Schemas that are being compiled at the end of that time are
    finished, since each has limits of its own. Jobs wait for turns of `client_id` in the compile queue.
    """

    def __init__(self, limits: CompileLimits, num_workers: int, client_id: str) -> None:
        self.client_id = client_id
        self.workers = asyncio.Semaphore(max(1, num_workers - 1))
        self.loads = asyncio.Semaphore(_NUM_LOADS)
        self.seconds = limits.request_seconds
        self._num_limits_reached = 0
        self._end = time.monotonic() + self.seconds

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self._end

    def check(self) -> None:
        """Check before another schema is compiled.

        Raises:
            NotTried: too many schemas of the request reached their limits.
            NotReached: the time is over.
        """
        if self._num_limits_reached >= MAX_LIMITS_REACHED:
            reason = f"not tried: {MAX_LIMITS_REACHED} others took too much time or memory"
            raise NotTried("", "", reason, "Send it again without them.")
        if self.is_over:
            reason = f"not reached: compiling this request takes longer than {self.seconds:g} seconds"
            raise NotReached(
                "", "", reason, "Send it again: what is compiled already is cached. Or send fewer tools."
            )

    def count_limit_reached(self) -> None:
        """Count a schema that reached one of its limits."""
        self._num_limits_reached += 1
