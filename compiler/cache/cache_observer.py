"""What the grammar cache tells about itself, in plain values; it does not know who listens."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from compiler.errors import UnsupportedSchema


class CacheObserver(Protocol):
    """Listens to a grammar cache, on the cache's event loop."""

    def found(self, sources: Mapping[str, int]) -> None:
        """A request got its grammars: how many from `memory`, from the `store`, and how many `compiled`."""

    def refused(self, refusal: UnsupportedSchema) -> None:
        """A schema of a request was refused."""

    def compiling(self, key: str, kind: str) -> AbstractContextManager[None]:
        """Entered while a worker compiles the entry `key`; an error that leaves it is why there is none.

        The context of the task is that of the request that has it compiled. `kind` is `tool` or the kind of
        a response format.
        """

    def joining(self, key: str) -> AbstractContextManager[None]:
        """Entered while a request waits for the entry `key`, which another request has compiled."""


class Unobserved:
    """Nobody listens."""

    def found(self, sources: Mapping[str, int]) -> None:
        """Nobody is told."""

    def refused(self, refusal: UnsupportedSchema) -> None:
        """Nobody is told."""

    def compiling(self, key: str, kind: str) -> AbstractContextManager[None]:  # noqa: ARG002 - nobody is told
        """Nobody is told."""
        return nullcontext()

    def joining(self, key: str) -> AbstractContextManager[None]:  # noqa: ARG002 - nobody is told
        """Nobody is told."""
        return nullcontext()
