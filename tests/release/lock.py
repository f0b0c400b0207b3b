"""`python -m release.lock`: lock what the image is made of, and list it with its licences.

uv resolves the dependencies of pyproject.toml, held to constraints.txt, for Linux and the image's Python, and writes
each version with the hashes of its files. torch is not among them: it comes from an index that is chosen when the image
is built, for CPUs or for a version of CUDA, and its own parts of CUDA with it.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IMAGE, BUILD = ROOT / ".image/requirements.txt", ROOT / ".image/build.txt"
LISTED = ROOT / "docs/dependencies.md"
UV = ROOT / "build/release/bin/uv"
EXTRAS = ("otlp", "mcp")
"""Those that the image has."""
PROJECT = [str(ROOT / "pyproject.toml"), *(word for extra in EXTRAS for word in ("--extra", extra))]
OF_TORCH = re.compile(r"torch|nvidia-.*|cuda-.*")
"""What comes from torch's index."""
_NAME = re.compile(r"^([A-Za-z0-9._-]+)==([^ \\;]+)", re.MULTILINE)
_HEAD = """\
# Made by `make lock` from pyproject.toml and constraints.txt; see docs/operations.md. torch comes from an index of its own.
"""


def main() -> None:
    """Write both locks, and the list."""
    python = image_python((ROOT / "Dockerfile").read_text("utf-8"))
    found = resolve(PROJECT, python)
    left_out = [name for name, _ in locked(found) if OF_TORCH.fullmatch(name)]
    IMAGE.write_text(_HEAD + resolve(PROJECT, python, left_out))
    with tempfile.NamedTemporaryFile("w", suffix=".in") as wanted:
        build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
        wanted.write("\n".join(build))
        wanted.flush()
        BUILD.write_text(_HEAD + resolve([wanted.name], python))
    LISTED.write_text(listed(locked(IMAGE.read_text("utf-8"))))


def image_python(dockerfile: str) -> str:
    """The version of Python in the image."""
    found = re.search(r"^ARG PYTHON_IMAGE=python:(\d+\.\d+)", dockerfile, re.MULTILINE)
    assert found, "the Dockerfile names no version of Python"
    return found[1]


def resolve(sources: list[str], python: str, without: list[str] | None = None) -> str:
    """What uv resolves, with hashes."""
    command = [
        *(str(UV), "pip", "compile", *sources, "--constraint", str(ROOT / "constraints.txt")),
        *("--generate-hashes", "--no-header", "--no-annotate", "--quiet", "--python-version", python),
        *("--python-platform", "x86_64-unknown-linux-gnu", "--no-config"),
        *(word for name in without or () for word in ("--no-emit-package", name)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    if done.returncode:
        sys.exit(done.stderr)
    return "".join(line for line in done.stdout.splitlines(keepends=True) if not line.startswith("#"))


def locked(text: str) -> list[tuple[str, str]]:
    """Names and versions of a lock."""
    return _NAME.findall(text)


def listed(packages: list[tuple[str, str]]) -> str:
    """The list of packages and licences, which the packages in this environment say of themselves."""
    rows = [f"| {name} | {version} | {licence(name, version)} |" for name, version in packages]
    torch = metadata.version("torch").partition("+")[0]
    head = f"""\
# Dependencies

The packages in the image besides Python, each with its licence as its metadata states it. `make lock` writes this page,
together with `.image/requirements.txt`, which holds the hashes. torch {torch} ({licence("torch")}) is installed too, from the index
that `TORCH_INDEX` names. `make release` writes a bill of materials, `callgate.cdx.json`, in CycloneDX's format.

| package | version | licence |
|---|---|---|
"""
    return head + "\n".join(rows) + "\n"


def licence(name: str, version: str | None = None) -> str:
    """The licence of an installed package; says so if another version or none is installed."""
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return "not installed where this was made"
    if version is not None and found["Version"] != version:
        sys.exit(
            f"{name} {found['Version']} is installed, but {version} is locked: make the environment anew"
        )
    if expression := found.get("License-Expression"):
        return str(expression)
    classifiers = [
        line.rpartition(" :: ")[2] for line in found.get_all("Classifier") or () if "License ::" in line
    ]
    own = (found.get("License") or "").strip().splitlines()
    return ", ".join(classifiers) or (own[0] if own else "says none")


if __name__ == "__main__":
    main()
