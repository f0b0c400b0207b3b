"""The plugin in a folder of its own, seen from a Python that has other packages than this one."""

import os
import subprocess
import sys
from importlib import metadata

import pytest

from runtime.engines.plugin_folder import ENGINES_OWN, fill


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugin")
    fill(
        folder,
        [metadata.distribution(name) for name in ("callgate", "msgspec", "redis", "xgrammar", "numpy")],
    )
    return folder


@pytest.fixture
def engine(tmp_path):
    """The packages of an engine: an xgrammar, and a msgspec of its own."""
    site = tmp_path / "engine"
    for name, version in (("xgrammar", metadata.version("xgrammar")), ("msgspec", "0.0.1")):
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").write_text("")
        described = site / f"{name}-{version}.dist-info"
        described.mkdir()
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return site


def run(folder, engine, program):
    """A Python that has none of this environment's packages, with those of the engine before the folder's."""
    path = os.pathsep.join([str(folder / "path"), str(engine)])
    return subprocess.run(
        [sys._base_executable, "-c", program],
        env={"PYTHONPATH": path, "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_engine_finds_the_plugin(folder, engine):
    program = "from importlib.metadata import entry_points as e; print(*e(group='vllm.general_plugins'))"
    done = run(folder, engine, program)
    assert "runtime.engines.vllm.plugin:register" in done.stdout, done.stderr


def test_what_the_engine_lacks_comes_from_the_folder_and_what_it_has_does_not(folder, engine):
    program = "import msgspec, redis, runtime; print(msgspec.__file__, redis.__file__, runtime.__file__)"
    done = run(folder, engine, program)
    theirs, missing, ours = done.stdout.split()
    assert theirs.startswith(str(engine))
    assert missing.startswith(str(folder / "packages"))
    assert ours.startswith(str(folder / "packages"))


def test_what_a_plugin_shares_with_its_engine_is_not_copied(folder):
    assert not (folder / "packages" / "xgrammar").exists()
    assert not (folder / "packages" / "numpy").exists()
    assert ENGINES_OWN.fullmatch("nvidia-cublas")
    assert not ENGINES_OWN.fullmatch("callgate")


def test_an_engine_with_another_xgrammar_does_not_start(folder, engine):
    [described] = engine.glob("xgrammar-*.dist-info")
    described.rename(engine / "xgrammar-0.0.1.dist-info")
    (engine / "xgrammar-0.0.1.dist-info" / "METADATA").write_text("Name: xgrammar\nVersion: 0.0.1\n")
    done = run(folder, engine, "print('started')")
    assert done.returncode != 0
    assert "this engine has 0.0.1" in done.stderr
    assert "started" not in done.stdout


def test_a_package_that_the_plugin_replaces_comes_before_the_engines(tmp_path, engine):
    """As for SGLang 0.5.23, which has another xgrammar than the gateway."""
    [described] = engine.glob("xgrammar-*.dist-info")
    (described / "METADATA").write_text("Name: xgrammar\nVersion: 0.0.1\n")
    described.rename(engine / "xgrammar-0.0.1.dist-info")
    folder = tmp_path / "plugin"
    fill(folder, [metadata.distribution(name) for name in ("xgrammar", "msgspec")], ["xgrammar"])
    program = (
        "from importlib import metadata, util\n"
        "print(metadata.version('xgrammar'), util.find_spec('xgrammar').origin, util.find_spec('msgspec').origin)"
    )
    done = run(folder, engine, program)
    version, brought, theirs = done.stdout.split()
    assert version == metadata.version("xgrammar")
    assert brought.startswith(str(folder / "path"))
    assert theirs.startswith(str(engine))


def test_a_package_that_is_not_here_replaces_none(tmp_path):
    command = [sys.executable, "-m", "runtime.engines.plugin_folder", str(tmp_path / "plugin"), "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "not installed here" in done.stderr
    assert not (tmp_path / "plugin").exists()


def test_an_engine_of_another_python_does_not_start(folder, engine):
    on_start = folder / "path" / "sitecustomize.py"
    text = on_start.read_text("utf-8")
    on_start.write_text(text.replace(f"_XGRAMMAR = {sys.version_info[:2]}", "_XGRAMMAR = (3, 10)"), "utf-8")
    try:
        done = run(folder, engine, "print('started')")
    finally:
        on_start.write_text(text, "utf-8")
    assert done.returncode != 0
    assert "Python 3.10" in done.stderr
