"""The processes that compile: a zygote, and the workers it forks; `zygote.Zygote` starts the one.

The zygote imports the compiler, which takes seconds, reads vocabularies, forks, and primes itself while no
fork is wanted; it never sees a schema. It has one thread, so that a fork of it is whole. A worker starts in
milliseconds with all of that shared, compiles one schema at a time, and ends where one takes too long: by
its own timer, whoever else is gone.
"""

import gc
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from compiler.isolation.compile_job import CompileJob
from compiler.isolation.limits import CompileLimits
from compiler.isolation.priming import priming
from compiler.vocabulary import Vocabulary

# numpy's linear algebra starts threads unless told not to, and a process with threads must not fork.
_ENTRY = """
import json, os, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path[:] = json.loads(sys.argv[1])
from compiler.isolation.zygote import zygote
zygote(int(sys.argv[2]), sys.argv[3])
"""


class Zygote:
    """The process that workers are forked from; its methods block."""

    def __init__(self, limits: CompileLimits) -> None:
        self._control, theirs = socket.socketpair()
        arguments = [json.dumps(sys.path), str(theirs.fileno()), json.dumps(asdict(limits))]
        with theirs:
            # A session of its own, so that an interrupt at the terminal is the gateway's alone to answer.
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter and this code
                [sys.executable, "-c", _ENTRY, *arguments],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.known: frozenset[str] = frozenset()

    def fork(self, channel: socket.socket, vocabulary: Vocabulary) -> None:
        """Have a worker serve `channel` that knows a vocabulary.

        Raises:
            OSError: the zygote is gone.
        """
        if vocabulary.digest not in self.known:
            content = vocabulary.to_bytes()
            self._control.sendall(VOCABULARY + len(content).to_bytes(LENGTH_BYTES) + content)
            self.known |= {vocabulary.digest}
        socket.send_fds(self._control, [FORK], [channel.fileno()])

    def close(self) -> None:
        """End it; its workers end when they are idle."""
        self._process.terminate()
        self._process.wait()
        self._control.close()


if TYPE_CHECKING:
    from collections.abc import Iterator

FORK, VOCABULARY = b"f", b"v"
"""What the zygote is told: to fork a worker that serves the socket sent along; to read a vocabulary."""

LENGTH_BYTES = 8
_DONE = object()
_OUT_OF_MEMORY_FIRST = "1000"


def zygote(control_fd: int, limits: str) -> None:
    """Do as told on the control socket until it closes; `limits` are `CompileLimits` as JSON."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # workers are nobody's to wait for
    bounds = CompileLimits(**json.loads(limits))
    vocabularies: dict[str, Vocabulary] = {}
    to_prime: list[Iterator[None]] = []
    with socket.socket(fileno=control_fd) as control:
        while True:
            if to_prime and not select.select([control], [], [], 0)[0]:  # whoever waits is served first
                if next(to_prime[0], _DONE) is _DONE:
                    del to_prime[0]
                gc.collect()
                gc.freeze()  # a collection in a worker then leaves the shared pages alone
                continue
            command, descriptors, *_ = socket.recv_fds(control, 1, 1)
            if command == VOCABULARY:
                vocabulary = Vocabulary.from_bytes(read_frame(control))
                vocabularies[vocabulary.digest] = vocabulary
                to_prime.append(priming(vocabulary))
            elif command == FORK:
                (descriptor,) = descriptors
                if os.fork() == 0:
                    os.close(control.detach())
                    _work(descriptor, vocabularies, bounds)
                os.close(descriptor)
            else:
                return


def write_frame(channel: socket.socket, content: bytes) -> None:
    """Write a length and as many bytes."""
    channel.sendall(len(content).to_bytes(LENGTH_BYTES) + content)


def read_frame(channel: socket.socket) -> bytes:
    """Read what `write_frame` wrote.

    Raises:
        EOFError: the other end is gone.
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


def _work(descriptor: int, vocabularies: dict[str, Vocabulary], limits: CompileLimits) -> None:
    """Be a worker until the gateway is gone, or this process is worn; never returns."""
    with suppress(BaseException), socket.socket(fileno=descriptor) as channel:
        at_start = _allocated()
        _bound(limits, at_start)
        write_frame(channel, b"")  # ready
        # What a hostile schema left behind is not carried on to the next ones' limits.
        while _allocated() - at_start < limits.memory_bytes // 2:
            digest, _, job = read_frame(channel).partition(b"\n")
            _set_timers(limits.seconds, limits.wall_seconds)
            answer = CompileJob.from_bytes(job).answer(vocabularies[digest.decode()], limits)
            _set_timers(0, 0)
            write_frame(channel, answer)
    os._exit(0)


def _bound(limits: CompileLimits, at_start: int) -> None:
    for timer in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(timer, signal.SIG_DFL)  # ends the process, in C++ too
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if at_start:
        most = at_start + limits.memory_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OUT_OF_MEMORY_FIRST, encoding="ascii")


def _set_timers(processor_s: float, wall_s: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, processor_s)
    signal.setitimer(signal.ITIMER_REAL, wall_s)


def _allocated() -> int:
    """Bytes of private memory of this process, what RLIMIT_DATA counts; 0 where the system does not tell."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmData")), 0)
