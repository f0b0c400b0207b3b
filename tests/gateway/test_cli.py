"""The `callgate` command."""

import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from pathlib import Path

import corpus
import httpx
import pytest
import torch
from msgspec import structs
from ports import free_port
from sample_tools import TIME, WEATHER
from serving import served
from typer.testing import CliRunner

from gateway.app import create_app
from gateway.cli import cli
from gateway.server import listen
from gateway.settings import Settings
from gateway.settings_table import settings_table
from runtime.models.random_model import RandomModelSettings, ensure_random_model
from runtime.study.output_folder import NEEDED


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "weather.json"
    path.write_text(json.dumps({"tools": [WEATHER, TIME]}))
    return path


def test_toolsets_are_applied_listed_shown_and_removed(run, gateway, file):
    assert "weather created at revision 1, 2 tools" in run("tools", "apply", str(file)).stdout
    assert "weather is now at revision 1" in run("tools", "apply", str(file)).stdout
    assert "weather" in run("tools", "list").stdout
    shown = json.loads(run("tools", "show", "weather").stdout)
    assert shown == {"name": "weather", "tools": [WEATHER, TIME]}
    assert run("tools", "rm", "weather").exit_code == 0
    gone = run("tools", "show", "weather")
    assert gone.exit_code == 1
    assert "toolset 'weather' was deleted" in gone.stderr
    assert "/v1/toolsets/weather/revisions/1/restore" in gone.stderr


def test_what_show_prints_apply_takes_back(run, gateway, file, tmp_path):
    run("tools", "apply", str(file))
    copy = tmp_path / "copy.json"
    copy.write_text(run("tools", "show", "weather").stdout)
    assert "weather is now at revision 1" in run("tools", "apply", str(copy)).stdout


def test_what_show_prints_after_a_tool_was_deleted_apply_takes_back(run, gateway, tmp_path):
    path = tmp_path / "weather.json"
    search = {"limit": 5, "always": ["clock.now", "get_weather"]}
    path.write_text(json.dumps({"name": "weather", "tools": [WEATHER, TIME], "tool_search": search}))
    assert run("tools", "apply", str(path)).exit_code == 0
    assert gateway.delete("/v1/toolsets/weather/tools/clock.now").status_code == 200
    path.write_text(run("tools", "show", "weather").stdout)
    assert "weather is now at revision 2, 1 tool" in run("tools", "apply", str(path)).stdout


def test_documents_are_applied_checked_and_shown(run, gateway, tmp_path):
    uri = "https://example.com/money"
    tool = {"name": "pay", "inputSchema": {"type": "object", "properties": {"amount": {"$ref": uri}}}}
    path = tmp_path / "pay.json"
    content = {"tools": [tool], "documents": {uri: {"type": "integer"}}, "prompt_tools": "none"}
    path.write_text(json.dumps(content))
    assert run("tools", "apply", str(path)).exit_code == 0
    assert run("tools", "check", str(path)).stdout.splitlines()[1].split()[:2] == ["pay", "unchanged"]
    shown = json.loads(run("tools", "show", "pay").stdout)
    assert shown["documents"] == {uri: {"type": "integer"}}
    assert shown["prompt_tools"] == "none"
    path.write_text(json.dumps({"tools": [tool], "documents": {"money": {}}}))
    assert "at /documents/money" in run("tools", "apply", str(path)).stderr


def test_a_bare_list_is_named_after_its_file_or_the_option(run, gateway, tmp_path):
    path = tmp_path / "clock.json"
    path.write_text(json.dumps([TIME]))
    assert "toolset clock created" in run("tools", "apply", str(path)).stdout
    assert "toolset other created" in run("tools", "apply", str(path), "--name", "other").stdout
    path = path.rename(tmp_path / "Good Tools.json")
    assert "give one with --name" in run("tools", "apply", str(path)).stderr
    assert "toolset good created" in run("tools", "apply", str(path), "--name", "good").stdout


def test_check_shows_the_change_of_every_tool(run, gateway, file, tmp_path):
    run("tools", "apply", str(file))
    path = tmp_path / "new.json"
    path.write_text(json.dumps({"name": "weather", "tools": [TIME]}))
    result = run("tools", "check", str(path))
    assert result.exit_code == 0
    lines = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert "unchanged" in lines["clock.now"]
    assert "removed" in lines["get_weather"]
    assert gateway.get("/v1/toolsets/weather").json()["revision"] == 1


@pytest.mark.parametrize("command", ["check", "apply"])
def test_what_is_ignored_is_shown(run, gateway, tmp_path, command):
    path = tmp_path / "slip.json"
    path.write_text(json.dumps([{"name": "a", "inputSchema": {"type": "object", "propertes": {"x": {}}}}]))
    shown = run("tools", command, str(path)).stdout.splitlines()
    assert shown[-1] == "tool 'a' at /: 'propertes': unknown keyword, ignored; did you mean 'properties'?"


def test_every_bad_tool_is_told(run, gateway, tmp_path):
    bad = [
        {"name": name, "inputSchema": {"type": "object", "properties": {"x": {"type": "strange"}}}}
        for name in ("one", "two")
    ]
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(bad))
    result = run("tools", "apply", str(path))
    assert result.exit_code == 1
    assert "tool 'one' at /tools/0/inputSchema/properties/x/type" in result.stderr
    assert "tool 'two' at /tools/1/inputSchema/properties/x/type" in result.stderr


@pytest.mark.parametrize("content", ["{", '{"name": "x"}', "3", "[" * 100_000])
def test_a_file_that_is_no_toolset_is_named(run, tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_text(content)
    result = run("tools", "apply", str(path))
    assert result.exit_code == 1
    assert str(path) in result.stderr
    assert ("is not JSON: " in result.stderr) == (content in {"{", "[" * 100_000})


@pytest.mark.parametrize("command", ["check", "apply"])
def test_a_file_with_a_repeated_key_is_refused(run, gateway, tmp_path, command):
    """Only the last one was sent, so the gateway could not refuse it."""
    path = tmp_path / "twice.json"
    path.write_text('[{"name": "a", "inputSchema": {"properties": {"x": {"maximum": 5, "maximum": 500}}}}]')
    result = run("tools", command, str(path))
    assert result.exit_code == 1
    place = "/0/inputSchema/properties/x"
    assert f"{path}: the object at {place} has the key 'maximum' twice; write one" in result.stderr


@pytest.mark.parametrize("url", ["notaurl", "ftp://here", "http://a:port"])
def test_an_address_of_no_gateway_is_told_what_one_is(run, url):
    result = run("tools", "list", "--url", url)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"'{url}' is not the address of a gateway")
    assert "--url http://127.0.0.1:8080" in result.stderr


def test_a_gateway_that_does_not_run_is_named(run):
    result = run("tools", "list", "--url", f"http://127.0.0.1:{free_port()}")
    assert result.exit_code == 1
    assert "callgate serve" in result.stderr


def test_the_base_url_of_a_model_client_is_understood(run, gateway, file):
    run("tools", "apply", str(file))
    assert "weather" in run("tools", "list", "--url", f"{gateway.base_url}/v1/").stdout


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize(
    "answer", [b"", b"<html>", b"[]", b"{}", b'{"toolsets": [{}], "next": null, "detail": 1}']
)
@pytest.mark.parametrize("command", ["list", "show", "apply", "check"])
def test_a_server_that_is_no_gateway_is_told(run, file, status, answer, command):
    with other_server(status, answer) as url:
        arguments = {"list": (), "show": ("weather",)}.get(command, (str(file),))
        result = run("tools", command, *arguments, "--url", url)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"HTTP {status} from {url}/v1/toolsets")
    assert "not that of a gateway" in result.stderr


@pytest.mark.parametrize("command", [("engines",), ("tools", "list")])
def test_a_key_that_is_missing_is_told_whatever_shape_the_route_s_errors_have(
    run, settings, runtime, command
):
    app = create_app(structs.replace(settings, api_key="a-key-of-ours"), runtime=runtime)
    with served(app) as client:
        result = run(*command, "--url", str(client.base_url))
    assert result.exit_code == 1
    assert "needs a valid API key: give it with --api-key, or in CALLGATE_API_KEY" in result.stderr


@contextmanager
def other_server(status, answer):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_PUT = do_GET  # noqa: N815 - as the server calls them

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


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


def test_every_setting_is_an_option_and_in_the_table(run):
    helped, table = run("serve", "--help").stdout, run("settings").stdout
    for setting in settings_table():
        assert setting.option in helped
        assert setting.variable in table


def test_a_table_that_goes_to_no_screen_cuts_nothing_short():
    shown = CliRunner().invoke(cli, ["settings"], env={"COLUMNS": "80"}).stdout.splitlines()
    for setting, line in zip(settings_table(), shown[1:], strict=True):
        assert line.split()[:2] == [setting.option, setting.variable]
        assert line.rstrip().endswith(setting.description)


def test_the_version_is_told(run):
    assert run("--version").stdout == f"callgate {version('callgate')}\n"


@pytest.mark.parametrize("name", ["", "a?b"])
@pytest.mark.parametrize("command", ["show", "rm"])
def test_a_name_that_no_toolset_has_is_refused(run, gateway, command, name):
    result = run("tools", command, name)
    assert result.exit_code == 1
    assert result.stderr == ("no toolset 'a?b'\n" if name else "a toolset needs a name\n")


def test_the_commands_are_there(run):
    helped = run("--help").stdout
    assert all(command in helped for command in ("serve", "tools", "demo", "bench", "study"))


def test_the_comparison_lists_what_can_be_chosen(run, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", ["callgate", "bench"])
    result = run("bench", "--help")
    assert result.exit_code == 0
    assert "--vllm" in result.output
    assert torch.is_grad_enabled(), "it runs in this process, and leaves it as it was"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--vllm", "/nosuch"), "/nosuch is no interpreter"),
        (("--vllm", "/bin/false"), "/bin/false has no vLLM"),
        (("--out", "/proc/nosuch"), "cannot write to /proc/nosuch"),
        (("--at-once", "1,none"), "wanted a whole number above 0, got 'none'"),
        (("--rounds", "0"), "wanted a whole number above 0, got '0'"),
        ((), "no test data at /nosuch"),
    ],
)
def test_a_comparison_that_cannot_be_made_is_told_before_it_begins(run, monkeypatch, tmp_path, options, said):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", ["callgate", "bench"])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(corpus, "ROOT", Path("/nosuch"))
    result = run("bench", *options)
    assert isinstance(result.exception, SystemExit), "no traceback"
    assert result.exit_code not in {0, None}
    assert said in f"{result.stderr}{result.exception}"


def test_a_comparison_without_its_extra_makes_no_model_first(run, monkeypatch, tmp_path):
    corpus.corpus()
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", ["callgate", "bench"])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("bench")
    assert str(result.exception).endswith("needs an optional dependency: pip install 'callgate[bench]'")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_the_command_is_imported_ends_it_without_a_traceback():
    code = """
import sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == "gateway.cli": raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from gateway.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_comparison_is_no_part_of_the_package(run, monkeypatch, tmp_path):
    monkeypatch.setattr(
        "gateway.commands.bench_cli.__file__", str(tmp_path / "gateway/commands/bench_cli.py")
    )
    result = run("bench")
    assert result.exit_code == 1
    assert "part of the repository" in result.stderr


def test_a_study_prints_its_tables_and_says_where_the_rest_is(run, tmp_path):
    model = ensure_random_model(tmp_path, RandomModelSettings(hidden_size=32, num_layers=1))
    options = ("--quick", "--count", "1", "--strategies", "prompt,callgate", "--max-tokens", "96")
    result = run("study", "--model", str(model), "--out", str(tmp_path / "out"), *options)
    assert result.exit_code == 0
    assert "valid JSON" in result.stdout
    assert "study.json: all numbers" in result.stdout
    assert "spending.svg: a picture" in result.stdout or NEEDED in result.stdout
    assert {"study.md", "study.json", "answers.jsonl"} <= {path.name for path in (tmp_path / "out").iterdir()}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--temperatures", "warm"), "numbers from 0 to 2"),
        (("--temperatures", "a"), "--temperatures"),
        (("--temperatures", "0,3"), "numbers from 0 to 2"),
        (("--count", "0"), "--count"),
        (("--model", "./nowhere"), "there is no such directory"),
        (("--num-threads", "0"), "num_threads"),
    ],
)
def test_a_study_that_cannot_begin_says_why(run, tmp_path, options, said):
    result = run("study", "--out", str(tmp_path), *options)
    assert result.exit_code != 0
    assert said in result.output
    assert "Traceback" not in result.output


def test_commands_that_load_no_model_wait_for_no_library_of_models():
    code = "import sys, gateway.cli; print({'torch', 'transformers', 'xgrammar'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
