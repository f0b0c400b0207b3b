"""The image's recipe, as far as it can be checked without a container engine."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


def test_hadolint_has_nothing_to_say():
    beside = Path(sys.executable).parent / "hadolint"
    hadolint = shutil.which("hadolint") or (str(beside) if beside.exists() else None)
    if hadolint is None:
        pytest.skip("no hadolint here; run `python tests/helm/install_tools.py`")
    done = subprocess.run([hadolint, str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False)
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
        assert DOCKERFILE.count(f"COPY {package} {package}\n") == 2


def test_the_images_run_as_the_user_that_the_chart_runs_them_as():
    chart = (ROOT / "helm/callgate/templates/_helpers.tpl").read_text("utf-8")
    users = re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)
    assert len(users) == len(re.findall(r"^FROM (?!.* AS build$)", DOCKERFILE, re.MULTILINE)) == 2
    assert {f"runAsUser: {user}" for user in users} <= set(map(str.strip, chart.splitlines()))
