"""A real redis-server on a free port, without persistence: `from redis_server import redis_url`."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def running_redis(folder) -> Iterator[str]:
    """The URL of a server that runs until the block ends; skips the test where there is no binary."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("redis-server is not installed (Debian: apt-get install redis-server)")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = [
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
        "--dir",
        folder,
    ]
    with subprocess.Popen([binary, *options], stdout=subprocess.DEVNULL) as server:
        try:
            _wait_until_up(server, port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.kill()


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory) -> Iterator[str]:
    """A server of the session's own; tests that share it keep to their own keys, or flush it."""
    with running_redis(str(tmp_path_factory.mktemp("redis"))) as url:
        yield url


def _wait_until_up(server: subprocess.Popen, port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        assert server.poll() is None, f"redis-server ended with {server.returncode}"
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                if connection.recv(16).startswith(b"+PONG"):
                    return
        except OSError:
            time.sleep(0.02)
    pytest.fail("redis-server did not come up within 20 s")
