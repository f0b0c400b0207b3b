"""Curves of a run, drawn from its log."""

import json
from pathlib import Path


def draw_curves(log: Path, picture: Path) -> bool:
    """Loss and held-out shares over minutes, as a picture; False, and nothing, without matplotlib."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an optional dependency
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
    if right.lines:
        right.legend()
    figure.savefig(picture, dpi=120)
    return True
