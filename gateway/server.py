"""Serving: bind, load, and run until interrupted."""

import asyncio
import errno
import gc
import logging
import socket
from contextlib import suppress

import uvicorn
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from rich.console import Console

from gateway.access import read_keys
from gateway.app import create_app, load_runtime, open_compile_pool, open_store_of, read_secret
from gateway.errors import SettingsError
from gateway.settings import Settings
from gateway.telemetry import open_provider
from runtime.protocol import Runtime
from toolspecs.errors import StoreUnavailable

STOP_S = 5
"""How long an interrupt waits for running answers before it breaks them off."""

BREAK_OFF_S = 2
"""How long it then waits for their errors to be sent."""


class Server(uvicorn.Server):
    """Uvicorn's, but for answers that an interrupt does not wait for: they end with an error that says so."""

    def __init__(
        self, config: uvicorn.Config, runtime: Runtime, provider: TracerProvider | None = None
    ) -> None:
        super().__init__(config)
        self._runtime = runtime
        self._provider = provider

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and spare what was loaded from collections of garbage, which hold up every thread."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop, in order."""
        breaking_off = asyncio.create_task(self._break_off())
        try:
            await super().shutdown(sockets)
        finally:
            breaking_off.cancel()
            gc.unfreeze()  # else libraries complain, when the process ends, of what is left
            # Here, as SIGTERM, which uvicorn passes on, then ends the process.
            if self._provider:
                await asyncio.to_thread(self._provider.shutdown)

    async def _break_off(self) -> None:
        await asyncio.sleep(STOP_S)
        await self._runtime.close()


def serve(settings: Settings, console: Console) -> None:
    """Serve until interrupted; the model is loaded before the first connection is accepted.

    What is cheap to check is checked before that.

    Raises:
        SettingsError: the address cannot be listened on, the store cannot be reached, or another setting
            does not fit.
        ModelLoadError, UnusableDevice: the model cannot be loaded.
        StoreError: there is no such store.
    """
    logging.basicConfig(level=settings.log_level.upper(), format="%(levelname)s %(name)s: %(message)s")
    read_keys(settings)
    read_secret(settings)
    asyncio.run(reach_store(settings))
    with listen(settings) as listener:
        provider = open_provider(settings)
        if provider:
            trace.set_tracer_provider(provider)
        with console.status(f"loading model {settings.model} …"):
            compile_pool = open_compile_pool(settings)
            runtime = load_runtime(settings, compile_pool)
        app = create_app(settings, runtime=runtime, compile_pool=compile_pool, tracer_provider=provider)
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        console.print(f"Callgate serves {settings.model} at [bold]http://{shown}:{port}[/]", highlight=False)
        config = uvicorn.Config(
            app,
            log_level=settings.log_level,
            lifespan="on",
            access_log=settings.log_level == "debug",
            timeout_graceful_shutdown=STOP_S + BREAK_OFF_S,
        )
        with suppress(KeyboardInterrupt):  # uvicorn has shut down in order, and passes the signal on
            Server(config, runtime, provider).run(sockets=[listener])


async def reach_store(settings: Settings) -> None:
    """Raise SettingsError unless the store can be used; told before the model is loaded."""
    store = open_store_of(settings)
    try:
        await store.ping()
    except StoreUnavailable as error:
        if settings.store is None:
            raise SettingsError("data_dir", "", f"{error}; --data-dir names another folder") from error
        started = (
            "start it, or name another with --store" if settings.shares_store else "--store names another"
        )
        way = f"{started}; without one, toolsets live in a file in data_dir"
        raise SettingsError("store", "", f"{error}; {way}") from error
    finally:
        await store.close()


def listen(settings: Settings) -> socket.socket:
    """A listening socket, so that a port in use is found before the model is loaded."""
    try:
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except (socket.gaierror, UnicodeError) as error:
        raise _no_address(settings.host, error) from error
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            raise _no_address(settings.host, error) from error
        raise SettingsError(
            "port",
            "",
            f"{settings.host}:{settings.port} cannot be listened on ({error.strerror or error});"
            " choose another with --port, 0 takes a free one",
        ) from error


def _no_address(host: str, error: OSError | UnicodeError) -> SettingsError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return SettingsError(
        "host",
        "",
        f"{host!r} is no address of this machine ({reason});"
        " --host 127.0.0.1 is reached from here alone, 0.0.0.0 from everywhere",
    )
