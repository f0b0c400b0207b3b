"""The folder of a study: `study.md`, `study.json`, `answers.jsonl` and, with matplotlib, three pictures."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runtime.errors import RequestRefused
from runtime.study.journal import ANSWERS
from runtime.study.lenient_parser import OutputFault
from runtime.study.results import interval
from runtime.study.study_report import TITLES, StudyReport

NEEDED = "no pictures, as matplotlib is missing: pip install 'callgate[bench]'"

NUM_KINDS = 11
"""The most frequent kinds of faults have colours of their own; the others share one."""
COLOURS = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377",
    "#ee7733", "#004488", "#997700", "#99cc99", "#882255",
)  # fmt: skip
"""Distinguishable side by side; mostly from Paul Tol's colour schemes, 2021."""
OTHER = "other"
HARDLY_ANY = 0.1
"""A set with no larger share of right calls, by any strategy, has no panel among others that have."""
SHADES = ("#9ecae1", "#4292c6", "#08519c", "#08306b")


def draw_pictures(report: StudyReport, folder: Path) -> list[Path]:
    """Write the pictures into `folder`; returns their paths.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from matplotlib import rc_context  # noqa: PLC0415 - of the `bench` extra

    with rc_context({"svg.hashsalt": "callgate", "svg.fonttype": "none", "font.size": 9}):
        return [
            _draw_spending(report, folder / "spending.svg"),
            _draw_shares(report, folder / "study.svg"),
            _draw_faults(report, folder / "faults.svg"),
        ]


def _draw_spending(report: StudyReport, path: Path) -> Path:
    """Draw right calls over tokens computed for a question: a panel for each set, a line for each strategy.

    A line joins the temperatures, of which the highest has the largest point; a title in bold has a thick
    one.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415

    best = {name: max(row.right for row in report.rows if row.questions == name) for name in report.sets}
    shown = [name for name in report.sets if best[name] > HARDLY_ANY] or report.sets
    num_columns = min(2, len(shown))
    num_rows = math.ceil(len(shown) / num_columns)
    figure = Figure(figsize=(4.6 * num_columns + 0.4, 3.4 * num_rows + 1.2), layout="constrained")
    panels = figure.subplots(num_rows, num_columns, squeeze=False).flat
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
    for axes, questions in zip(panels, shown, strict=False):
        _draw_lines(axes, report, questions)
        _set_log_tokens(axes)
        axes.set_title(f"{questions}: right calls, %", loc="left", fontsize=9)
        _set_percent(axes, _round_end(best[questions] + 0.02), "y")
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4, fontsize=7)
    return _saved(figure, path)


def _draw_lines(axes: Any, report: StudyReport, questions: str) -> None:
    """Draw right calls over computed tokens for one set, a line for each strategy."""
    for number, name in enumerate(report.strategies):
        rows = sorted(report.of(questions, name), key=lambda row: row.temperature)
        tokens, right = [row.tokens_computed for row in rows], [row.right for row in rows]
        colour = COLOURS[number % len(COLOURS)]
        style = "-" if number < len(COLOURS) else ":"
        width = 2.8 if TITLES[name].startswith("**") else 1.2
        label = TITLES[name].strip("*")
        axes.plot(tokens, right, color=colour, linestyle=style, linewidth=width, label=label)
        axes.scatter(tokens, right, s=[12 * (index + 1) for index in range(len(rows))], color=colour)


def _set_log_tokens(axes: Any) -> None:
    """A logarithmic axis of computed tokens, with plain numbers at 1, 2 and 5."""
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter  # noqa: PLC0415

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("tokens computed for a question", fontsize=8)


def _draw_shares(report: StudyReport, path: Path) -> Path:
    """Draw valid and right calls by strategy: a panel for each set, a bar for each temperature."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    names = report.strategies
    figure = Figure(figsize=(9, 0.7 + (0.5 + 0.2 * len(names)) * len(report.sets)), layout="constrained")
    panels = figure.subplots(len(report.sets), 2, squeeze=False, sharey=True)
    for row, questions in zip(panels, report.sets, strict=True):
        for axes, share in zip(row, ("valid", "right"), strict=True):
            highest = _draw_bars(axes, report, questions, share)
            end = 1.0 if share == "valid" else _round_end(highest)
            scale = "" if end == 1 else f" (axis to {100 * end:.0f}%)"
            axes.set_title(f"{questions}: {share} calls, %{scale}", loc="left", fontsize=9)
            _set_percent(axes, end)
        row[0].set_yticks(range(len(names)), [TITLES[name].strip("*") for name in names])
        row[0].set_ylim(len(names) - 0.4, -0.6)
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper right", ncols=3, fontsize=8)
    return _saved(figure, path)


def _draw_bars(axes: Any, report: StudyReport, questions: str, share: str) -> float:
    """Draw the bars; returns the highest end of an interval."""
    height = 0.8 / len(report.temperatures)
    highest = 0.0
    for index, temperature in enumerate(report.temperatures):
        rows = [report.of(questions, name)[index] for name in report.strategies]
        values = [getattr(row, share) for row in rows]
        bounds = [interval(value, row.num_questions) for value, row in zip(values, rows, strict=True)]
        highest = max([highest, *(high for _, high in bounds)])
        axes.barh(
            [y - 0.4 + (index + 0.5) * height for y in range(len(rows))],
            values,
            height,
            xerr=[
                [max(0.0, value - low) for value, (low, _) in zip(values, bounds, strict=True)],
                [max(0.0, high - value) for value, (_, high) in zip(values, bounds, strict=True)],
            ],
            error_kw={"elinewidth": 0.8, "ecolor": "#e6550d"},
            color=SHADES[min(index, len(SHADES) - 1)],
            label=f"T = {temperature:g}",
        )
    return highest


def _draw_faults(report: StudyReport, path: Path) -> Path:
    """Draw first faults by strategy as shares of all answers: a panel for each group of sets."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    names = report.strategies
    rows = {group: [report.grouped(group, name) for name in names] for group in report.groups}
    kinds = _fault_labels(report)
    figure = Figure(figsize=(9, 1.1 + 0.22 * len(names)), layout="constrained")
    panels = figure.subplots(1, len(rows), squeeze=False, sharey=True)[0]
    for axes, (group, parts) in zip(panels, rows.items(), strict=True):
        ends = [0.0] * len(names)
        for label, faults in kinds.items():
            shares = [sum(row.faults.get(f, 0) for f in faults) / max(1, row.num_questions) for row in parts]
            colour = "#bbbbbb" if label == OTHER else COLOURS[list(kinds).index(label)]
            axes.barh(range(len(names)), shares, left=ends, label=label, color=colour, ec="white", lw=0.4)
            ends = [end + share for end, share in zip(ends, shares, strict=True)]
        axes.set_title(f"{group}: first faults, % of answers", loc="left", fontsize=9)
        _set_percent(axes, _round_end(max(ends)))
    panels[0].set_yticks(range(len(names)), [TITLES[name].strip("*") for name in names])
    panels[0].invert_yaxis()
    if kinds:
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=6, fontsize=7)
    return _saved(figure, path)


def _fault_labels(report: StudyReport) -> dict[str, list[str]]:
    """Labels and their kinds in the order of `OutputFault`; rare kinds share the last label."""
    counts = {str(fault): 0 for fault in OutputFault}
    for row in report.rows:
        for kind, count in row.faults.items():
            counts[kind] += count
    kinds = [kind for kind, count in counts.items() if count]
    frequent = sorted(kinds, key=lambda kind: -counts[kind])[:NUM_KINDS]
    rare = [kind for kind in kinds if kind not in frequent]
    return {kind: [kind] for kind in kinds if kind in frequent} | ({OTHER: rare} if rare else {})


def _round_end(highest: float) -> float:
    """The next tenth, at least 0.1 and at most 1."""
    return min(1.0, max(0.1, math.ceil(10 * highest - 1e-9) / 10))


def _set_percent(axes: Any, end: float, which: str = "x") -> None:
    step = 0.2 if end > 0.5 else 0.1 if end > 0.2 else 0.05
    ticks = [step * number for number in range(round(end / step) + 1) if step * number <= end + 1e-9]
    getattr(axes, f"set_{which}lim")(0, end)
    getattr(axes, f"set_{which}ticks")(ticks, [f"{100 * tick:.0f}" for tick in ticks])


def _saved(figure: Any, path: Path) -> Path:
    figure.savefig(path, metadata={"Date": None})
    return path


def check_folder(folder: Path) -> None:
    """Make the folder, before a study spends time.

    Raises:
        RequestRefused: the folder cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "study.json").open("a", encoding="utf-8").close()
    except OSError as error:
        raise RequestRefused(f"cannot write to {folder}: {error.strerror or error}", "out") from error


def write_report(report: StudyReport, folder: Path) -> Iterator[str]:
    """Write all files; yields a line for each, or the reason why there are no pictures."""
    (folder / "study.md").write_text(report.as_markdown(), "utf-8")
    yield f"{folder / 'study.md'}: all tables"
    (folder / "study.json").write_text(report.as_json(), "utf-8")
    yield f"{folder / 'study.json'}: all numbers"
    if (folder / ANSWERS).exists():
        yield f"{folder / ANSWERS}: every answer with its verdict, as it came"
    try:
        pictures = draw_pictures(report, folder)
    except ImportError:
        yield NEEDED
        return
    yield from (f"{path}: a picture" for path in pictures)
