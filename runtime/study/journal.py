"""The journal of a study: answers are written down as they come, so that a study that was stopped goes on.

A complete study goes on too, and asks nothing. Its answers took hours, so no other study replaces them.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from runtime.errors import RequestRefused
from runtime.study.answering import StudyAnswer

ANSWERS = "answers.jsonl"
ASKED = "asked.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """An answer, its cell, its number there, and the seconds since the study began."""

    questions: str
    strategy: str
    temperature: float
    number: int
    elapsed: float
    answer: StudyAnswer

    @property
    def line(self) -> str:
        """The entry as a line of JSON: what the answer says stands beside where it belongs."""
        fields = {name: getattr(self, name) for name in _PLACE}
        return json.dumps(fields | asdict(self.answer)) + "\n"

    @classmethod
    def read(cls, line: str) -> "Entry":
        """The entry of a line.

        Raises:
            ValueError: it is not one.
        """
        fields = json.loads(line)
        place = {name: fields.pop(name, None) for name in _PLACE}
        return msgspec.convert(place | {"answer": fields}, cls)


_PLACE = ("questions", "strategy", "temperature", "number", "elapsed")


class Journal:
    """The answers in a folder, and their conditions: the model and the settings.

    Raises:
        RequestRefused: the folder has answers of another study, or cannot be written to.
    """

    def __init__(self, folder: Path, conditions: Mapping[str, Any]) -> None:
        self._answers = folder / ANSWERS
        recorded = _begun(folder)
        if recorded is not None and recorded != conditions:
            differing = next(
                key for key in {**conditions, **recorded} if conditions.get(key) != recorded.get(key)
            )
            raise RequestRefused(
                f"{folder} has answers of another study: its {differing} is"
                f" {recorded.get(differing)!r}, and this one's is {conditions.get(differing)!r};"
                " name another folder, or delete that one",
                "out",
            )
        whole = [] if recorded is None else list(_whole_lines(self._answers))
        self.entries: tuple[Entry, ...] = tuple(entry for entry, _ in whole)
        """What the study has answered already."""
        try:
            (folder / ASKED).write_text(json.dumps(conditions, indent=1) + "\n", "utf-8")
            if recorded is None:
                self._answers.write_text("", "utf-8")
            else:
                _cut(self._answers, sum(num_bytes for _, num_bytes in whole))
        except OSError as error:
            raise RequestRefused(f"cannot write to {folder}: {error.strerror or error}", "out") from error

    def add(self, entry: Entry) -> None:
        """Write an answer down."""
        with self._answers.open("a", encoding="utf-8") as file:
            file.write(entry.line)


def _begun(folder: Path) -> dict[str, Any] | None:
    """The conditions of the study in this folder; None if there is none."""
    try:
        conditions = json.loads((folder / ASKED).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(conditions, dict):
        return None
    conditions.pop("is_whole", None)  # of earlier versions
    return conditions


def _cut(path: Path, num_bytes: int) -> None:
    """Remove a torn line from the end."""
    with path.open("ab") as file:
        file.truncate(num_bytes)


def _whole_lines(path: Path) -> Iterator[tuple[Entry, int]]:
    """The entries of a file and the bytes of their lines, up to the first line that is torn."""
    try:
        with path.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    return
                yield Entry.read(line.decode()), len(line)
    except (OSError, ValueError):
        return
