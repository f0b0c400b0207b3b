"""Tiles of consecutive queries, each with the keys that any of them sees.

No score is computed for keys after a tile's last query, nor, with a window, for keys before all its windows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

ALL = slice(0, None)


@dataclass(frozen=True, slots=True)
class Tile:
    """Queries `rows` and the keys `columns` that any of them sees; all see the first `num_common` keys."""

    rows: slice
    columns: slice
    num_common: int


WHOLE = Tile(ALL, ALL, 0)
"""All queries and all keys."""


def causal_tiles(num_queries: int, first_key: int, window: int | None, *, size: int) -> Iterator[Tile]:
    """Tiles of up to `size` consecutive queries; the first query is that of the key number `first_key`."""
    for rows in _rows(num_queries, size):
        first, end = first_key + rows.start, first_key + rows.stop
        if window is None:
            yield Tile(rows, slice(0, end), first)
        else:
            yield Tile(rows, slice(max(0, first - window + 1), end), 0)


def past_tiles(num_queries: int, num_keys: int, *, size: int) -> Iterator[Tile]:
    """Tiles of queries that see all keys."""
    return (Tile(rows, slice(0, num_keys), num_keys) for rows in _rows(num_queries, size))


def _rows(num_queries: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, num_queries)) for start in range(0, num_queries, size))
