"""What an interrupt does to answers that are being written, and what a server does to its process."""

import asyncio
import gc
import json
import logging
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from unittest.mock import AsyncMock

import httpx
import msgspec
import pytest
import uvicorn
from chat import URL, body
from fake_runtime import STATS, FakeRuntime
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from serving import connection_to, everything, served, server_of, wait_for

from compiler.isolation.pools import ThreadPool
from gateway.app import create_app
from gateway.connections import ServerConfig
from gateway.server import SWITCH_S, Server
from runtime.errors import EngineStopped
from runtime.events import Finished, FinishReason, TextDelta

END = Finished(0, FinishReason.STOP, STATS)


class Endless(FakeRuntime):
    """Answers until it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self._stopped = asyncio.Event()

    async def generate(self, request):
        yield TextDelta(0, "And ")
        await self._stopped.wait()
        raise EngineStopped

    async def close(self):
        self._stopped.set()


def test_a_stream_that_is_not_waited_for_ends_with_an_error(settings):
    runtime = Endless()
    config = uvicorn.Config(create_app(settings, runtime=runtime), port=0, log_level="warning")
    server = Server(config, runtime, drain_s=0.1)
    with served(server) as client, client.stream("POST", URL, json=body(stream=True)) as response:
        lines = (line for line in response.iter_lines() if line)
        next(lines)
        server.should_exit = True
        *_, last = lines
    error = json.loads(last.removeprefix("data: "))["error"]
    assert (error["type"], error["code"]) == ("server_error", "engine_stopped")


def test_an_engine_may_take_a_while_to_end_its_answers(settings, caplog):
    """Their connections stay for a second more, and uvicorn has nothing to cancel then."""

    class SlowToEnd(Endless):
        async def close(self):
            await asyncio.sleep(1.3)
            await super().close()

    runtime = SlowToEnd()
    config = ServerConfig(create_app(settings, runtime=runtime), settings, port=0, log_config=None)
    server = Server(config, runtime, drain_s=0)
    with (
        served(server) as client,
        client.stream("POST", URL, json=body(stream=True)) as answer,
    ):
        lines = (line for line in answer.iter_lines() if line)
        next(lines)
        server.should_exit = True
        *_, last = lines
        wait_for(lambda: not server.server_state.connections)
    assert "engine_stopped" in last
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize("path", ["/v1/toolsets/city", URL, "/v1/messages"])
def test_who_still_waits_for_a_compilation_is_told_that_the_gateway_ends(settings, caplog, monkeypatch, path):
    """In the shape of the API, and without a traceback in the log."""
    monkeypatch.setattr("gateway.server.ABORT_S", 0)
    caplog.set_level(logging.INFO)
    pool, runtime = NeverDone(), FakeRuntime()
    app = create_app(settings, runtime=runtime, compile_pool=pool)
    server = Server(uvicorn.Config(app, port=0, log_config=None), runtime, drain_s=0)
    asked = body(max_tokens=9, tools=TOOLS)
    with served(server) as client, ThreadPoolExecutor() as threads:
        send = (
            partial(client.put, json={"tools": TOOLS})
            if "toolsets" in path
            else partial(client.post, json=asked)
        )
        answer = threads.submit(send, path)
        wait_for(lambda: pool.has_begun)
        server.should_exit = True
        refused = answer.result()
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"
    assert "the process is ending, and takes no more work" in refused.text
    assert refused.headers["content-type"].endswith("json")
    assert not any(record.exc_info for record in caplog.records)
    [line] = [record.fields for record in caplog.records if record.name == "callgate.requests"]
    assert (line["status"], line["error"]) == (503, "ThreadsStopped")


TOOLS = [{"name": "now", "input_schema": {"type": "object"}}]


class NeverDone(ThreadPool):
    """Compiles nothing."""

    has_begun = False

    async def run(self, *_, **__):
        self.has_begun = True
        await asyncio.Event().wait()


def test_a_stream_goes_on_for_as_long_as_it_may(settings):
    """In a rolling upgrade, answers that run are not cut: the chart lets them go on for most of a minute."""
    runtime = FakeRuntime([TextDelta(0, "And "), 0.5, TextDelta(0, "so on"), END])
    server = Server(uvicorn.Config(create_app(settings, runtime=runtime), port=0), runtime, drain_s=60)
    with served(server) as client, client.stream("POST", URL, json=body(stream=True)) as response:
        lines = (line for line in response.iter_lines() if line)
        next(lines)
        server.should_exit = True
        *_, last = lines
    assert last == "data: [DONE]"


def ending(runtime, settings):
    """A server that has ended nothing yet, and a function that ends it and waits until nobody can connect."""
    config = ServerConfig(create_app(settings, runtime=runtime), settings, port=0, log_level="warning")
    server = Server(config, runtime, drain_s=60)

    def end():
        server.should_exit = True
        wait_for(lambda: not server.servers[0].is_serving())

    return server, end


def test_an_answer_that_was_waited_for_says_that_the_connection_closes(settings):
    """Else the client would send its next request on that connection, and get no answer."""
    runtime = FakeRuntime([0.5, TextDelta(0, "And so on"), END])
    server, end = ending(runtime, settings)
    with served(server) as client, ThreadPoolExecutor() as threads:
        answer = threads.submit(client.post, URL, json=body())
        wait_for(lambda: runtime.requests)
        end()
        assert (answer.result().status_code, answer.result().headers["connection"]) == (200, "close")


def test_a_request_that_was_on_its_way_when_the_gateway_ended_is_answered(settings):
    """Without an answer, the client could not know whether its request had an effect."""
    server, end = ending(FakeRuntime(), settings)
    with served(server) as client:
        assert "connection" not in client.get("/healthz").headers
        end()
        last = client.get("/healthz")
    assert (last.status_code, last.headers["connection"]) == (200, "close")


def test_a_request_behind_a_stream_that_began_before_is_answered_too(settings):
    """The head of the stream could not say yet that the connection closes."""
    runtime = FakeRuntime([TextDelta(0, "And "), 0.5, TextDelta(0, "so on"), END])
    server, end = ending(runtime, settings)
    with served(server) as client:
        with client.stream("POST", URL, json=body(stream=True)) as answer:
            lines = (line for line in answer.iter_lines() if line)
            next(lines)
            end()
            *_, last = lines
        assert last == "data: [DONE]"
        assert client.get("/healthz").headers["connection"] == "close"


def test_a_connection_without_requests_is_not_waited_for_long(settings, monkeypatch):
    monkeypatch.setattr("gateway.connections.LAST_REQUEST_S", 0.1)
    server, end = ending(FakeRuntime(), settings)
    with served(server) as client:
        with connection_to(client) as unused:
            end()
            began = time.monotonic()
            assert everything(unused) == ""
        assert time.monotonic() - began < 3


def test_a_connection_whose_body_ends_after_its_answer_is_not_waited_for_long(settings, monkeypatch):
    """Answers that run are waited for longer: minutes, in the chart."""
    monkeypatch.setattr("gateway.connections.LAST_REQUEST_S", 0.1)
    server, end = ending(FakeRuntime(), settings)
    head = b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"
    with served(server) as client, connection_to(client) as late:
        late.sendall(head)
        assert late.recv(65536).startswith(b"HTTP/1.1 404 ")
        end()
        late.sendall(b"0123456789")
        began = time.monotonic()
        everything(late)
        assert time.monotonic() - began < 3


class SlowToStart:
    """An application that asks engines which do not answer, before it takes requests."""

    def __init__(self, said):
        self.said = said

    async def __call__(self, scope, receive, send):
        assert scope["type"] == "lifespan"
        await receive()
        await asyncio.sleep(0.1)
        self.said.append("an engine does not answer")
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})


def test_a_server_says_that_it_serves_once_it_does():
    """Not before engines were asked, which may take 10 s."""
    said = []
    config = uvicorn.Config(SlowToStart(said), port=0, log_level="warning")
    server = Server(config, FakeRuntime(), drain_s=0.1, announce=lambda: said.append("serves"))
    with served(server) as client:
        assert client.base_url
    assert said == ["an engine does not answer", "serves"]


async def test_a_server_that_does_not_start_does_not_say_that_it_serves(monkeypatch):
    """Older versions of uvicorn, such as 0.34, note then that they should exit, and return."""
    said = []
    server = Server(
        uvicorn.Config(SlowToStart(said)), FakeRuntime(), drain_s=0.1, announce=lambda: said.append("serves")
    )
    monkeypatch.setattr(uvicorn.Server, "startup", AsyncMock())
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)
    await server.startup()
    assert not said


def test_a_second_interrupt_ends_answers_at_once(tmp_path):
    """They end with an error, and the log has one line instead of tracebacks."""
    options = ["--port", "0", "--data-dir", str(tmp_path), "--model", "tiny", "--num-threads", "1"]
    options += ["--compile-workers", "0"]
    program = [sys.executable, "-c", "from gateway.cli import main; main()", "serve", *options]
    asked = body(stream=True, max_tokens=1500, min_tokens=1500)
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        url = next(line.split("http://")[1].split()[0] for line in process.stdout if " at http://" in line)
        with httpx.stream("POST", f"http://{url}{URL}", json=asked, timeout=60) as answer:
            lines = answer.iter_lines()
            next(lines)
            process.send_signal(signal.SIGINT)
            next(line for line in process.stdout if "Waiting for connections" in line)
            process.send_signal(signal.SIGINT)
            *_, last = filter(None, lines)
        left = process.stdout.read()
    assert process.returncode == 0
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "engine_stopped"
    assert left.count("interrupted twice: answers that ended early: 1, that were cut off: 0") == 1
    assert "Traceback" not in left


def test_sigterm_while_the_model_is_loaded_ends_a_container(tmp_path):
    """Linux ignores signals of a container's first process that it does not handle, as they are ignored here."""
    program = [sys.executable, "-c", "from gateway.cli import main; main()", "serve"]
    options = ["--port", "0", "--data-dir", str(tmp_path), "--model", "tiny", "--compile-workers", "0"]
    with subprocess.Popen(
        [*program, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),  # noqa: PLW1509 (no threads here)
    ) as process:
        while process.poll() is None:
            process.terminate()
            time.sleep(0.02)
        said = process.stdout.read()
    assert process.returncode == 128 + signal.SIGTERM
    assert "Callgate serves" not in said


def test_threads_that_compute_are_not_ended_one_by_one():
    """C++ aborts the process where the interpreter ends a thread that comes back to it."""
    program = """if True:
        import threading, time
        from gateway.server import end_with_computing_threads
        for name in ("of-a-library", "callgate-engine"):
            threading.Thread(target=time.sleep, args=(60,), name=name, daemon=True).start()
            print(name)
            end_with_computing_threads()
        print("after")
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["of-a-library", "callgate-engine"]


def test_spans_are_sent_before_the_server_has_stopped(settings, runtime, spans):
    """After it comes what ended it: a signal that uvicorn passes on, and SIGTERM ends the process."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(spans, schedule_delay_millis=3_600_000))
    sent = []

    class Observed(Server):
        async def shutdown(self, sockets=None):
            await super().shutdown(sockets)
            sent.extend(span.name for span in spans.get_finished_spans())

    config = uvicorn.Config(
        create_app(settings, runtime=runtime, tracer_provider=provider), port=0, log_level="warning"
    )
    with served(Observed(config, runtime, drain_s=5)) as client:
        client.get("/v1/models")
        assert not spans.get_finished_spans()
    assert sent == ["GET /v1/models"]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_collector_that_does_not_answer_is_not_waited_for_long(settings, protocol, caplog, monkeypatch):
    """Kubernetes kills the pod of a gateway that takes long to end."""
    monkeypatch.setattr("gateway.telemetry.exporters.FLUSH_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        settings = msgspec.structs.replace(
            settings,
            telemetry="otlp",
            otlp_protocol=protocol,
            otlp_endpoint=f"{url}/v1/traces" if protocol == "http" else url,
        )
        server = server_of(create_app(settings, runtime=FakeRuntime()), settings)
        with served(server) as client:
            client.get("/v1/models")
            start = time.monotonic()
        assert time.monotonic() - start < 10
    assert "the last spans and metrics are lost: no collector took them in 0.5 s" in caplog.messages


def test_threads_take_short_turns_while_it_serves(settings):
    """Else each operation of torch would wait 5 ms while another thread reads a large body."""
    runtime, usual_s = FakeRuntime(), sys.getswitchinterval()
    server = Server(uvicorn.Config(create_app(settings, runtime=runtime), port=0), runtime, drain_s=0)
    with served(server):
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
        assert usual_s > 10 * SWITCH_S
    assert sys.getswitchinterval() == pytest.approx(usual_s)
