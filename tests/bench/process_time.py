"""The processor time of a process."""

import os
from pathlib import Path

TICKS_S = 1 / os.sysconf("SC_CLK_TCK")


def processor_s(pid: int) -> float:
    """User and system time of a process, of all its threads and none of its children."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICKS_S
