"""Processes that are killed while they write to SQLite: `python -m chaos.sqlite_kills FILE NUMBER`.

Prints, as JSON, what was lost of what they had acknowledged, and how much that was. It is a program of its own because
its writers are forked, which a process with threads must not do; each would else take a second to start.
"""

import asyncio
import itertools
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from toolspecs import Catalog, Tool, Toolset
from toolspecs.errors import ToolspecsError
from toolspecs.stores import open_store

ROOT = Path(__file__).resolve().parents[2]


def killed_writers(path: Path, num_kills: int) -> tuple[list[str], int]:
    """What was lost of the writes of processes that were killed, and how many were acknowledged."""
    command = [sys.executable, "-m", "chaos.sqlite_kills", str(path), str(num_kills)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests")))}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    wrong, num_acknowledged = json.loads(done.stdout)
    return wrong, num_acknowledged


def main() -> None:
    path, num_kills = Path(sys.argv[1]), int(sys.argv[2])
    acknowledged: dict[str, str] = {}
    for number in range(num_kills):
        acknowledged |= killed_in_mid_write(path, number)
    print(json.dumps([asyncio.run(lost(path, acknowledged)), len(acknowledged)]))


def killed_in_mid_write(path: Path, number: int) -> dict[str, str]:
    """The digests of the toolsets that a process has acknowledged until it was killed."""
    reading, writing = os.pipe()
    if not (pid := os.fork()):
        with suppress(BaseException):
            asyncio.run(write_on(path, number, writing))
        os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as lines:
        said = [lines.readline()]  # it writes by now
        time.sleep(random.random() * 0.02)
        os.kill(pid, signal.SIGKILL)
        said += lines
    os.waitpid(pid, 0)
    assert said[0], "the writer has ended by itself"
    return dict(line.split() for line in said if line.endswith("\n"))


async def write_on(path: Path, number: int, out: int) -> None:
    catalog = Catalog(open_store(f"sqlite://{path}"))
    for count in itertools.count():
        name = f"t-{number}-{count}"
        revision = await catalog.put(Toolset(name, (Tool(name, "", {"type": "object", "title": name}),)))
        os.write(out, f"{name} {revision.digest}\n".encode())


async def lost(path: Path, acknowledged: dict[str, str]) -> list[str]:
    """What is wrong with the file."""
    with sqlite3.connect(path) as connection:
        (verdict,) = connection.execute("PRAGMA integrity_check").fetchone()
    wrong = [f"the file is damaged: {verdict}"] if verdict != "ok" else []
    store = open_store(f"sqlite://{path}")
    catalog = Catalog(store)
    for name, digest in acknowledged.items():
        try:
            found = (await catalog.get(name)).digest
        except ToolspecsError as error:
            found = str(error)
        if found != digest:
            wrong.append(f"lost: {name}: {found}")
    await store.close()
    return wrong


if __name__ == "__main__":
    main()
