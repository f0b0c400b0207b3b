"""What a schema that takes over its compile worker can reach: nothing."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import pytest_asyncio

from compiler.isolation import zygote
from compiler.isolation.compile_job import CompileJob
from compiler.isolation.confinement import confine
from compiler.isolation.pools import WorkerPool
from compiler.prepared_vocabulary import prepare
from compiler.vocabulary import Vocabulary
from gateway.setting_sources import library_environment
from toolspecs.tool import Tool

VOCABULARY = prepare(Vocabulary.of_bytes())
FINE = CompileJob.tool(Tool("t", "", {"properties": {"a": {"type": "integer"}}}), "json")

PROBE = """
import ctypes, json, os, resource, signal, socket, sys
from pathlib import Path
status = open("/proc/self/status", "rb")
from compiler.isolation.confinement import confine
missing = confine()

def attempt(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return "done"

secret, parent = sys.argv[1], os.getppid()
print(json.dumps([missing, {
    "a TCP socket": attempt(lambda: socket.socket()),
    "a UDP socket": attempt(lambda: socket.socket(type=socket.SOCK_DGRAM)),
    "a UNIX socket": attempt(lambda: socket.socket(socket.AF_UNIX)),
    "the secret": attempt(lambda: open(secret).read()),
    "a new file": attempt(lambda: open(secret + "2", "w")),
    "a folder": attempt(lambda: os.listdir("/")),
    "the gateway's memory": attempt(lambda: open(f"/proc/{parent}/mem", "rb").read(1)),
    "the gateway's environment": attempt(lambda: open(f"/proc/{parent}/environ", "rb").read(1)),
    "a signal": attempt(lambda: os.kill(parent, 0)),
    "the gateway's limits": attempt(lambda: resource.prlimit(parent, resource.RLIMIT_NOFILE)),
    "the gateway's priority": attempt(lambda: os.setpriority(os.PRIO_PROCESS, parent, 5)),
    "another program": attempt(lambda: os.execv("/bin/true", ["true"])),
    "a child": attempt(lambda: os.fork() or os._exit(0)),
}, {
    "its own status": attempt(lambda: os.pread(status.fileno(), 10, 0)),
    "its own priority": attempt(lambda: os.nice(1)),
    "its own limits": attempt(lambda: resource.getrlimit(resource.RLIMIT_NOFILE)),
    "a module": attempt(lambda: __import__("xml.dom.minidom")),
}]))
"""


def variables_of(pid):
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return {variable.partition(b"=")[0].decode() for variable in variables if variable}


def descriptors_of_child(pid):
    """What the only child of a process has open, beside the standard streams."""
    (child,) = [
        status.parent.name
        for status in Path("/proc").glob("[0-9]*/stat")
        if int(status.read_text().rpartition(")")[2].split()[1]) == pid
    ]
    return [str(entry.readlink()) for entry in Path(f"/proc/{child}/fd").iterdir() if int(entry.name) > 2]


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    """What a confined process could do; skipped where the system cannot confine one."""
    secret = tmp_path_factory.mktemp("data") / "secret"
    secret.write_text("0123456789abcdef")
    ran = subprocess.run(
        [sys.executable, "-c", PROBE, str(secret)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    missing, denied, allowed = json.loads(ran.stdout)
    if missing:
        pytest.skip(f"this system cannot cut a process off from {missing}")
    return denied, allowed


def test_nothing_outside_is_reached(probe):
    denied, _ = probe
    assert set(denied.values()) == {"PermissionError"}, denied


def test_what_compiling_needs_is_left(probe):
    _, allowed = probe
    assert set(allowed.values()) == {"done"}, allowed


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool():
    """Workers of a gateway that has secrets in its environment, and a descriptor that it might leave to them.

    One of them has done a job for the client `a`.
    """
    leaked = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leaked, True)  # noqa: FBT003 - it takes no keyword
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CALLGATE_SECRET", "0123456789abcdef")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
        pool = WorkerPool(2, environment=library_environment())
        await pool.run(FINE, VOCABULARY, is_long=False, client_id="a")
    yield pool
    os.close(leaked)
    await pool.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_workers_inherit_no_variable_of_the_gateway(pool):
    names = variables_of(pool._zygote._process.pid)
    assert names <= {"PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ"}


@pytest.mark.asyncio(loop_scope="module")
async def test_workers_have_no_descriptors_but_their_socket_and_the_log(pool):
    targets = descriptors_of_child(pool._zygote._process.pid)
    assert sum(target.startswith("socket:") for target in targets) == 1
    assert all(target.startswith("socket:") or target.endswith("/status") for target in targets)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_worker_works_for_one_client(pool):
    """Whoever took a worker over would decide what others' grammars are."""
    (of_a,) = pool._idle
    await pool.run(FINE, VOCABULARY, is_long=False, client_id="a")
    assert pool._idle == [of_a]
    await pool.run(FINE, VOCABULARY, is_long=False, client_id="b")
    assert [worker.client_id for worker in pool._idle] == ["a", "b"]
    await pool.run(FINE, VOCABULARY, is_long=False, client_id="c")
    assert [worker.client_id for worker in pool._idle] == ["b", "c"]
    assert not of_a.is_alive or of_a.writer.is_closing()


async def test_the_log_says_what_workers_are_not_cut_off_from(monkeypatch, caplog):
    entry = zygote._ENTRY.replace(
        "zygote(int(",
        "import compiler.isolation.zygote as z; z.confine = lambda: ['files (why)']\nzygote(int(",
    )
    monkeypatch.setattr(zygote, "_ENTRY", entry)
    workers = WorkerPool(1)
    with caplog.at_level(logging.WARNING):
        await workers.run(FINE, VOCABULARY)
        await workers.close()
    assert "compile workers are not cut off from files (why)" in caplog.text


def test_another_system_says_that_it_cannot(monkeypatch):
    monkeypatch.setattr("compiler.isolation.confinement.sys.platform", "darwin")
    assert "darwin" in confine()[0]
