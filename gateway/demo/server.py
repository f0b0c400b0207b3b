"""The gateway as a real server on a free port of this machine, for as long as a block runs."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import uvicorn

from gateway.app import create_app
from gateway.settings import Settings

POLL_S = 0.2
STOP_S = 10.0


class GatewayThread(threading.Thread):
    """Runs the server; `error` is what ended it early."""

    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        super().__init__(name="gateway", daemon=True)
        self._settings = settings
        self._listener = listener
        self._server: uvicorn.Server | None = None
        self._is_stopping = False
        self.error: BaseException | None = None

    def run(self) -> None:
        """Serve until `stop`."""
        try:
            config = uvicorn.Config(create_app(self._settings), log_level="warning", lifespan="on")
            self._server = uvicorn.Server(config)
            self._server.should_exit = self._is_stopping
            self._server.run(sockets=[self._listener])
            if not self._server.started:
                self.error = RuntimeError("the gateway did not start; its log says why")
        except BaseException as error:  # noqa: BLE001 - whatever it is, the thread that waits raises it
            self.error = error

    def stop(self) -> None:
        """Let running requests end, then close."""
        self._is_stopping = True
        if self._server:
            self._server.should_exit = True
        self.join(STOP_S)


@contextmanager
def serve(settings: Settings, *, say: Callable[[str], None], timeout_s: float = 600.0) -> Iterator[str]:
    """Yield the URL once the gateway is ready; `say` is told what is being waited for.

    Raises:
        TimeoutError: it was not ready in time.
        BaseException: whatever kept it from starting.
    """
    with socket.create_server((settings.host, 0)) as listener:
        gateway = GatewayThread(settings, listener)
        url = f"http://{settings.host}:{listener.getsockname()[1]}"
        gateway.start()
        try:
            _wait_until_ready(gateway, url, say, time.monotonic() + timeout_s)
            yield url
        finally:
            gateway.stop()


def _wait_until_ready(gateway: GatewayThread, url: str, say: Callable[[str], None], deadline: float) -> None:
    # The socket listens from the start, so a request just waits until the server accepts it.
    start = time.monotonic()
    with httpx.Client(base_url=url, timeout=POLL_S) as client:
        while (now := time.monotonic()) < deadline:
            if gateway.error:
                raise gateway.error
            try:
                response = client.get("/readyz")
            except httpx.TransportError:
                say(f"building the model and starting the server, {now - start:.0f} s")
            else:
                if response.is_success:
                    return
                say(_reason(response))
            time.sleep(POLL_S)
    raise TimeoutError("the gateway was not ready in time")


def _reason(response: httpx.Response) -> str:
    """Why the gateway is not ready, in its own words."""
    try:
        document = response.json()
    except ValueError:
        return "waiting for the model"
    words = (
        [document.get(name) for name in ("reason", "detail", "title")] if isinstance(document, dict) else []
    )
    return next((str(word) for word in words if word), "waiting for the model")
