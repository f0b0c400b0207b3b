"""What the image is made of is locked, and the workflow does what can be done by hand."""

import re
import tomllib
from importlib import metadata

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.lock import BUILD, EXTRAS, IMAGE, LISTED, OF_TORCH, ROOT, listed, locked

PYPROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))
ENTRY = re.compile(r"^(\S+)==\S+ \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


def constraints():
    text = (ROOT / "constraints.txt").read_text("utf-8")
    return {canonicalize_name(name): version for name, version in locked(text)}


def test_every_package_of_both_locks_has_a_hash():
    for lock in (IMAGE, BUILD):
        text = lock.read_text("utf-8")
        assert [name for name, _ in ENTRY.findall(text)] == [name for name, _ in locked(text)]
        assert "://" not in text


def test_the_image_has_the_versions_that_are_tested():
    tested = constraints()
    differing = {
        name: version
        for name, version in locked(IMAGE.read_text("utf-8"))
        if tested.get(canonicalize_name(name), version) != version
    }
    assert not differing, "run `make lock`"


@pytest.mark.parametrize("python", ["3.11.3", "3.12.0", "3.13.0", "3.14.0"])
def test_everything_that_the_project_needs_is_locked(python):
    """Also what these packages need in turn, by their own metadata, with any version of Python from 3.11.3 on.

    `PYTHON_IMAGE` may name another one than the image has by default. The documentation says from which on.
    """
    here = {"python_version": python.rpartition(".")[0], "python_full_version": python, "extra": ""}
    found = {canonicalize_name(name) for name, _ in locked(IMAGE.read_text("utf-8"))}
    project = tomllib.loads(PYPROJECT)["project"]
    extras = (line for extra in EXTRAS for line in project["optional-dependencies"][extra])
    wanted = [*map(Requirement, [*project["dependencies"], *extras])]
    seen = set()
    while wanted:
        name = canonicalize_name(wanted.pop().name)
        if name in seen or OF_TORCH.fullmatch(name):
            continue
        seen.add(name)
        assert name in found, f"{name} is not locked; run `make lock`"
        for line in metadata.requires(name) or ():
            one = Requirement(line)
            if one.marker is None or one.marker.evaluate(here):
                wanted.append(one)


def test_the_list_of_licences_is_that_of_the_lock():
    rows = [line for line in LISTED.read_text("utf-8").splitlines() if line.startswith("| ")][1:]
    expected = locked(IMAGE.read_text("utf-8"))
    assert [tuple(row.strip("| ").split(" | ")[:2]) for row in rows] == expected, "run `make lock`"
    assert "says none" not in listed(expected[:3])


def test_the_workflow_calls_what_can_be_called_by_hand():
    """Its commands are in the repository, and what it publishes is what `make release` has made."""
    commands = [step["run"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "run" in step]
    assert ".ci/run" in commands
    assert "make release" in commands
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert re.search(r"^release:", makefile, re.MULTILINE)
    publishing = [job for job in WORKFLOW["jobs"].values() if "id-token" in job.get("permissions", {})]
    assert [job["if"] for job in publishing] == ["github.ref_type == 'tag'"]
    assert WORKFLOW["permissions"] == {"contents": "read"}


def test_the_workflow_holds_the_actions_of_others_by_commit():
    used = [step["uses"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "uses" in step]
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action)] == []


def test_the_version_is_one():
    version = re.search(r'^version = "(.+)"$', PYPROJECT, re.MULTILINE)[1]
    assert f'appVersion: "{version}"' in (ROOT / "helm/callgate/Chart.yaml").read_text("utf-8")
