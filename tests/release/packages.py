"""`python -m release.packages`: make in `dist/` what is published, and look at it.

The wheel, the source archive, the chart, the bill of materials of the image, and the hashes of them all. Nothing is
uploaded: `.github/workflows/release.yml` does that with what this leaves.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

from release.lock import IMAGE, ROOT, locked

DIST = ROOT / "dist"
TOOLS = ROOT / "build/release/bin"
PACKAGES = ("toolspecs", "compiler", "runtime", "gateway")
NEEDED = ("gateway/cli.py", "runtime/models/tiny/model.safetensors", "gateway/demo/toolsets/payments.json")
"""Some files without which an installed package does not work."""


def main() -> None:
    """Make all, or end with what is wrong."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    check_chart_version(version)
    shutil.rmtree(DIST, ignore_errors=True)
    run(str(TOOLS / "python"), "-m", "build", "--no-isolation", "--outdir", str(DIST), str(ROOT))
    helm = shutil.which("helm") or str(Path(sys.executable).parent / "helm")
    run(helm, "lint", "--strict", str(ROOT / "helm/callgate"))
    run(helm, "package", str(ROOT / "helm/callgate"), "--destination", str(DIST))
    bill = DIST / "callgate.cdx.json"
    run(str(TOOLS / "cyclonedx-py"), "requirements", str(IMAGE), "--pyproject", str(ROOT / "pyproject.toml"),
        "--output-reproducible", "--of", "JSON", "-o", str(bill))  # fmt: skip
    check_wheel(DIST / f"callgate-{version}-py3-none-any.whl")
    check_source(DIST / f"callgate-{version}.tar.gz")
    check_bill(bill)
    files = sorted(path for path in DIST.iterdir() if path.is_file())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (DIST / "SHA256SUMS").write_text("".join(sums))
    print("".join(sums))


def run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def check_chart_version(version: str) -> None:
    chart = (ROOT / "helm/callgate/Chart.yaml").read_text("utf-8")
    if f'appVersion: "{version}"' not in chart:
        sys.exit(f"helm/callgate/Chart.yaml: its appVersion is not {version}, the version of pyproject.toml")


def check_wheel(path: Path) -> None:
    """It holds the packages and nothing else, and its program starts where only its dependencies are."""
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        tops = {name.partition("/")[0] for name in names if ".dist-info" not in name}
        missing = set(NEEDED) - set(names)
        if tops != set(PACKAGES) or missing:
            sys.exit(f"{path.name} holds {sorted(tops)}, and lacks {sorted(missing)}")
        with tempfile.TemporaryDirectory() as folder:
            wheel.extractall(folder)
            program = f"import sys; sys.path.insert(0, {folder!r}); from gateway.cli import main; main()"
            run(sys.executable, "-I", "-c", program, "settings")


def check_source(path: Path) -> None:
    """It has what the wheel is built of."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    missing = {"pyproject.toml", "LICENSE", "README.md", *NEEDED} - names
    if missing:
        sys.exit(f"{path.name} lacks {sorted(missing)}")


def check_bill(path: Path) -> None:
    """It names every package of the image in its version."""
    found = {(one["name"], one["version"]) for one in json.loads(path.read_text())["components"]}
    missing = set(locked(IMAGE.read_text("utf-8"))) - found
    if missing:
        sys.exit(f"{path.name} lacks {sorted(missing)}")


if __name__ == "__main__":
    main()
