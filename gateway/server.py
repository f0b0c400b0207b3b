"""`callgate serve`: checks the settings, listens, loads the model, and serves until interrupted."""

import asyncio
import errno
import gc
import logging
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import uvicorn
from litestar.enums import ScopeType
from litestar.types import Receive, Scope, Send
from opentelemetry import trace
from rich.console import Console
from rich.text import Text

from gateway.access.api_keys import ApiKeys
from gateway.app import connect, outermost
from gateway.connections import BACKLOG, CLOSE_HEADER, LAST_REQUEST_S, ServerConfig
from gateway.data_dir import open_store_of
from gateway.errors import SettingsError, StillLoading
from gateway.http.problems import send_error
from gateway.resources import Loaded, Resources
from gateway.settings import Settings
from gateway.telemetry.log_lines import set_up_logging
from gateway.telemetry.recorders import Recorders
from runtime.protocol import Runtime
from toolspecs.errors import StoreUnavailable, StoreUnreachable
from toolspecs.store import Store

_log = logging.getLogger(__name__)

ABORT_S = 2
"""How many seconds the server waits to send the errors of aborted answers."""


STORE_PAUSE_S = 0.5
"""The time between two attempts to reach a store that is not there yet."""

SWITCH_S = 0.0001
"""After so long, a thread that computes in Python lets others in. The engine's thread waits for that after
each operation of torch; with Python's own 5 ms, ten tokens took 2.3 s beside large bodies, now 0.4."""


class Server(uvicorn.Server):
    """Uvicorn's server; `drain_s` seconds after an interrupt, unfinished answers end with an error.

    It calls `announce` when it takes requests: an application may wait for engines before it does.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        runtime: Runtime,
        recorders: Recorders | None = None,
        *,
        drain_s: float,
        announce: Callable[[], None] = lambda: None,
    ) -> None:
        config.timeout_graceful_shutdown = math.ceil(drain_s) + ABORT_S + LAST_REQUEST_S
        super().__init__(config)
        self._runtime = runtime
        self._drain_s = drain_s
        self._announce = announce
        self._recorders = recorders
        self._usual_switch_s = sys.getswitchinterval()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and have threads take short turns.

        Everything loaded so far is excluded from garbage collection, which stops every thread.
        """
        sys.setswitchinterval(SWITCH_S)
        await super().startup(sockets)
        gc.collect()
        gc.freeze()
        if self.started:  # older versions of uvicorn return although the application did not start
            self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: let answers end, abort the rest, and send the last traces and metrics."""
        # Answers to requests that still come, on connections that are open.
        self.server_state.default_headers = [*self.server_state.default_headers, CLOSE_HEADER]
        aborting = asyncio.create_task(self._abort_answers())
        try:
            await super().shutdown(sockets)
        finally:
            aborting.cancel()
            if self.force_exit:
                await self._end_at_once()
            sys.setswitchinterval(self._usual_switch_s)
            gc.unfreeze()  # otherwise libraries complain about objects that are left at the end
            # After a second interrupt, the application has not closed them. Done here, because uvicorn
            # passes SIGTERM on afterwards, which ends the process.
            if self._recorders:
                await self._recorders.close()

    async def _abort_answers(self) -> None:
        await asyncio.sleep(self._drain_s)
        await self._runtime.close()

    async def _end_at_once(self) -> None:
        """End the answers with an error after a second interrupt, and wait a moment until it is sent.

        Uvicorn would log a traceback for each request that does not end in time: this logs one line.
        """
        requests = set(self.server_state.tasks)
        closing = asyncio.create_task(self._runtime.close())
        _, unfinished = await asyncio.wait({closing, *requests}, timeout=ABORT_S)
        num_cut = len(requests & unfinished)
        num_ended = len(requests) - num_cut
        _log.warning(
            "interrupted twice: answers that ended early: %d, that were cut off: %d", num_ended, num_cut
        )
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)


def serve(settings: Settings, console: Console) -> None:
    """Serve until interrupted; until the model is loaded, requests are told to come again later.

    What the settings name, the store and the address are checked before the model is loaded.

    Raises:
        SettingsError: the address cannot be listened on, the store cannot be reached, or another setting
            is wrong.
        ExtraMissing: the telemetry cannot be opened.
        ModelLoadError, UnusableDevice: the model cannot be loaded.
    """
    set_up_logging(settings)
    with ExitStack() as opened:
        with ending_at_sigterm():
            resources = Resources.open(settings)
            asyncio.run(reach_store(settings))
            listener = opened.enter_context(listen(settings))
            if resources.recorders.provider:
                trace.set_tracer_provider(resources.recorders.provider)
            with answering_while_loading(settings, listener, resources.origins):
                loaded = Loaded.load(settings)
            app = connect(resources, loaded)
        host, port = listener.getsockname()[:2]
        shown_host = f"[{host}]" if ":" in host else host
        url = (f"http://{shown_host}:{port}", "bold")
        line = Text.assemble(f"Callgate serves {settings.spelled_models} at ", url)
        config = ServerConfig(
            app,
            settings,
            log_level=settings.log_level,
            access_log=False,  # `gateway.telemetry.access_log` says more
            log_config=None,  # so that its lines are like all others
        )
        with suppress(KeyboardInterrupt):  # uvicorn passes the signal on after it has shut down
            server = Server(
                config,
                loaded.runtime,
                resources.recorders,
                drain_s=settings.drain_seconds,
                announce=lambda: console.print(line, highlight=False),
            )
            server.run(sockets=[listener])
    end_with_computing_threads()


@contextmanager
def answering_while_loading(
    settings: Settings, listener: socket.socket, origins: frozenset[str] = frozenset()
) -> Iterator[None]:
    """Answer each request in the block with `StillLoading`: without that it would wait for minutes."""
    config = ServerConfig(
        outermost(_refuse, origins),
        settings,
        log_level="warning",
        access_log=False,
        log_config=None,
        headers=[("Connection", "close")],
        timeout_graceful_shutdown=ABORT_S,
    )
    with listener.dup() as own, running(uvicorn.Server(config), own):  # which closes its socket
        yield


@contextmanager
def running(server: uvicorn.Server, listener: socket.socket) -> Iterator[threading.Thread]:
    """Run a server in a thread for the length of the block; it takes over the listening socket."""
    thread = threading.Thread(target=server.run, args=([listener],), name="gateway", daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        server.should_exit = True
        thread.join()


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """The application that is served while the models are loaded."""
    if scope["type"] == ScopeType.HTTP:
        await send_error(scope, receive, send, StillLoading())


@contextmanager
def ending_at_sigterm() -> Iterator[None]:
    """SIGTERM ends the process in the block, also in a container, whose first process it would not.

    Linux keeps signals from the first process that have no handler. A gateway that was told to end while it
    loaded its model served afterwards, until Kubernetes killed it.
    """
    former = signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def end_with_computing_threads() -> None:
    """End the process here if threads still compute: after a second interrupt, or a mask that took too long.

    When the interpreter ends by itself, it ends each thread that comes back to it from C++, and C++ then
    aborts the process.
    """
    if any(thread.name.startswith("callgate-") for thread in threading.enumerate()):
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(0)


async def reach_store(settings: Settings) -> None:
    """Raise SettingsError unless the store can be used; warn if its API keys do not fit the settings."""
    store = open_store_of(settings)
    try:
        await _wait_for(store, settings.store_wait_seconds)
        await _warn_of_keys(ApiKeys(store), settings)
    except StoreUnavailable as error:
        if settings.store is None:
            raise SettingsError("data_dir", "", f"{error}; choose another folder with --data-dir") from error
        started = (
            "start it, or choose another with --store"
            if settings.shares_store
            else "choose another with --store"
        )
        remedy = f"{started}; without --store, toolsets are kept in a file in data_dir"
        raise SettingsError("store", "", f"{error}; {remedy}") from error
    finally:
        await store.close()


async def _wait_for(store: Store, most_s: float) -> None:
    """Ping a store until its server is there, for `most_s` seconds; raises `StoreUnavailable`."""
    clock = asyncio.get_running_loop().time
    begun = clock()
    is_told = False
    while True:
        try:
            return await store.ping()
        except StoreUnreachable as error:
            if clock() + STORE_PAUSE_S > begun + most_s:
                raise
            if not is_told:
                _log.warning("%s; waiting for it, for %g s at most", error, most_s)
            is_told = True
        await asyncio.sleep(STORE_PAUSE_S)


async def _warn_of_keys(keys: ApiKeys, settings: Settings) -> None:
    """Log a warning if nobody may call, or everybody may although there are keys."""
    has_keys = await keys.has_any()
    if settings.require_keys and not has_keys and not settings.has_configured_keys:
        _log.warning(
            "there is no API key yet, so nobody can call; make one with"
            " `callgate keys create NAME --scope admin`"
        )
    if has_keys and not settings.has_authentication:
        _log.warning("the store has API keys, but this gateway does not ask for them; set `require_keys`")


def listen(settings: Settings) -> socket.socket:
    """A listening socket, made before the model is loaded, so that a port in use is reported at once."""
    try:
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0][0]
        server = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except (socket.gaierror, UnicodeError) as error:
        raise _no_address(settings.host, error) from error
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            raise _no_address(settings.host, error) from error
        raise SettingsError(
            "port",
            "",
            f"{settings.host}:{settings.port} cannot be listened on ({_reason(error)});"
            " choose another with --port; 0 takes a free one",
        ) from error
    # Connections inherit it. asyncio sets it only on sockets that name their protocol, and this one does not.
    # Without it, an answer in two segments waits 40 ms for the client's acknowledgement of the first.
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return server


def _no_address(host: str, error: OSError | UnicodeError) -> SettingsError:
    return SettingsError(
        "host",
        "",
        f"{host!r} is not an address of this machine ({_reason(error)});"
        " use --host 127.0.0.1 for clients on this machine, or 0.0.0.0 for clients anywhere",
    )


def _reason(error: OSError | UnicodeError) -> str:
    """Why there is no listening socket. Python adds the address, which the message has already."""
    reason = error.strerror if isinstance(error, OSError) else None
    return (reason or str(error)).partition(" (while attempting")[0]
