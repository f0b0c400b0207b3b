"""The observer of a grammar cache: the protocol by which the cache tells of events, in plain values."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from compiler.errors import UnsupportedSchema


class CacheObserver(Protocol):
    """Listens to a grammar cache, on the cache's event loop."""

    def looked_up(self, num_by_tier: Mapping[str, int]) -> None:
        """A request got its grammars: how many from `memory`, from the `store`, and how many `compiled`."""

    def refused(self, refusal: UnsupportedSchema) -> None:
        """A schema of a request was refused."""

    def compiling(self, key: str, kind: str) -> AbstractContextManager[None]:
        """Entered while a worker compiles the entry `key`; if that fails, the error passes through it.

        It runs in the context of the request for which the entry is compiled. `kind` is `tool` or the kind of
        a response format.
        """

    def joining(self, key: str) -> AbstractContextManager[None]:
        """Entered while a request waits for the entry `key`, which is being compiled for another request."""


class Unobserved:
    """Nobody listens."""

    def looked_up(self, num_by_tier: Mapping[str, int]) -> None:
        """Nobody is told."""

    def refused(self, refusal: UnsupportedSchema) -> None:
        """Nobody is told."""

    def compiling(self, key: str, kind: str) -> AbstractContextManager[None]:  # noqa: ARG002 - nobody is told
        """Nobody is told."""
        return nullcontext()

    def joining(self, key: str) -> AbstractContextManager[None]:  # noqa: ARG002 - nobody is told
        """Nobody is told."""
        return nullcontext()
