"""Clients of an app: in this process, and over a real server, for what only a real server shows."""

import socket
import threading
import time
from contextlib import contextmanager, suppress

import httpx
import uvicorn
from described import DescribedClient

from gateway.connections import ServerConfig
from gateway.settings import Settings


def client_of(app):
    """A client in this process that calls the gateway by a name of loopback, as it must without keys."""
    return DescribedClient(app, base_url="http://127.0.0.1")


def server_of(app, settings=None):
    return uvicorn.Server(ServerConfig(app, settings or Settings(), port=0, log_level="warning"))


@contextmanager
def served(app):
    server = app if isinstance(app, uvicorn.Server) else server_of(app)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started, limit_s=120)  # it asks its engines first, which may be busy
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(20)


def exchange(client, request):
    """Everything that the gateway sends on a connection of its own after `request`, as Latin-1."""
    with connection_to(client) as connection:
        connection.sendall(request.encode("latin-1"))
        return everything(connection)


def connection_to(client):
    connection = socket.create_connection((client.base_url.host, client.base_url.port))
    connection.settimeout(20)
    return connection


def everything(connection):
    """What comes until the gateway closes the connection."""
    received = b""
    with suppress(ConnectionResetError):
        while data := connection.recv(65536):
            received += data
    return received.decode("latin-1")


def wait_for(condition, limit_s=20):
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
