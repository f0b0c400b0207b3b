"""`callgate serve`: starts that fail say why, and a server that is interrupted ends in order."""

import http.client
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing

import httpx
import pytest
from ports import free_port

from gateway.errors import BenchMissing
from gateway.server import ABORT_S, answering_while_loading, listen
from gateway.settings import Settings


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--port", "high"], ["'port'", "command line"]),
        (["--host", "0.0.0.0"], ["'host'", "api_key"]),
        (["--store", "oracle://x"], ["setting 'store'", "oracle", "sqlite:///absolute/path"]),
        (["--store", "/toolsets.db"], ["setting 'store'", "not the URL of a store"]),
        (
            ["--store", "sqlite:///proc/none/callgate.db"],
            ["'store': store sqlite:///proc/none/callgate.db: ", "no folder '/proc/none'", "--store"],
        ),
        (["--engine-url", "here"], ["'engine_url' from the command line: it must be a URL that begins with"]),
        (["--store", "redis://127.0.0.1:1/0"], ["'store'", "127.0.0.1:1", "start it, or choose another"]),
        (["--data-dir", "/dev/null"], ["'data_dir'", "'/dev/null' is not a folder", "--data-dir"]),
        (["--data-dir", "/proc/none"], ["'data_dir'", "'/proc/none' is not a folder", "--data-dir"]),
        (["--config", "/nowhere/callgate.toml"], ["/nowhere/callgate.toml"]),
        (
            ["--api-key-file", "/nowhere/keys", "--model", "/nowhere"],
            ["api_key_file", "/nowhere/keys: No such file or directory; it must be a file of keys"],
        ),
        (["--model", "/nowhere/model", "--port", "0"], ["/nowhere/model"]),
        (["--syntax", "klingon", "--port", "0"], ["klingon", "hermes"]),
        (["--host", "300.1.1.1", "--api-key", "kkkkkkkk"], ["'host'", "'300.1.1.1'", "0.0.0.0"]),
        (["--host", "a..b", "--api-key", "kkkkkkkk"], ["'host'", "'a..b'"]),
        (["--host", "192.0.2.1", "--api-key", "kkkkkkkk"], ["'host'", "'192.0.2.1'"]),
        (["--device", "cuda:99", "--port", "0"], ["device 'cuda:99'", "'auto', 'cpu'", "--device cpu"]),
        (["--device", "klingon", "--port", "0"], ["device 'klingon'", "'auto', 'cpu'", "--device cpu"]),
        (["--dtype", "float99"], ["'dtype'", "'float99'", "'bfloat16'", "'auto'"]),
    ],
)
def test_a_start_that_cannot_succeed_says_why_without_a_traceback(run, tmp_path, options, said):
    result = run("serve", "--data-dir", str(tmp_path), *options)
    assert result.exit_code == 1
    assert all(word in result.stderr for word in said), result.stderr
    assert "Traceback" not in result.stderr


def test_answers_do_not_wait_for_acknowledgements(tmp_path):
    settings = Settings(data_dir=str(tmp_path), port=0)
    with (
        listen(settings) as server,
        socket.create_connection(server.getsockname()),
        server.accept()[0] as ours,
    ):
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_in_use_is_told_before_the_model_is_loaded(run, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        result = run("serve", "--data-dir", str(tmp_path), "--port", str(port), "--model", "/nowhere")
    assert result.exit_code == 1
    assert f"127.0.0.1:{port} cannot be listened on (Address already in use); choose" in result.stderr


def test_while_models_are_loaded_requests_are_told_when_to_come_again(run, tmp_path, monkeypatch):
    """Without an answer, clients and probes would hang as long as it takes."""
    port, answers = free_port(), []

    def load(_):
        paths = ("/v1/chat/completions", "/v1/messages", "/readyz")
        sent = {"X-Request-ID": "mine", "Origin": "https://app.example"}
        answers.extend(httpx.post(f"http://127.0.0.1:{port}{path}", json={}, headers=sent) for path in paths)
        raise BenchMissing

    monkeypatch.setattr("gateway.server.Loaded.load", load)
    options = ["--port", str(port), "--cors-origins", "https://app.example"]
    assert run("serve", "--data-dir", str(tmp_path), *options).exit_code == 1
    assert [(answer.status_code, answer.headers["retry-after"]) for answer in answers] == [(503, "5")] * 3
    assert [answer.json()["error"]["code"] for answer in answers] == ["loading"] * 3
    assert [answer.json().get("type") for answer in answers] == [None, "error", None]
    assert answers[1].json()["request_id"] == "mine"
    for answer in answers:
        assert answer.headers["x-request-id"] == "mine"
        assert answer.headers["access-control-allow-origin"] == "https://app.example"


def test_a_large_body_is_read_while_models_are_loaded(tmp_path):
    """A client that is cut off while it sends, as most are that send before they read, sees no answer."""
    settings = Settings(data_dir=str(tmp_path), port=0)
    with (
        listen(settings) as listener,
        answering_while_loading(settings, listener),
        closing(http.client.HTTPConnection(*listener.getsockname(), timeout=20)) as client,
    ):
        client.request("POST", "/v1/chat/completions", body=bytes(30_000_000))
        answer = client.getresponse()
        assert (answer.status, answer.headers["connection"]) == (503, "close")
        assert b"loading" in answer.read()


def test_a_body_that_goes_on_does_not_hold_up_the_start(tmp_path, caplog):
    settings = Settings(data_dir=str(tmp_path), port=0)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"
    with listen(settings) as listener, socket.create_connection(listener.getsockname()) as client:
        with answering_while_loading(settings, listener):
            client.sendall(head)
            assert client.recv(12) == b"HTTP/1.1 503"
            start = time.perf_counter()
        assert time.perf_counter() - start < ABORT_S + 2
    assert not [record for record in caplog.records if record.exc_info], "no traceback"


def test_what_answered_while_models_were_loaded_leaves_connections_to_the_gateway(tmp_path):
    settings = Settings(data_dir=str(tmp_path), port=0)
    with listen(settings) as listener:
        with answering_while_loading(settings, listener):
            pass
        with socket.create_connection(listener.getsockname()):
            listener.accept()[0].close()


def test_serving_ends_in_order_when_interrupted(tmp_path):
    code = "from gateway.cli import main; main()"
    options = ["serve", "--port", "0", "--num-threads", "1", "--data-dir", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-c", code, *options], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert next(process.stderr).startswith("loading demo (")
            url = next(line for line in process.stderr if "http://" in line).split()[-1]
            assert httpx.get(f"{url}/v1/models").json()["data"][0]["id"] == "demo"
        finally:
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
            status = process.wait(30)
    assert status == 0
    assert "Traceback" not in rest
