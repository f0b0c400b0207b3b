"""A page: some of many."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some of many; `next_key` is where the next page begins (`after` or `before`), None at the end."""

    items: tuple[T, ...]
    next_key: str | None = None
