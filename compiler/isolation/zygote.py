"""The zygote seen from the gateway: a process with the compiler imported, from which workers are forked.

Pools of processes that exist start a worker anew where one was lost, which takes 2.5 s for the imports alone
(pebble, anyio), know no time limit for a task (loky), or import the main module again in every worker
(multiprocessing); and all read pickles from what a hostile schema ran in. A fork of the zygote takes 15 ms.
"""

import json
import socket
import subprocess
import sys
from dataclasses import asdict

from compiler.isolation.limits import CompileLimits
from compiler.isolation.worker import FORK, LENGTH_BYTES, VOCABULARY
from compiler.vocabulary import Vocabulary

# numpy's linear algebra starts threads unless told not to, and a process with threads must not fork.
_ENTRY = """
import json, os, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path[:] = json.loads(sys.argv[1])
from compiler.isolation.worker import zygote
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
