"""A port of loopback that nothing uses yet."""

import socket


def free_port() -> int:
    """A free port that leaves room for that of a Redis cluster's bus, which is 10,000 above it."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port + 10_000 < 2**16:
            return port
