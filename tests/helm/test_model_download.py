"""The command by which the chart's Job downloads a model, against a hub on loopback."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from rendered_chart import DOWNLOADED, container_of, render

FILES = {"config.json": b'{"model_type": "qwen3"}', "model.safetensors": b"weights" * 1000}
COMMIT = hashlib.sha1(b"a commit", usedforsecurity=False).hexdigest()
TOKEN = "a-token-of-the-hub"


class Hub(BaseHTTPRequestHandler):
    """The routes of a hub that a download asks: a model's files, and each file."""

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def do_GET(self) -> None:
        self.answer(with_body=True)

    def answer(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        if "/tree/" in path:
            listed = [
                {"type": "file", "path": name, "size": len(content), "oid": "0" * 40}
                for name, content in FILES.items()
            ]
            body, content_type = json.dumps(listed).encode(), "application/json"
        elif path.startswith("/api/models/"):
            described = {"id": "m", "sha": COMMIT, "siblings": [{"rfilename": name} for name in FILES]}
            body, content_type = json.dumps(described).encode(), "application/json"
        elif "/resolve/" in path:
            body, content_type = FILES[path.rpartition("/")[2]], "application/octet-stream"
        else:  # what the program asks about itself
            self.send_error(404)
            return
        self.server.tokens.add(self.headers.get("Authorization"))
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *_) -> None:
        pass


@contextmanager
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.tokens = set()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def run(command, folder, **environment):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    given = {"PATH": path, "HOME": str(folder), "HF_HOME": str(folder / "huggingface"), **environment}
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_the_job_downloads_is_found_without_the_hub(tmp_path):
    command = container_of(render(DOWNLOADED), "model")["command"]
    with hub() as server:
        run(command, tmp_path, HF_ENDPOINT=f"http://127.0.0.1:{server.server_port}", HF_TOKEN=TOKEN)
    assert server.tokens == {f"Bearer {TOKEN}"}
    found = f"from huggingface_hub import snapshot_download; print(snapshot_download({command[-1]!r}))"
    folder = Path(run([sys.executable, "-c", found], tmp_path, HF_HUB_OFFLINE="1").strip())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
