"""Curves of a run, drawn from its log."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any


def draw_curves(log: Path, picture: Path, *, smoothing: int = 1) -> bool:
    """Draw the loss over minutes, and held-out shares where the log has some; False if matplotlib is missing.

    The loss is the mean of `smoothing` updates. Thin lines mark where the run was resumed with a later end, so
    that its learning rate rose again.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    rows = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    held_out = {
        label: [(row["minutes"], row[name]) for row in rows if name in row]
        for name, label in (("held_out_tool", "right tool"), ("held_out_exact", "all tokens right"))
    }
    num_plots = 2 if any(held_out.values()) else 1
    figure = Figure(figsize=(4.5 * num_plots, 3.5), layout="constrained")
    left, *others = figure.subplots(1, num_plots, squeeze=False)[0]
    left.plot(*_means([(row["minutes"], row["loss"]) for row in rows if "loss" in row], smoothing))
    left.set(xlabel="minutes", ylabel="loss on answers, nats a token", yscale="log")
    for right in others:
        for label, shares in held_out.items():
            right.plot(*zip(*shares, strict=True), marker=".", label=label)
        right.set(xlabel="minutes", ylabel="share of held-out calls", ylim=(0, 1))
    for number, minutes in enumerate(restarts(rows)):
        for axes in (left, *others):
            label = "" if number else "learning rate rises again"
            axes.axvline(minutes, color="grey", linewidth=0.6, linestyle=":", label=label)
    for right in others:
        right.legend(fontsize=8)
    figure.savefig(picture, dpi=120)
    return True


def _means(points: Sequence[tuple[float, float]], size: int) -> tuple[list[float], list[float]]:
    """The means of groups of `size` points that follow each other; a last group that is smaller is left out."""
    groups = [points[start : start + size] for start in range(0, len(points) - size + 1, size)]
    return [sum(x for x, _ in group) / size for group in groups], [
        sum(y for _, y in group) / size for group in groups
    ]


def restarts(rows: Sequence[Mapping[str, Any]]) -> Iterator[float]:
    """The minutes of a log at which the learning rate rises after it has fallen."""
    before, is_falling = 0.0, False
    for row in rows:
        rate = row.get("rate", before)
        if rate > before and is_falling:
            yield row["minutes"]
        if rate != before:
            before, is_falling = rate, rate < before
