"""The zygote, a process with the compiler imported, and the workers that are forked from it.

`Zygote` is the zygote as the gateway sees it; `zygote` is what runs in the process itself. It imports the
compiler, which takes seconds, reads vocabularies, primes itself for each, and forks workers. It never sees a
schema. It has one thread, so that its forks are whole.

A worker starts in milliseconds, since it shares all of that, and compiles one schema at a time. If a schema
takes too long, the worker's own timer ends it, even if the gateway and the zygote are gone.

No existing process pool fits. Some start a worker anew when one is lost, which takes 2.5 s for the
imports alone (pebble, anyio); some have no time limit for a task (loky); some import the main module again in
every worker (multiprocessing); and all of them unpickle what comes from the process that ran a hostile
schema. A fork of the zygote takes 15 ms.
"""

import gc
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import IO

from compiler.isolation.compile_job import CompileJob
from compiler.isolation.confinement import confine, import_libraries
from compiler.isolation.limits import CompileLimits
from compiler.isolation.priming import prime
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.vocabulary import Vocabulary

# numpy's linear algebra starts threads by default, and a process with threads must not fork.
_ENTRY = """
import json, os, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path[:] = json.loads(sys.argv[1])
from compiler.isolation.zygote import zygote
zygote(int(sys.argv[2]), sys.argv[3])
"""


class Zygote:
    """The gateway's handle of the zygote process; its methods block."""

    def __init__(self, limits: CompileLimits, environment: Mapping[str, str]) -> None:
        self._control, theirs = socket.socketpair()
        arguments = [json.dumps(sys.path), str(theirs.fileno()), json.dumps(asdict(limits))]
        with theirs:
            # In a session of its own, so that an interrupt at the terminal reaches the gateway alone.
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter and this code
                [sys.executable, "-I", "-c", _ENTRY, *arguments],
                env=dict(environment),  # not the gateway's own, which holds secrets
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.known: frozenset[str] = frozenset()

    def learn(self, vocabulary: Vocabulary) -> None:
        """Let the zygote prime itself for a vocabulary, if it has not; does not wait for it.

        Raises:
            OSError: the zygote is gone.
        """
        if vocabulary.digest not in self.known:
            self._control.sendall(VOCABULARY + framed(vocabulary.to_bytes()))
            self.known |= {vocabulary.digest}

    def fork(self, channel: socket.socket, vocabulary: Vocabulary) -> None:
        """Fork a primed worker that serves `channel`; it is ready when the zygote is primed.

        Raises:
            OSError: the zygote is gone.
        """
        self.learn(vocabulary)
        socket.send_fds(self._control, [FORK], [channel.fileno()])

    def close(self) -> None:
        """End the zygote, even one that is stopped; its workers end when they are idle."""
        self._process.kill()
        self._process.wait()
        self._control.close()

    def collect_workers(self) -> bool:
        """Collect workers that outlived this zygote and have ended; whether some still run.

        They have become children of the first process, which in a container is the gateway. Ended ones would
        stay zombies there. The zygote's id is that of their process group.
        """
        with suppress(ChildProcessError):  # nothing of the group is a child of this process
            while os.waitpid(-self._process.pid, os.WNOHANG) != (0, 0):
                pass
            return True
        return False


FORK, VOCABULARY = b"f", b"v"
"""The commands to the zygote: fork a worker that serves the socket sent along; read a vocabulary."""

LENGTH_BYTES = 8
_OUT_OF_MEMORY_FIRST = "1000"
_LONG, _SHORT = "long", "short"
_LONG_NICENESS = 5
"""The priority of long jobs, below that of first tries and of the gateway; it cannot be raised again."""


def zygote(control_fd: int, limits: str) -> None:
    """Follow the commands on the control socket until it closes; `limits` are `CompileLimits` as JSON."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for workers, so they leave no zombies
    import_libraries()
    bounds = CompileLimits(**json.loads(limits))
    vocabularies: dict[str, PreparedVocabulary] = {}
    with socket.socket(fileno=control_fd) as control:
        while True:
            command, descriptors, *_ = socket.recv_fds(control, 1, 1)
            if command == VOCABULARY:
                _learn(Vocabulary.from_bytes(_read_frame(control)), vocabularies)
            elif command == FORK:
                (descriptor,) = descriptors
                if os.fork() == 0:
                    os.close(control.detach())
                    _work(descriptor, vocabularies, bounds)
                os.close(descriptor)
            else:
                return


def _learn(vocabulary: Vocabulary, vocabularies: dict[str, PreparedVocabulary]) -> None:
    """Prime this process for a vocabulary, which is added to those it knows."""
    vocabularies[vocabulary.digest] = prepared = PreparedVocabulary(vocabulary)
    prime(prepared)
    gc.collect()
    gc.freeze()  # so that garbage collection in a worker does not touch the shared pages


def framed(content: bytes) -> bytes:
    """A frame: the length of `content` in `LENGTH_BYTES`, then `content`."""
    return len(content).to_bytes(LENGTH_BYTES) + content


def job_frame(job: CompileJob, vocabulary: Vocabulary, *, is_long: bool) -> bytes:
    """What a worker reads, without its length: vocabulary and length of the job on one line, then the job."""
    return f"{vocabulary.digest} {_LONG if is_long else _SHORT}\n".encode() + job.to_bytes()


def _read_frame(channel: socket.socket) -> bytes:
    """The content of the next frame.

    Raises:
        EOFError: the other end has closed the channel.
    """
    return _read(channel, int.from_bytes(_read(channel, LENGTH_BYTES)))


def _read(channel: socket.socket, num_bytes: int) -> bytes:
    pieces = []
    while num_bytes:
        piece = channel.recv(min(num_bytes, 2**20))
        if not piece:
            raise EOFError
        pieces.append(piece)
        num_bytes -= len(piece)
    return b"".join(pieces)


def _work(descriptor: int, vocabularies: dict[str, PreparedVocabulary], limits: CompileLimits) -> None:
    """Serve jobs until the gateway is gone or this process has grown too large; never returns."""
    _close_others(descriptor)
    with suppress(BaseException), socket.socket(fileno=descriptor) as channel, _status() as status:
        at_start = _allocated(status)
        _bound(limits, at_start)
        channel.sendall(framed("; ".join(confine()).encode()))  # ready
        # Memory that one schema left behind must not count against the limits of the next ones for long.
        while _allocated(status) - at_start < limits.memory_bytes // 2:
            head, _, job = _read_frame(channel).partition(b"\n")
            digest, length = head.decode().split()
            if length == _LONG:
                os.nice(_LONG_NICENESS)
            _set_timers(limits, is_long=length == _LONG)
            answer = CompileJob.from_bytes(job).answer(vocabularies[digest], limits)
            _stop_timers()
            channel.sendall(framed(answer))
    os._exit(0)


def _bound(limits: CompileLimits, at_start: int) -> None:
    """Bound this process: timers end it, and it cannot allocate more than `limits` beyond `at_start`."""
    for timer in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(timer, signal.SIG_DFL)  # ends the process even inside C++ code
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if at_start:
        most = at_start + limits.memory_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OUT_OF_MEMORY_FIRST, encoding="ascii")


def _set_timers(limits: CompileLimits, *, is_long: bool) -> None:
    signal.setitimer(signal.ITIMER_PROF, limits.processor_seconds(is_long=is_long))
    # Later than the gateway's own limit: only where the gateway is gone does this one end the worker.
    signal.setitimer(signal.ITIMER_REAL, 2 * limits.wall_seconds(is_long=is_long))


def _stop_timers() -> None:
    for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
        signal.setitimer(timer, 0)


def _close_others(descriptor: int) -> None:
    """Close all descriptors but one and the standard streams."""
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, os.sysconf("SC_OPEN_MAX"))


def _status() -> IO[bytes]:
    """What the system says about this process, opened before files are out of reach; else an empty file."""
    try:
        return Path("/proc/self/status").open("rb", buffering=0)
    except OSError:
        return BytesIO()


def _allocated(status: IO[bytes]) -> int:
    """Bytes of private memory of this process, which RLIMIT_DATA bounds; 0 if the system does not say."""
    status.seek(0)
    lines = status.read().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(b"VmData")), 0)
