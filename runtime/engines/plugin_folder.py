"""`python -m runtime.engines.plugin_folder FOLDER [PACKAGE …]`: the plugin for an engine in another image.

An init container with the gateway's image copies this project and its dependencies into a folder that the
engine's container sees too. There, only `PYTHONPATH=FOLDER/path` is set. That path holds one file, which
Python runs when it starts, and which adds FOLDER/packages *behind* all packages of the engine. So if both
have a package, the engine's is used; only packages that the engine lacks come from the folder. Packages that
the plugin must share with its engine are not copied at all.

An engine may have a version of a package that the plugin cannot use, as SGLang 0.5.23 has of xgrammar. Such a
package is named after the folder. It goes into FOLDER/path, so it takes the place of the engine's.

Compiled packages fit one version of Python, and stored grammars fit one version of xgrammar. If the engine
has other versions, Python refuses to start there and says why.
"""

import re
import shutil
import sys
import sysconfig
from collections.abc import Collection, Iterable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

OURS = ("toolspecs", "compiler", "runtime", "gateway")
ENGINES_OWN = re.compile(
    r"torch|triton|nvidia[-_].*|cuda[-_].*|numpy|sympy|transformers|tokenizers|safetensors|xgrammar|pip"
)
"""What an engine has, in versions of its own."""

_ON_START = '''\
"""Lets this process find Callgate's plugin, behind all that it has itself."""

import sys
from importlib import metadata

_PYTHON, _XGRAMMAR = {python!r}, {xgrammar!r}

if sys.version_info[:2] != _PYTHON:
    sys.exit(
        "callgate: the plugin was copied from an image with Python %d.%d, and this engine runs %d.%d: "
        "take images of the same Python" % (*_PYTHON, *sys.version_info[:2])
    )
try:
    _found = metadata.version("xgrammar")
except metadata.PackageNotFoundError:
    _found = "none"
if _found != _XGRAMMAR:
    sys.exit(
        "callgate: grammars are stored by xgrammar %s, and this engine has %s: "
        "take a gateway with the engine's version"
        % (_XGRAMMAR, _found)
    )
sys.path.append({packages!r})
'''


def fill(
    folder: Path, distributions: Iterable[metadata.Distribution], replaced: Collection[str] = ()
) -> None:
    """Copy this project and installed distributions, except those that every engine has itself.

    Those of `replaced` are copied in any case, and used instead of the engine's.

    Existing files are overwritten: an init container may run more than once.
    """
    packages, path = folder / "packages", folder / "path"
    for name in OURS:
        spec = find_spec(name)
        assert spec
        assert spec.origin
        shutil.copytree(
            Path(spec.origin).parent,
            packages / name,
            ignore=shutil.ignore_patterns("__pycache__"),
            dirs_exist_ok=True,
        )
    for distribution in distributions:
        name = distribution.metadata["Name"].lower()
        if name in replaced:
            _copy(distribution, path)
        elif not ENGINES_OWN.fullmatch(name):
            _copy(distribution, packages)
    path.mkdir(parents=True, exist_ok=True)
    text = _ON_START.format(
        python=sys.version_info[:2], xgrammar=metadata.version("xgrammar"), packages=str(packages)
    )
    (path / "sitecustomize.py").write_text(text, "utf-8")


def _copy(distribution: metadata.Distribution, folder: Path) -> None:
    """Copy a distribution's files below site-packages, without scripts and bytecode."""
    for file in distribution.files or ():
        if (
            file.parts[0] == ".."
            or "__pycache__" in file.parts
            or file.parts[0] in OURS
            or file.suffix == ".pth"
        ):
            continue
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(distribution.locate_file(file)), target)


def main() -> None:
    """Copy everything that is installed in this environment."""
    if len(sys.argv) < 2:
        sys.exit("usage: python -m runtime.engines.plugin_folder FOLDER [PACKAGE ...]")
    folder, *replaced = sys.argv[1:]
    site_packages = sysconfig.get_path("purelib")
    distributions = metadata.distributions(path=[site_packages])
    installed = {distribution.metadata["Name"].lower(): distribution for distribution in distributions}
    if missing := set(replaced) - set(installed):
        sys.exit(f"not installed here, so it cannot replace an engine's: {', '.join(sorted(missing))}")
    fill(Path(folder), installed.values(), replaced)


if __name__ == "__main__":
    main()
