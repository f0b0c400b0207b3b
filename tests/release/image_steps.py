"""`python -m release.image_steps`: the Dockerfile's steps, where no container engine is.

Each stage becomes a shell script, which runs in a bare directory tree of its own: the system's programs and a Python,
both read-only, and what the stage makes. Then the last tree is used as an image is: its program serves as the image's
user, without privileges, and with nothing to write to but its volumes.

The base images are the only part that is not the Dockerfile's own; so run this on what they are made of, Debian 12 and
Python 3.12. It needs root, to change the root folder and to mount, and the package index. Nothing reaches the server
but its own health check.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "Dockerfile"
CONTEXT, STAGES = "/.context", "/.stages"
"""Where a tree finds what is sent to the builder, and the trees of earlier stages."""
KEY = "a-key-of-this-run"
_SYSTEM = ("/usr", "/etc/alternatives", "/etc/ssl", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/login.defs")
"""What a tree has of this system, read-only."""


@dataclass(frozen=True)
class Step:
    """An instruction of a Dockerfile, its lines joined."""

    word: str
    rest: str


@dataclass
class Stage:
    """What one FROM begins."""

    name: str
    base: str
    steps: list[Step] = field(default_factory=list)

    def last(self, word: str) -> str:
        """The rest of the last instruction of a kind; empty without one."""
        return next((step.rest for step in reversed(self.steps) if step.word == word), "")


def parse(text: str) -> dict[str, Stage]:
    """The stages of a Dockerfile by name; the last one without a name is `image`."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n", " ", lines)
    stages: dict[str, Stage] = {}
    arguments: dict[str, str] = {}
    for line in filter(None, map(str.strip, joined.splitlines())):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            stage = Stage(name or "image", re.sub(r"\$\{(\w+)\}", lambda found: arguments[found[1]], base))
            stages[stage.name] = stage
        elif stages:
            stage.steps.append(Step(word, rest))
        else:  # only ARG may come before the first FROM
            name, _, default = rest.partition("=")
            arguments[name] = default
    return stages


def script(stage: Stage) -> str:
    """What a builder does for a stage, as a shell script; build arguments are variables of its environment.

    Raises:
        ValueError: for an instruction that is not known here.
    """
    lines = ["set -eu"]
    for step in stage.steps:
        match step.word:
            case "ARG":
                name, _, default = step.rest.partition("=")
                lines.append(f"export {name}=${{{name}:-{default}}}")
            case "ENV":
                lines += [f"export {pair}" for pair in shlex_pairs(step.rest)]
            case "WORKDIR":
                lines.append(f"mkdir -p {step.rest} && cd {step.rest}")
            case "COPY":
                lines += copying(step.rest)
            case "RUN":
                lines += [f"echo {shlex.quote('RUN ' + step.rest)}", f"/bin/sh -c {shlex.quote(step.rest)}"]
            case "USER" | "VOLUME" | "EXPOSE" | "HEALTHCHECK" | "ENTRYPOINT" | "CMD":
                pass  # what a started container gets
            case _:
                raise ValueError(f"Dockerfile: no step here does {step.word}")
    return "\n".join(lines) + "\n"


def shlex_pairs(rest: str) -> list[str]:
    """`A=b C=d` as words, still quoted."""
    return re.findall(r'\w+=(?:"[^"]*"|\S*)', rest)


def copying(rest: str) -> Iterator[str]:
    """COPY: of a folder what is in it; a target with a slash at its end is a folder."""
    origin = CONTEXT
    if found := re.match(r"--from=(\S+) ", rest):
        origin, rest = f"{STAGES}/{found[1]}", rest[found.end() :]
    *sources, target = rest.split()
    for source in sources:
        path = f"{origin}/{source.lstrip('/')}"
        yield (
            f"if [ -d {path} ]; then mkdir -p {target} && cp -R {path}/. {target}; "
            f"else case {target} in */) mkdir -p {target};; esac; cp {path} {target}; fi"
        )


def context(folder: Path) -> None:
    """What .dockerignore lets through of the working tree, in a folder."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    for name in (line[1:] for line in lines if line.startswith("!")):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)


@dataclass(frozen=True)
class Tree:
    """A bare directory tree; `mounts` are folders that it sees at other places, read-only."""

    path: Path
    mounts: Mapping[str, Path]

    @classmethod
    def bare(cls, path: Path, python: Path, mounts: Mapping[str, Path]) -> "Tree":
        """A new one with this system's programs, and a Python of the given prefix at /usr/local."""
        for name in ("dev", "proc", "tmp", "etc/default", "root", "opt", "var/lib"):
            (path / name).mkdir(parents=True)
        (path / "tmp").chmod(0o1777)
        for name in ("bin", "sbin", "lib", "lib64"):
            (path / name).symlink_to(f"usr/{name}")
        (path / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
        (path / "etc/group").write_text("root:x:0:\n")
        for name in ("etc/resolv.conf", "etc/hosts", "etc/nsswitch.conf", "etc/pip.conf"):
            if Path("/", name).exists():
                shutil.copy(f"/{name}", path / name)
        system = {name: Path(name) for name in _SYSTEM if Path(name).exists()}
        return cls(path, {**system, "/usr/local": python, **mounts})

    def run(self, text: str, environment: Mapping[str, str], *, is_image: bool = False) -> int:
        """Run a shell script in it; as an image it has no network, and nothing to write to but its volumes."""
        steps = [f"mount --bind {self.path} {self.path}"]
        for inside, outside in self.mounts.items():
            target = self.path / inside.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.mkdir(exist_ok=True) if outside.is_dir() else target.touch()
            steps.append(f"mount --rbind {outside} {target} && mount -o remount,bind,ro {target}")
        steps.append(f"mount -t proc proc {self.path}/proc && mount --rbind /dev {self.path}/dev")
        if is_image:
            kept = [
                f"mount --bind {self.path}/{name} {self.path}/{name}" for name in ("data", "cache", "tmp")
            ]
            steps += [*kept, f"mount -o remount,bind,ro {self.path}"]
        steps.append(f"exec chroot {self.path} /bin/sh -c {shlex.quote(text)}")
        apart = ["--mount", "--pid", "--fork", "--kill-child", *(["--net"] if is_image else [])]
        command = ["unshare", *apart, "--propagation", "private", "sh", "-euc", "\n".join(steps)]
        return subprocess.run(command, env=dict(environment), check=False).returncode


def build(stages: Sequence[Stage], folder: Path, python: Path, binds: Sequence[str]) -> Tree:
    """The trees of some stages, one after the other; the last one."""
    (folder / "context").mkdir()
    context(folder / "context")
    known = ("PIP_", "SSL_", "REQUESTS_", "TORCH_INDEX")
    environment = {name: value for name, value in os.environ.items() if name.startswith(known)}
    environment["PATH"] = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin"
    mounts = {CONTEXT: folder / "context", **{path: Path(path) for path in binds}}
    for stage in stages:
        tree = Tree.bare(folder / stage.name, python, mounts)
        print(f"== {stage.name}, from {stage.base}", flush=True)
        if tree.run(f"ldconfig\n{script(stage)}", environment):
            sys.exit(f"the steps of {stage.name} failed")
        mounts = {CONTEXT: folder / "context", f"{STAGES}/{stage.name}": tree.path}
    return tree


def serve(stage: Stage, tree: Tree) -> None:
    """Start what the image starts, wait for its health check, ask it something, and end it."""
    check = shlex.join(json.loads(stage.last("HEALTHCHECK").partition("CMD ")[2]))
    program = shlex.join([*json.loads(stage.last("ENTRYPOINT")), *json.loads(stage.last("CMD"))])
    user, _, group = stage.last("USER").partition(":")
    drop = f"setpriv --reuid {user} --regid {group} --clear-groups --no-new-privs --bounding-set=-all"
    environment = [step.rest for step in stage.steps if step.word == "ENV"]
    asks = (
        "import json, urllib.request as r; "
        f"q = r.Request('http://127.0.0.1:8080/v1/models', headers={{'Authorization': 'Bearer {KEY}'}}); "
        "print('serves', [m['id'] for m in json.load(r.urlopen(q))['data']])"
    )
    lines = [
        "set -eu",
        *(f"export {pair}" for rest in environment for pair in shlex_pairs(rest)),
        f"cd {stage.last('WORKDIR')}",
        f"python -c {shlex.quote(_LOOPBACK)}",
        f"CALLGATE_API_KEY={KEY} {drop} {program} & server=$!",
        f'until {drop} {check} 2>/dev/null; do kill -0 "$server"; sleep 1; done',
        f"{drop} python -c {shlex.quote(asks)}",
        f"if {drop} touch /opt/callgate/x 2>/dev/null; then echo 'the image can be written to'; exit 1; fi",
        # The server answers what runs, and then ends by the signal itself.
        'kill -TERM "$server"; wait "$server" || [ $? = 143 ]',
    ]
    path = {"PATH": "/usr/local/bin:/usr/bin:/usr/sbin"}
    if tree.run("\n".join(lines), path, is_image=True):
        sys.exit("the image's program did not serve, or did not end as it should")


_LOOPBACK = """\
import fcntl, socket, struct
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
"""


def main() -> None:
    """Run the steps of the image, and use it; ends with what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m release.image_steps", description=__doc__)
    parser.add_argument(
        "--python", default=sys.executable, help="the Python that stands for the base image's"
    )
    parser.add_argument("--bind", action="append", default=[], help="a folder that pip reads packages from")
    options = parser.parse_args()
    if os.geteuid():
        sys.exit("this needs root, to change the root folder")
    asked = "import sys; print(sys.base_prefix, *sys.version_info[:2])"
    done = subprocess.run([options.python, "-c", asked], capture_output=True, text=True, check=True)
    prefix, *version = done.stdout.split()
    stages = parse(DOCKERFILE.read_text("utf-8"))
    wanted = re.search(r"python:(\d+)\.(\d+)", stages["image"].base)
    if wanted is None or [*wanted.groups()] != version:
        print(f"not as in the image: Python {'.'.join(version)} instead of {stages['image'].base}")
    with tempfile.TemporaryDirectory() as folder:
        tree = build([stages["build"], stages["image"]], Path(folder), Path(prefix), options.bind)
        serve(stages["image"], tree)


if __name__ == "__main__":
    main()
