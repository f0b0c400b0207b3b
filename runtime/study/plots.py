"""Pictures of a study."""

from pathlib import Path
from typing import Any

from runtime.study.faults import Fault
from runtime.study.report import TITLES, Report
from runtime.study.rows import interval

NEEDED = "no pictures, as matplotlib is missing: pip install 'callgate[bench]'"


def draw(report: Report, folder: Path) -> list[Path]:
    """Write the pictures into `folder`; returns their paths.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from matplotlib import rc_context  # noqa: PLC0415 - of the `bench` extra

    with rc_context({"svg.hashsalt": "callgate", "svg.fonttype": "none", "font.size": 9}):
        return [_draw_shares(report, folder / "study.svg"), _draw_faults(report, folder / "faults.svg")]


def _draw_shares(report: Report, path: Path) -> Path:
    """Valid and right calls by strategy, a panel for each set, a bar for each temperature."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    names = report.strategies
    figure = Figure(figsize=(9, 0.6 + 1.9 * len(report.sets)), layout="constrained")
    panels = figure.subplots(len(report.sets), 2, squeeze=False, sharey=True, sharex=True)
    for row, questions in zip(panels, report.sets, strict=True):
        for axes, share, label in zip(row, ("valid", "right"), ("valid", "right"), strict=True):
            _draw_bars(axes, report, questions, share)
            axes.set_title(f"{questions}: {label} calls", loc="left", fontsize=9)
        row[0].set_yticks(range(len(names)), [TITLES[name].strip("*") for name in names])
        row[0].set_ylim(len(names) - 0.4, -0.6)
    for axes in panels[-1]:
        axes.set(xlim=(0, 1), xlabel="share of questions")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper right", ncols=3, fontsize=8)
    return _saved(figure, path)


def _draw_bars(axes: Any, report: Report, questions: str, share: str) -> None:
    height = 0.8 / len(report.temperatures)
    for index, temperature in enumerate(report.temperatures):
        rows = [report.of(questions, name)[index] for name in report.strategies]
        values = [getattr(row, share) for row in rows]
        bounds = [interval(value, row.num_questions) for value, row in zip(values, rows, strict=True)]
        axes.barh(
            [place - 0.4 + (index + 0.5) * height for place in range(len(rows))],
            values,
            height,
            xerr=[
                [max(0.0, value - low) for value, (low, _) in zip(values, bounds, strict=True)],
                [max(0.0, high - value) for value, (_, high) in zip(values, bounds, strict=True)],
            ],
            error_kw={"elinewidth": 0.6, "ecolor": "grey"},
            color=str(0.75 - 0.25 * index) if index else "tab:blue",
            label=f"T = {temperature:g}",
        )


def _draw_faults(report: Report, path: Path) -> Path:
    """First faults by strategy, as shares of all its answers."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    rows = {name: report.everywhere(name) for name in report.strategies}
    kinds = [str(fault) for fault in Fault if any(str(fault) in row.faults for row in rows.values())]
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.subplots()
    ends = [0.0] * len(rows)
    for index, kind in enumerate(kinds):
        parts = [row.faults.get(kind, 0) / max(1, row.num_questions) for row in rows.values()]
        hatch = "//" if index >= 10 else ""
        axes.barh(range(len(rows)), parts, left=ends, label=kind, color=f"C{index % 10}", hatch=hatch)
        ends = [end + part for end, part in zip(ends, parts, strict=True)]
    axes.set_yticks(range(len(rows)), [TITLES[name].strip("*") for name in rows])
    axes.invert_yaxis()
    axes.set_xlabel("share of answers, by first fault; all sets and temperatures")
    if kinds:
        axes.legend(fontsize=7, ncols=2, loc="center left", bbox_to_anchor=(1, 0.5))
    return _saved(figure, path)


def _saved(figure: Any, path: Path) -> Path:
    figure.savefig(path, metadata={"Date": None})
    return path
