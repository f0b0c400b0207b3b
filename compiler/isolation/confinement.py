"""Confinement: what a compile worker is cut off from before it reads its first schema.

A schema that takes over its worker finds no network, no files but Python's libraries, no other program to
start, and no other process to look into or to stop. Every process may give up such rights for itself:

- Landlock (Linux 5.13, with the library `landlock`) denies all files beneath no library folder.
- seccomp (with `pyseccomp` and the system's libseccomp) denies system calls.

Other systems have neither. A worker says what it could not give up, and the pool logs it once. Open
descriptors stay open: the socket to the gateway and the log.
"""

import errno
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from toolspecs.confined_files import drop_files, still_open

_OWN_PACKAGES = ("compiler", "toolspecs")

_DENIED = (
    *("socket", "socketpair", "connect", "bind", "listen", "accept", "accept4"),
    *("io_uring_setup", "io_uring_enter", "io_uring_register"),  # they can open sockets, too
    *("execve", "execveat", "fork", "vfork", "clone", "clone3"),  # a child would have no time limit
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_open", "pidfd_getfd", "pidfd_send_signal"),
    *("kill", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"),
)
_OWN_ONLY = {"prlimit64": 0, "setpriority": 1, "sched_setaffinity": 0, "sched_setscheduler": 0}
"""Calls that a process may make for itself, by the argument that names a process; 0 is the caller."""


def import_libraries() -> None:
    """Import what `confine` uses ahead, in the process that workers are forked from."""
    for name in ("landlock", "pyseccomp"):
        with suppress(Exception):  # `confine` says what is missing
            import_module(name)


def confine() -> list[str]:
    """Give up all that this process does not need to compile; returns what could not be given up, and why.

    It holds for this process and all that it starts, and cannot be taken back.
    """
    if sys.platform != "linux":
        return [f"files, network and processes ({sys.platform} has neither Landlock nor seccomp)"]
    import_libraries()
    packages = [str(Path(__file__).parents[2] / name) for name in _OWN_PACKAGES]
    return [
        *still_open("files", lambda: drop_files(packages)),
        *still_open("network and processes", _drop_calls),
    ]


def _drop_calls() -> None:
    """Deny the system calls that reach the network or another process."""
    from pyseccomp import ALLOW, ERRNO, NE, Arg, SyscallFilter  # noqa: PLC0415 - only Linux has it

    denied = ERRNO(errno.EPERM)
    calls = SyscallFilter(ALLOW)
    for name in _DENIED:
        calls.add_rule(denied, name)
    for name, argument in _OWN_ONLY.items():
        calls.add_rule(denied, name, Arg(argument, NE, 0))
    calls.add_rule(denied, "tgkill", Arg(0, NE, os.getpid()))  # a process that fails signals itself
    calls.load()
