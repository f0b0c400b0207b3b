"""Limits the files that a process with hostile input may read: Python's libraries and those that it names.

Landlock (Linux 5.13, with the library `landlock`) denies all other files to this process and its children.
This cannot be undone. Other systems have nothing like it.
"""

import os
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

_LIBRARIES = ("stdlib", "platstdlib", "purelib", "platlib")
_SYSTEM_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")


def drop_files(readable: Iterable[str]) -> None:
    """Give up all files except `readable` and the libraries, as modules may be imported late.

    Raises errors of many kinds if the system or the library does not support this.
    """
    from landlock import FSAccess, Ruleset  # noqa: PLC0415 - only Linux has it

    ruleset = Ruleset()
    installed = [sysconfig.get_path(name) for name in _LIBRARIES]
    for path in {Path(folder) for folder in (*installed, *_SYSTEM_LIBRARIES, *readable)}:
        if path.is_dir():
            ruleset.allow(path, rules=FSAccess.READ_FILE | FSAccess.READ_DIR)
        elif path.exists():
            ruleset.allow(path, rules=FSAccess.READ_FILE)
    ruleset.apply()
    os.close(ruleset._fd)  # noqa: SLF001 - the library leaves it open


def still_open(what: str, drop: Callable[[], None]) -> Iterator[str]:
    """Call `drop`; if it fails, yield what is still open, with the reason."""
    try:
        drop()
    except Exception as error:  # noqa: BLE001 - the libraries raise errors of many kinds
        reason = next(iter(str(error).splitlines()), "")
        yield f"{what} ({type(error).__name__}: {reason[:200]})"
