"""Looks up the hosts of engines. A name server that does not answer holds up no other work."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

_KNOWN_AFTER_S = 1.0
"""How long a look-up may take before the addresses found last are used."""

_Host = tuple[str, int]
_Address = tuple[Any, ...]
"""An address and a port first, as sockets have them."""


class HostLookups:
    """The addresses of hosts. Connections that are opened at the same time share a look-up.

    Threads of its own look up, since each may wait for long. Where a look-up takes long, or can only be tried
    again, the addresses that were found last are taken.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="callgate-lookup")
        self._running: dict[_Host, asyncio.Future[list[Any]]] = {}
        self._known: dict[_Host, list[_Address]] = {}

    async def addresses(self, name: str, port: int) -> list[_Address]:
        """The addresses of a host; raises OSError."""
        host = name, port
        looking = self._running.get(host)
        if looking is None:
            look_up = partial(socket.getaddrinfo, name, port, type=socket.SOCK_STREAM)
            looking = asyncio.get_running_loop().run_in_executor(self._threads, look_up)
            self._running[host] = looking
            looking.add_done_callback(partial(self._note, host))
        if host in self._known:
            await asyncio.wait({looking}, timeout=_KNOWN_AFTER_S)
            if not looking.done():
                return self._known[host]
        try:
            return _addresses_in(await asyncio.shield(looking))
        except socket.gaierror as error:
            if error.errno == socket.EAI_AGAIN and host in self._known:
                return self._known[host]
            raise

    def _note(self, host: _Host, looking: asyncio.Future[list[Any]]) -> None:
        del self._running[host]
        if not looking.cancelled() and looking.exception() is None:
            self._known[host] = _addresses_in(looking.result())


def _addresses_in(found: list[Any]) -> list[_Address]:
    return [address for *_, address in found]
