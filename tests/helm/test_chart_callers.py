"""What the chart has that calls the gateways: the Job of toolsets, the test of a release, and commands in the notes."""

import json
import os
import runpy
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml
from fake_runtime import FakeRuntime, call, text
from rendered_chart import NODES, RUNNING_ENGINES, SGLANG, TOOLSETS, render, run_helm, templates_of
from serving import served
from values_table import CHART

from gateway.app import create_app
from gateway.settings import Settings
from gateway.version import VERSION

KEY = "a-key-of-this-test"


def test_toolsets_arrive_as_they_were_written():
    objects = render(TOOLSETS)
    files = objects["ConfigMap", "release-callgate-toolsets"]["data"]
    values = yaml.safe_load(TOOLSETS)["toolsets"]
    assert json.loads(files["payments.json"]) == values["payments"]
    assert files["large.json"] == values["large"]


@pytest.mark.parametrize("kind", ["Job", "Pod"])
def test_the_commands_of_pods_that_call_the_gateways_work(kind, tmp_path):
    """The scripts as the chart has them, against a gateway that is served."""
    objects = render(TOOLSETS)
    workload = objects[kind, f"release-callgate-{'toolsets' if kind == 'Job' else 'test'}"]
    [template] = templates_of(workload)
    pod = template["spec"]
    shell, option, script = pod["containers"][0]["command"]
    (tmp_path / "toolsets").mkdir()
    for name, content in objects["ConfigMap", "release-callgate-toolsets"]["data"].items():
        (tmp_path / "toolsets" / name).write_text(content, "utf-8")
    (tmp_path / "api-keys").write_text(f"# ours\n\n{KEY}\n", "utf-8")
    script = script.replace("/toolsets/", f"{tmp_path}/toolsets/")
    script = script.replace("/etc/callgate/keys", str(tmp_path))
    settings = Settings(data_dir=str(tmp_path), api_key=KEY, compile_workers=0)
    runtime = FakeRuntime(call("report", '{"state": "good"}'))
    with served(create_app(settings, runtime=runtime)) as client:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {"PATH": path, "CALLGATE_URL": str(client.base_url).rstrip("/")}
        for _ in range(2 if kind == "Job" else 1):  # every upgrade runs the Job again
            done = subprocess.run(
                [shell, option, script],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
            assert done.returncode == 0, done.stdout + done.stderr
        if kind == "Pod":
            assert "called [{'name': 'report'" in done.stdout
        if kind == "Job":
            listed = client.get("/v1/toolsets", headers={"Authorization": f"Bearer {KEY}"}).json()
            revisions = {toolset["name"]: toolset["revision"] for toolset in listed["toolsets"]}
            assert revisions == {"payments": 1, "large": 1}


def test_toolsets_wait_for_the_gateways_of_their_release(monkeypatch, capsys):
    """In an upgrade, a former gateway may still answer, which knows no new key and checks by former rules."""
    good = (200, {"version": VERSION})
    answers = [(401, {}), good, (200, {"version": "0.0.1"}), *[good] * 20]
    asked = []

    class Gateways(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers["Authorization"]))
            status, content = answers.pop(0)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Gateways) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("CALLGATE_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("CALLGATE_API_KEY", KEY)
        monkeypatch.setattr(time, "sleep", lambda _: None)
        runpy.run_path(str(CHART / "files" / "wait.py"))
        server.shutdown()
    assert answers == []
    assert set(asked) == {("/version", f"Bearer {KEY}")}
    reasons = ["HTTP Error 401: Unauthorized", f"it has version 0.0.1, not {VERSION}"]
    assert capsys.readouterr().out.splitlines() == [
        f"waiting for the gateways of this release: {reason}" for reason in reasons
    ]


def test_the_notes_say_which_engines_load_the_model():
    done = run_helm("install release", SGLANG, "--dry-run=client")
    assert "1 to 3 SGLang engines load Qwen/Qwen3-32B." in done.stdout
    done = run_helm("install release", NODES, "--dry-run=client")
    assert "2 vLLM engines of 3 pods load Qwen/Qwen3-235B-A22B." in done.stdout


def test_the_notes_name_commands_that_work(tmp_path):
    """Kubectl stands in for itself here: it runs what is to run in a pod, and prints what a Secret holds."""
    done = run_helm("install release", RUNNING_ENGINES, "--dry-run=client", "--namespace", "here")
    notes = done.stdout.partition("NOTES:\n")[2].replace("/etc/callgate/keys", str(tmp_path))
    (tmp_path / "api-keys").write_text(f"# ours\n\n{KEY}\n", "utf-8")
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        f'#!/bin/sh\ncase "$3" in\n  exec) shift 5; exec "$@";;\n  get) base64 {tmp_path}/api-keys;;\nesac\n'
    )
    kubectl.chmod(0o755)
    command = notes[notes.index("  kubectl --namespace here exec ") :].partition("\n\n")[0]
    [export] = [line.strip() for line in notes.splitlines() if line.strip().startswith("export ")]
    with served(create_app(Settings(data_dir=str(tmp_path), api_key=KEY), runtime=FakeRuntime())) as client:
        done = subprocess.run(
            ["sh", "-euc", f'{export}\necho "$CALLGATE_API_KEY"\n{command}'],
            env={
                "PATH": f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}",
                "CALLGATE_URL": str(client.base_url).rstrip("/"),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == KEY
    assert "No external engine" in done.stdout


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (text("I would rather talk."), "not a valid call"),
        (call("report", '{"state": "fine"}'), "not a valid call"),
        ([RuntimeError("the engine is broken")], "500"),
    ],
)
def test_a_release_whose_model_makes_no_valid_call_fails_its_test(script, says, tmp_path):
    settings = Settings(data_dir=str(tmp_path), api_key=KEY, compile_workers=0)
    with served(create_app(settings, runtime=FakeRuntime(script))) as client:
        done = subprocess.run(
            [sys.executable, str(CHART / "files" / "ask.py")],
            env={"CALLGATE_URL": str(client.base_url).rstrip("/"), "CALLGATE_API_KEY": KEY},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 1
    assert says in done.stderr
