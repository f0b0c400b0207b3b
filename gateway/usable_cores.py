"""The number of cores that this process may use, by its affinity and the limit of its container.

torch considers only the affinity. In a container limited to one core of sixteen it would start sixteen
threads, which use up the limit at once and are then all stopped.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def num_usable_cores(root: Path = _ROOT, own: Path = _OWN) -> int:
    """At least 1. `root` is where control groups are mounted; `own` is the file that names this process's."""
    return max(1, math.ceil(min([_num_allowed(), *_limits(root, own)])))


def _num_allowed() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _limits(root: Path, own: Path) -> Iterator[float]:
    """The limits in cores of this process's control group and of those around it, versions 1 and 2."""
    for folder in _folders(root, own):
        words = [*_words(folder / "cpu.max")] or [
            *_words(folder / "cpu.cfs_quota_us"),
            *_words(folder / "cpu.cfs_period_us"),
        ]
        if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]):  # no "max", no -1
            yield int(words[0]) / int(words[1])


def _folders(root: Path, own: Path) -> Iterator[Path]:
    """Inside a container the own group is usually the root, whatever name it has outside."""
    for base in (root, root / "cpu"):
        yield base
    for line in _lines(own):
        _, _, controllers_and_name = line.partition(":")
        controllers, _, name = controllers_and_name.partition(":")
        base = root / "cpu" if "cpu" in controllers.split(",") else root
        if not controllers or "cpu" in controllers.split(","):
            inner = base / name.lstrip("/")
            yield from (folder for folder in (inner, *inner.parents) if folder.is_relative_to(base))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def _words(path: Path) -> list[str]:
    return " ".join(_lines(path)).split()
