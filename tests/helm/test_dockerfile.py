"""The image's recipe, as far as it can be checked without a container engine."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from release.image_steps import Tree, parse, script, serve
from rendered_chart import installed
from source_server import web

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
ADD_PLUGIN = (ROOT / ".image/add_plugin.sh").read_text("utf-8")


def test_hadolint_has_nothing_to_say():
    command = [installed("hadolint"), str(ROOT / "Dockerfile")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_everything_copied_exists_and_is_sent_to_the_builder():
    sent = {
        line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")
    }
    copied = {
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    }
    assert copied <= sent
    assert all((ROOT / source).exists() for source in copied)


def test_every_package_is_copied():
    for package in ("toolspecs", "compiler", "runtime", "gateway"):
        assert DOCKERFILE.count(f"COPY {package} {package}\n") == 1


def test_the_images_run_as_the_user_that_the_chart_runs_them_as():
    chart = (ROOT / "helm/callgate/templates/_helpers.tpl").read_text("utf-8")
    users = re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)
    assert len(users) == len(re.findall(r"^FROM (?!.* AS build$)", DOCKERFILE, re.MULTILINE)) == 3
    assert {f"runAsUser: {user}" for user in users} <= set(map(str.strip, chart.splitlines()))


def test_whatever_is_installed_from_an_index_has_a_known_hash_but_torch():
    """A wheel that the image has built itself needs none."""
    installing = re.findall(r"pip install ([^&\n]*)", re.sub(r"\\\n\s*", "", DOCKERFILE + ADD_PLUGIN))
    others = [line for line in installing if "--require-hashes" not in line and "/wheels/" not in line]
    assert [line for line in others if "^torch==" not in line] == []
    assert len(installing) > len(others) > 0


@pytest.mark.parametrize(("status", "is_healthy"), [(200, True), (500, False)])
def test_the_health_check_asks_the_port_that_the_container_is_told(status, is_healthy):
    [_, *arguments] = json.loads(parse(DOCKERFILE)["image"].last("HEALTHCHECK").partition("CMD ")[2])
    with web({"/healthz": (status, {}, b"")}) as (url, _):
        environment = os.environ | {"CALLGATE_PORT": url.rpartition(":")[2]}
        done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, check=False)
    assert (done.returncode == 0) is is_healthy, done.stderr


@pytest.mark.parametrize("stage", ["build", "vllm", "sglang", "image"])
def test_the_steps_of_each_stage_are_a_script_that_a_shell_can_read(stage):
    """`make image-steps` runs them."""
    text = script(parse(DOCKERFILE)[stage])
    assert subprocess.run(["sh", "-n"], input=text, text=True, check=False).returncode == 0
    assert "\\\n" not in text


def test_a_script_does_what_its_dockerfile_says(tmp_path):
    [stage] = parse(
        """
        ARG BASE=python:3.12
        FROM ${BASE}
        ARG GREETING=hello
        ENV FIRST="a b" \\
            SECOND=c
        # a comment
        WORKDIR "$TREE/made"
        RUN echo "$GREETING $FIRST $SECOND" > said \\
            # a comment in the middle
            && echo done >> said
        CMD ["said"]
        """.replace("        ", "")
    ).values()
    assert (stage.base, stage.last("CMD")) == ("python:3.12", '["said"]')
    subprocess.run(["sh", "-c", script(stage)], env={"TREE": str(tmp_path)}, check=True)
    assert (tmp_path / "made" / "said").read_text() == "hello a b c\ndone\n"


SERVER = """#!/usr/bin/env python
from http.server import BaseHTTPRequestHandler, HTTPServer
class Server(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "stands in"}]}')
HTTPServer(("0.0.0.0", 8080), Server).serve_forever()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the root folder")
def test_the_last_stage_makes_an_image_that_its_user_can_only_write_to_where_it_should(tmp_path):
    """Its steps in a bare tree, with a program of this test where the stage before has built one."""
    if subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("this machine lets nobody mount")
    program = tmp_path / "built/opt/callgate/bin/callgate"
    program.parent.mkdir(parents=True)
    program.write_text(SERVER)
    program.chmod(0o755)
    stage = parse(DOCKERFILE)["image"]
    tree = Tree.bare(tmp_path / "tree", Path(sys.base_prefix), {"/.stages/build": tmp_path / "built"})
    environment = {"PATH": "/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin"}
    assert tree.run("ldconfig\n" + script(stage), environment) == 0
    user, _, group = stage.last("USER").partition(":")
    drop = f"setpriv --reuid {user} --regid {group} --clear-groups"
    writes = " && ".join(f"{drop} touch {folder}/x" for folder in (*json.loads(stage.last("VOLUME")), "/tmp"))
    assert tree.run(writes, environment, is_image=True) == 0
    assert tree.run("! touch /opt/callgate/x", environment, is_image=True) == 0
    serve(stage, tree)


def test_an_engines_own_packages_are_not_installed_again(tmp_path):
    entry = "not-installed_here==2.0 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
    lock = tmp_path / "lock.txt"
    lock.write_text(f"# made by a test\nPyTest==1.0 \\\n    --hash=sha256:aa\n{entry}")
    command = [sys.executable, str(ROOT / ".image/lacking.py"), str(lock)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == entry
    whole = lock.read_text().partition("\n")[2]
    assert subprocess.run([*command, "pytest"], capture_output=True, text=True, check=True).stdout == whole
