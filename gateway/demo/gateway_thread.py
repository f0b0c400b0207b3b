"""The gateway as a real server on a free port of this machine, for the length of a block."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import uvicorn

from gateway.app import connect
from gateway.connections import ServerConfig
from gateway.resources import Loaded, Resources
from gateway.server import listen
from gateway.settings import Settings
from runtime.models import spell_model

POLL_S = 0.2
STOP_S = 10.0


class GatewayThread(threading.Thread):
    """Loads the model and runs the server; `stage` says what it is doing, `error` why it ended early."""

    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        super().__init__(name="gateway", daemon=True)
        self._settings = settings
        self._listener = listener
        self._server: uvicorn.Server | None = None
        self._is_stopping = False
        self.stage = f"loading model {spell_model(settings.model)}"
        self.error: BaseException | None = None

    def run(self) -> None:
        """Serve until `stop`."""
        try:
            resources = Resources.open(self._settings)
            loaded = Loaded.load(self._settings)
            self.stage = "starting the server"
            app = connect(resources, loaded)
            self._server = uvicorn.Server(ServerConfig(app, self._settings, log_level="warning"))
            self._server.should_exit = self._is_stopping
            self._server.run(sockets=[self._listener])
            if not self._server.started:
                self.error = RuntimeError("the gateway did not start; its log says why")
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it, whatever it is
            self.error = error

    def stop(self) -> None:
        """Stop accepting requests, and wait until the running ones have ended."""
        self._is_stopping = True
        if self._server:
            self._server.should_exit = True
        self.join(STOP_S)


@contextmanager
def serve(settings: Settings, *, say: Callable[[str], None], timeout_s: float = 600.0) -> Iterator[str]:
    """Yield the URL when the gateway is ready; until then `say` is called with what it is doing.

    Raises:
        TimeoutError: it was not ready in time.
        BaseException: the error that kept it from starting.
    """
    with listen(settings) as listener:
        gateway = GatewayThread(settings, listener)
        url = f"http://{settings.host}:{listener.getsockname()[1]}"
        gateway.start()
        try:
            _wait_until_ready(gateway, url, say, timeout_s)
            yield url
        finally:
            gateway.stop()


def _wait_until_ready(gateway: GatewayThread, url: str, say: Callable[[str], None], timeout_s: float) -> None:
    start = time.monotonic()
    # The socket already listens, so a request waits until the server accepts it.
    with httpx.Client(base_url=url, timeout=POLL_S) as client:
        while (waited := time.monotonic() - start) < timeout_s:
            if gateway.error:
                raise gateway.error
            say(f"{gateway.stage}, {waited:.0f} s")
            try:
                if client.get("/readyz").is_success:
                    return
            except httpx.TransportError:
                continue
            time.sleep(POLL_S)
    raise TimeoutError(f"the gateway was not ready after {timeout_s:.0f} s: {gateway.stage}")
