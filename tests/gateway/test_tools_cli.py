"""`callgate tools`: toolsets are applied, checked, listed, shown and removed, and what is wrong is told."""

import json
from collections import defaultdict

import pytest
from msgspec import structs
from sample_tools import TIME, WEATHER
from serving import served
from source_server import web

from gateway.app import create_app


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "weather.json"
    path.write_text(json.dumps({"tools": [WEATHER, TIME]}))
    return path


def test_toolsets_are_applied_listed_shown_and_removed(run, gateway, file):
    assert "weather created at revision 1, 2 tools" in run("tools", "apply", str(file)).stdout
    assert "weather is at revision 1" in run("tools", "apply", str(file)).stdout
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
    assert "weather is at revision 1" in run("tools", "apply", str(copy)).stdout


def test_what_show_prints_after_a_tool_was_deleted_apply_takes_back(run, gateway, tmp_path):
    path = tmp_path / "weather.json"
    search = {"limit": 5, "always": ["clock.now", "get_weather"]}
    path.write_text(json.dumps({"name": "weather", "tools": [WEATHER, TIME], "tool_search": search}))
    assert run("tools", "apply", str(path)).exit_code == 0
    assert gateway.delete("/v1/toolsets/weather/tools/clock.now").status_code == 200
    path.write_text(run("tools", "show", "weather").stdout)
    assert "weather is at revision 2, 1 tool" in run("tools", "apply", str(path)).stdout


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
    """The gateway would get only the last one, and could not refuse it."""
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


def test_a_gateway_that_does_not_run_is_named(run, unused_tcp_port):
    result = run("tools", "list", "--url", f"http://127.0.0.1:{unused_tcp_port}")
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
    with web(defaultdict(lambda: (status, {}, answer))) as (url, _):
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


@pytest.mark.parametrize("name", ["", "a?b"])
@pytest.mark.parametrize("command", ["show", "rm"])
def test_a_name_that_no_toolset_has_is_refused(run, gateway, command, name):
    result = run("tools", command, name)
    assert result.exit_code == 1
    assert result.stderr == ("no toolset 'a?b'\n" if name else "a toolset needs a name\n")
