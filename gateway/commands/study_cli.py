"""`callgate study`: runs a study, shows its progress and tables, and says where the results are."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gateway.settings import Settings
from runtime.loading import hide_progress_bars, load_model
from runtime.models import find_source
from runtime.study import OnProgress, StudyReport, StudySettings, check_folder, run_study, write_report

INTERRUPTED = 130


def study(settings: Settings, options: Mapping[str, Any], folder: Path, console: Console) -> int:
    """Run a study and write its results; returns 130 if it was interrupted, else 0.

    Raises:
        RequestRefused: an option or the folder cannot be used.
        ModelLoadError: the model cannot be loaded.
    """
    check_folder(folder)
    hide_progress_bars()
    if settings.num_threads is not None:
        torch.set_num_threads(settings.num_threads)
    source = find_source(settings.model, Path(settings.data_dir), settings.adapter)
    loaded = load_model(
        source.model,
        model_id=settings.model_name or Path(settings.model).name,
        device=settings.device,
        dtype=settings.dtype,
        adapter=source.adapter,
    )
    with progress(console) as say:
        findings = run_study(loaded, StudySettings(**options), say, folder)
    if not findings.cells:
        console.print("Interrupted before there was anything to report.")
        return INTERRUPTED
    report = StudyReport(findings)
    console.print(Markdown(report.summary()))
    for line in write_report(report, folder):
        console.print(line, highlight=False, soft_wrap=True)
    return 0 if findings.is_whole else INTERRUPTED


@contextmanager
def progress(console: Console) -> Iterator[OnProgress]:
    """Show progress: a bar on a terminal, elsewhere some twenty lines."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading questions", total=None)
        num_lines = 0

        def say(what: str, done: int, total: int) -> None:
            nonlocal num_lines
            bar.update(task, description=what, completed=done, total=total)
            if not console.is_terminal and done * 20 >= num_lines * total:
                num_lines += 1
                console.print(f"{done} of {total} answers; {what}", highlight=False)

        yield say
