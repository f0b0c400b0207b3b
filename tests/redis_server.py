"""Real redis-servers and sentinels on free ports: `from redis_server import redis_url, RedisServer`."""

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ports import free_port


class RedisServer:
    """A server that can be killed and started again on its port; what it holds survives only if `keeps`.

    `options` are redis.conf's.
    """

    def __init__(self, folder, *, keeps=False, **options) -> None:
        binary = _binary()
        self.port = free_port()
        options = {
            "port": self.port,
            "bind": "127.0.0.1",
            "save": "",
            "appendonly": "yes" if keeps else "no",
            "appendfsync": "always",
            "dir": folder,
            **options,
        }
        self._command = [
            binary,
            *(str(word) for name, value in options.items() for word in (f"--{name}", value)),
        ]
        self._process: subprocess.Popen | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        _wait_until_up(self._process, self.port)

    def pause(self) -> None:
        """Hang: connections stay open, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class RedisSentinel(RedisServer):
    """A sentinel that watches the master at a port as `mymaster`; it alone decides on a failover.

    `options` are sentinel.conf's.
    """

    def __init__(self, folder, master_port: int, **options) -> None:
        self.port = free_port()
        options = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": folder,
            **{name: value for name, value in options.items() if "mymaster" not in name},
            "sentinel monitor mymaster": f"127.0.0.1 {master_port} 1",
            "sentinel down-after-milliseconds mymaster": 500,
            "sentinel failover-timeout mymaster": 2000,
            **{name: value for name, value in options.items() if "mymaster" in name},
        }
        config = Path(folder, f"sentinel-{self.port}.conf")  # the sentinel writes there what it sees
        config.write_text("".join(f"{name} {value}\n" for name, value in options.items()))
        self._command = [_binary(), str(config), "--sentinel"]
        self._process = None

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.port}/mymaster/0"


@contextmanager
def running(server: RedisServer) -> Iterator[RedisServer]:
    """The server runs until the block ends."""
    try:
        server.start()
        yield server
    finally:
        server.kill()


@contextmanager
def running_redis(folder, *, keeps=False, **options) -> Iterator[RedisServer]:
    """A server that runs until the block ends; skips the test where there is no binary."""
    with running(RedisServer(str(folder), keeps=keeps, **options)) as server:
        yield server


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory) -> Iterator[str]:
    """A server of the session's own; tests that share it keep to their own keys, or flush it."""
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server.url


def _binary() -> str:
    """The program of servers and sentinels; skips the test where it is not installed."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("redis-server is not installed (Debian: apt-get install redis-server)")
    return binary


def _wait_until_up(server: subprocess.Popen, port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        assert server.poll() is None, f"redis-server ended with {server.returncode}"
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                if connection.recv(16).startswith((b"+PONG", b"-NOAUTH")):
                    return
        except OSError:
            time.sleep(0.02)
    pytest.fail("redis-server did not come up within 20 s")
