"""Curves of a run, drawn from its log."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any


def draw_curves(log: Path, picture: Path) -> bool:
    """Draw loss and held-out shares over minutes; returns False if matplotlib is missing.

    Thin lines mark where the run was resumed with a later end, so that its learning rate rose again.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    rows = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    losses = [(row["minutes"], row["loss"]) for row in rows if "loss" in row]
    if losses:
        left.plot(*zip(*losses, strict=True))
    left.set(xlabel="minutes", ylabel="loss on answers, nats a token", yscale="log")
    for name, label in (("held_out_tool", "right tool"), ("held_out_exact", "all tokens right")):
        shares = [(row["minutes"], row[name]) for row in rows if name in row]
        if shares:
            right.plot(*zip(*shares, strict=True), marker=".", label=label)
    right.set(xlabel="minutes", ylabel="share of held-out calls", ylim=(0, 1))
    for number, minutes in enumerate(restarts(rows)):
        for axes in (left, right):
            label = "" if number else "learning rate rises again"
            axes.axvline(minutes, color="grey", linewidth=0.6, linestyle=":", label=label)
    if right.get_legend_handles_labels()[0]:
        right.legend(fontsize=8)
    figure.savefig(picture, dpi=120)
    return True


def restarts(rows: Sequence[Mapping[str, Any]]) -> Iterator[float]:
    """The minutes of a log at which the learning rate rises after it has fallen."""
    before, is_falling = 0.0, False
    for row in rows:
        rate = row.get("rate", before)
        if rate > before and is_falling:
            yield row["minutes"]
        if rate != before:
            before, is_falling = rate, rate < before
