"""What compiling may cost; a schema that costs more is refused."""

from dataclasses import dataclass
from typing import Any

from compiler.errors import UnsupportedSchema
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
