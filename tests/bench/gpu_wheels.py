"""What a GPU machine without a package index lacks: wheels, and a real tokenizer's vocabulary.

make gpu-wheels, or PYTHONPATH=tests python tests/bench/gpu_wheels.py [--python 3.12] [--out .gpu]
torch, transformers and Triton are taken to be there; what else the runtime and the compiler import comes along,
in the versions of constraints.txt.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from corpus import ROOT

PACKAGES = (
    "aiosqlite",
    "annotated-types",
    "apache-tvm-ffi",
    "bm25s",
    "docstring_parser",
    "gguf",
    "jsonschema_rs",
    "lark",
    "msgspec",
    "opentelemetry-api",
    "peft",
    "pydantic",
    "pydantic_core",
    "PyStemmer",
    "redis",
    "typing-inspection",
    "typing_extensions",
    "xgrammar",
    "zstandard",
)
PLATFORMS = (
    "manylinux_2_34",
    "manylinux_2_28",
    "manylinux_2_27",
    "manylinux_2_24",
    "manylinux_2_17",
    "manylinux2014",
)
CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"


def main() -> None:
    """Download and copy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default="3.12")
    parser.add_argument("--out", type=Path, default=Path(".gpu"))
    parser.add_argument("--tokenizer", default="qwen3", help="a folder of the shared test data")
    options = parser.parse_args()
    wheels, tokenizer = options.out / "wheels", options.out / "tokenizer"
    for folder in (wheels, tokenizer):
        shutil.rmtree(folder, ignore_errors=True)
    platforms = [part for name in PLATFORMS for part in ("--platform", f"{name}_x86_64")]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += [
        "--implementation",
        "cp",
        "--python-version",
        options.python,
        *platforms,
        "--dest",
        str(wheels),
    ]
    subprocess.run([*command, *pinned()], check=True)
    if (source := ROOT / "tokenizers" / options.tokenizer).is_dir():
        shutil.copytree(source, tokenizer)
    size = sum(file.stat().st_size for file in options.out.rglob("*") if file.is_file())
    print(f"{len(list(wheels.iterdir()))} wheels, {size / 2**20:.0f} MiB in {options.out}")


def pinned() -> list[str]:
    """The requirements, as constraints.txt pins them."""
    pins = dict(line.split("==") for line in CONSTRAINTS.read_text().split())
    return [f"{name}=={pins[name]}" for name in PACKAGES]


if __name__ == "__main__":
    main()
