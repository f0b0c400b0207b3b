"""ajv, and JavaScript's regular expressions: one Node process that answers as long as it is asked."""

import contextlib
import json
import os
import selectors
import shutil
import subprocess
from pathlib import Path
from typing import Any

MODULES = Path(__file__).parents[2] / "build" / "ajv" / "node_modules"
"""Where `make fuzz` installs ajv."""
SECONDS = 10.0
"""A question that takes longer has no answer: some patterns take JavaScript exponential time."""
_SCRIPT = Path(__file__).with_name("ajv.js")


class NoAnswer(Exception):
    """ajv cannot read the schema, or took too long."""


def is_at_hand() -> bool:
    """Whether Node and ajv are there."""
    return shutil.which("node") is not None and (MODULES / "ajv").is_dir()


class Ajv:
    """Asks Node; a process that hangs is replaced. It knows the last sixteen schemas."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._start()

    def read(self, schema: Any, draft: int) -> int:
        """Read a schema of one of `DIALECTS`; the number by which `fault` knows it.

        Raises:
            NoAnswer: ajv cannot read it.
        """
        return self._ask({"question": "schema", "schema": schema, "draft": draft})

    def fault(self, schema: int, text: str) -> str:
        """What is wrong with an instance of a schema that was read, "" if nothing is.

        Raises:
            NoAnswer: ajv gave none.
        """
        return self._ask({"question": "instance", "schema": schema, "text": text})

    def matches(self, pattern: str, texts: list[str]) -> list[bool] | None:
        """In which texts JavaScript finds a pattern; None if it cannot read the pattern.

        It is read with the flag `u` as JSON Schema asks, or else without where that means the same.
        """
        try:
            return self._ask({"question": "pattern", "pattern": pattern, "texts": texts})
        except NoAnswer:
            return None

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            ["node", "--max-old-space-size=512", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "NODE_PATH": str(MODULES)},
        )
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)

    def _ask(self, question: Any) -> Any:
        line = json.dumps(question).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line)
            self._process.stdin.flush()
            if self._selector.select(self._seconds) and (answer := self._process.stdout.readline()):
                found = json.loads(answer)
                if "failed" in found:
                    raise NoAnswer(found["failed"])
                return found["answer"]
        self.stop()
        self._start()
        raise NoAnswer("took too long, or ended")
