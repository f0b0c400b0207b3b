"""Reading what a model is asked."""

import asyncio
from typing import Any, Protocol, TypeVar

from litestar import Request

from gateway.body import read_json

T_co = TypeVar("T_co", covariant=True)

LARGE = 100_000
"""Bytes of a body that take milliseconds to read; 10 MB in small messages take most of a second."""


class Read(Protocol[T_co]):
    """A wire format's reading of a decoded body, and of the headers that clients may send in its place."""

    def __call__(self, body: Any, *, toolset_header: str | None, timeout_header: str | None) -> T_co:
        """What is asked; raises InvalidField and InvalidTools."""


async def read_body(request: Request[Any, Any, Any], *, keeps_surrogates: bool = False) -> Any:
    """The value of a body; a large one is read in a thread, too. Raises MalformedBody."""
    raw = await request.body()
    if len(raw) < LARGE:
        return read_json(raw, keeps_surrogates=keeps_surrogates)
    return await asyncio.to_thread(read_json, raw, keeps_surrogates=keeps_surrogates)


async def read_asked(request: Request[Any, Any, Any], read: Read[T_co]) -> T_co:
    """What a request asks; a large one is read in a thread, so that answers to others go on meanwhile."""
    raw = await request.body()

    def asked() -> T_co:
        return read(
            read_json(raw),
            toolset_header=request.headers.get("x-toolset"),
            timeout_header=request.headers.get("x-request-timeout"),
        )

    return asked() if len(raw) < LARGE else await asyncio.to_thread(asked)
