"""The folder of a study: `study.md`, `study.json`, `answers.jsonl` and, with matplotlib, two pictures."""

from collections.abc import Iterator
from pathlib import Path

from runtime.errors import RequestRefused
from runtime.study.plots import NEEDED, draw
from runtime.study.report import StudyReport


def check_folder(folder: Path) -> None:
    """Make the folder, before anything is computed for it.

    Raises:
        RequestRefused: it cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "study.json").open("a", encoding="utf-8").close()
    except OSError as error:
        raise RequestRefused(f"cannot write to {folder}: {error.strerror or error}", "out") from error


def write(report: StudyReport, folder: Path) -> Iterator[str]:
    """Write everything; yields a line for each file, or why there is none."""
    (folder / "study.md").write_text(report.as_markdown(), "utf-8")
    yield f"{folder / 'study.md'}: all tables"
    (folder / "study.json").write_text(report.as_json(), "utf-8")
    yield f"{folder / 'study.json'}: all numbers"
    (folder / "answers.jsonl").write_text("".join(report.answers()), "utf-8")
    yield f"{folder / 'answers.jsonl'}: every answer with its verdict"
    try:
        pictures = draw(report, folder)
    except ImportError:
        yield NEEDED
        return
    yield from (f"{path}: a picture" for path in pictures)
