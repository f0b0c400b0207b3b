"""A cached property that is computed once, however many threads ask for it first."""

from collections.abc import Callable
from functools import cached_property
from threading import RLock
from typing import Any, TypeVar

Value = TypeVar("Value")


class once(cached_property[Value]):  # noqa: N801 - used as a decorator
    """As `cached_property`, which since Python 3.12 lets threads compute a value twice.

    The lock is taken until the value is there, and never again.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        super().__init__(compute)
        self._lock = RLock()

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        """The value, kept in the instance."""
        if instance is None:
            return self
        with self._lock:
            return super().__get__(instance, owner)
