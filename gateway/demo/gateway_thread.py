"""The gateway as a real server on a free port of this machine, for the length of a block."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from gateway.app import connect
from gateway.connections import ServerConfig
from gateway.resources import Loaded, Resources
from gateway.server import listen, running
from gateway.settings import Settings
from runtime.models import spell_model

STOP_S = 10
"""How long answers may go on at the end of the block."""
_POLL_S = 0.05


@contextmanager
def serve(settings: Settings, *, say: Callable[[str], None]) -> Iterator[str]:
    """Yield the URL when the gateway is ready; until then `say` is called with what it is doing.

    Raises:
        RuntimeError: the gateway did not start; its log says why.
        GatewayError, RuntimeFault: as `Resources.open` and `Loaded.load`.
    """
    with listen(settings) as listener:
        say(f"loading model {spell_model(settings.model)}")
        app = connect(Resources.open(settings), Loaded.load(settings))
        say("starting the server")
        config = ServerConfig(app, settings, log_level="warning", timeout_graceful_shutdown=STOP_S)
        server = uvicorn.Server(config)
        with running(server, listener) as thread:
            while not server.started:
                if not thread.is_alive():
                    raise RuntimeError("the gateway did not start; its log says why")
                time.sleep(_POLL_S)
            yield f"http://{settings.host}:{listener.getsockname()[1]}"
