"""An app behind a real server, for what only a real server shows."""

import threading
import time
from contextlib import contextmanager

import httpx
import uvicorn


@contextmanager
def served(app):
    config = uvicorn.Config(app, port=0, log_level="warning", lifespan="on")
    server = app if isinstance(app, uvicorn.Server) else uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(20)


def wait_for(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
