"""Sources of tools for tests: OpenAPI documents, and a server of files that keeps what it was asked."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def operation(name, schema, description="Does it."):
    parameters = [{"name": "x", "in": "query", "required": True, "schema": schema}]
    return {"operationId": name, "description": description, "parameters": parameters}


def document(paths, title="The Shop"):
    return {"openapi": "3.1.0", "info": {"title": title}, "paths": paths}


SHOP = {
    "/orders": {"get": operation("listOrders", {"type": "integer"})},
    "/refunds": {"post": operation("refund", {"enum": ["a", "b"]})},
}


def tool(name, schema=None, description="Does it."):
    return {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": {"x": schema or {"type": "integer"}}},
    }


@contextmanager
def web(answers):
    """A server of paths with status, headers and body; it keeps the path and headers of every request."""
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            received.append((self.path, dict(self.headers)))
            status, headers, body = answers[self.path]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT = do_GET  # noqa: N815 - as the server calls them

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def served_document(paths, title="The Shop"):
    return (200, {}, json.dumps(document(paths, title)).encode())


def printed(result):
    """The toolset that `callgate tools import --print` has printed."""
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)
