"""`callgate study`: runs a study, shows its progress and tables, and says where the results are.

What loads torch is imported by the functions, because every command imports this file.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gateway.commands.terminal import errors_explained, say
from gateway.setting_sources import load
from gateway.settings import Settings

if TYPE_CHECKING:
    from runtime.study import OnProgress, StudySettings

QUICK = ("prompt", "retry", "callgate", "accept", "particles", "best", "draft")
"""The strategies of a quick study."""
QUICK_COUNT = 12
"""The questions of each set in a quick study."""
INTERRUPTED = 130


def study(
    *,
    model: Annotated[
        str | None, typer.Option(help="Model: a directory or a hub id; by default the one that is served.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few strategies and questions: minutes with the tiny model.")
    ] = False,
    count: Annotated[
        int | None, typer.Option(min=1, help="Questions in each set; by default 30, if quick 12.")
    ] = None,
    draws: Annotated[
        int, typer.Option(min=1, help="Times that each question is asked, with other seeds.")
    ] = 1,
    sets: Annotated[
        str | None, typer.Option(help="Sets of questions to ask, separated by commas; by default all.")
    ] = None,
    temperatures: Annotated[
        str | None, typer.Option(help="Temperatures, separated by commas; by default 0,0.7,1, if quick 1.")
    ] = None,
    strategies: Annotated[
        str | None, typer.Option(help="Strategies to compare, separated by commas; by default all.")
    ] = None,
    bfcl: Annotated[
        Path | None, typer.Option(help="Folder of BFCL's files, to add its questions, which people wrote.")
    ] = None,
    at_once: Annotated[int, typer.Option(min=1, help="Questions that run at the same time.")] = 8,
    max_tokens: Annotated[int, typer.Option(min=16, help="Most tokens of an answer.")] = 256,
    device: Annotated[str | None, typer.Option(help="Device the model runs on: auto, cpu, cuda, …")] = None,
    num_threads: Annotated[
        str | None, typer.Option(help="Threads for a model on the CPU; by default torch chooses.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for tables, numbers, plots and answers.")] = Path(
        "callgate-study"
    ),
) -> None:
    """Measure what masking gains: valid and right calls, tokens and time, beside other strategies."""
    from runtime.study import StudySettings  # noqa: PLC0415 - loads torch

    with errors_explained():
        settings = load({"model": model, "device": device, "num_threads": num_threads})
        asked = StudySettings(
            count=count or (QUICK_COUNT if quick else 30),
            temperatures=_numbers(temperatures or ("1" if quick else "0,0.7,1")),
            num_draws=draws,
            sets=tuple(sets.split(",")) if sets else None,
            strategies=tuple(strategies.split(",")) if strategies else QUICK if quick else None,
            bfcl=bfcl,
            num_at_once=at_once,
            max_tokens=max_tokens,
        )
        raise typer.Exit(_run(settings, asked, out, Console()))


def _numbers(text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError:
        numbers = ()
    if not numbers or not all(0 <= number <= 2 for number in numbers):
        raise typer.BadParameter(
            f"expected numbers from 0 to 2, such as 0,0.7,1, got {text!r}", param_hint="--temperatures"
        )
    return numbers


def _run(settings: Settings, asked: "StudySettings", folder: Path, console: Console) -> int:
    """Run a study and write its results; returns 130 if it was interrupted, else 0.

    Raises:
        RequestRefused: an option or the folder cannot be used.
        ModelLoadError: the model cannot be loaded.
    """
    import torch  # noqa: PLC0415 - as above

    from runtime.loading import hide_progress_bars, load_model  # noqa: PLC0415
    from runtime.models import find_source, spell_model  # noqa: PLC0415
    from runtime.study import StudyReport, check_folder, run_study, write_report  # noqa: PLC0415

    check_folder(folder)
    hide_progress_bars()
    if settings.num_threads is not None:
        torch.set_num_threads(settings.num_threads)
    source = find_source(settings.model, Path(settings.data_dir), settings.adapter)
    loaded = load_model(
        source.model,
        model_id=settings.model_name or Path(spell_model(settings.model)).name,
        device=settings.device,
        dtype=settings.dtype,
        adapter=source.adapter,
    )
    gc.collect()
    gc.freeze()  # as a gateway does, so that collections are short
    with _progress(console) as tell:
        findings = run_study(loaded, asked, tell, folder)
    if not findings.cells:
        console.print("Interrupted before there was anything to report.")
        return INTERRUPTED
    report = StudyReport(findings)
    console.print(Markdown(report.summary()))
    for line in write_report(report, folder):
        say(console, line)
    return 0 if findings.is_whole else INTERRUPTED


@contextmanager
def _progress(console: Console) -> Iterator["OnProgress"]:
    """Show progress: a bar on a terminal, elsewhere some twenty lines."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading questions", total=None)
        num_lines = 0

        def tell(what: str, done: int, total: int) -> None:
            nonlocal num_lines
            bar.update(task, description=what, completed=done, total=total)
            if not console.is_terminal and done * 20 >= num_lines * total:
                num_lines += 1
                console.print(f"{done} of {total} answers; {what}", highlight=False)

        yield tell
