"""A gateway in a process of its own, as `callgate serve` starts it, and what it takes of the processor."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TICKS_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Gateway:
    """A gateway at `url`."""

    pid: int
    url: str


@contextmanager
def started(*options: str, **environment: str) -> Iterator[Gateway]:
    """A gateway with these options and variables, on a free port, once it serves."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from gateway.cli import main; main()", "serve", "--port", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | environment,
    )
    assert process.stdout is not None, "it has a pipe"
    try:
        said = []
        while " at http://" not in (line := process.stdout.readline()):
            said.append(line)
            assert line, "".join(said)  # it ended
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield Gateway(process.pid, "http://" + line.split("http://")[1].split()[0])
    finally:
        process.terminate()
        process.wait(30)


def processor_s(pid: int) -> float:
    """User and system time of a process, of all its threads and none of its children."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICKS_S
