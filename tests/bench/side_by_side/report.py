"""The results as JSON, as a table and as a plot."""

import json
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from side_by_side.answer import Run
from side_by_side.prefixes import FirstTokens
from side_by_side.steps import Step

OURS = "callgate"


@dataclass
class Results:
    """Runs and times to first tokens by engine, and what they were measured on."""

    settings: dict[str, Any]
    runs: dict[str, list[Run]] = field(default_factory=dict)
    first_tokens: dict[str, FirstTokens] = field(default_factory=dict)
    starts: dict[str, float] = field(default_factory=dict)
    steps: dict[int, Step] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Everything, down to the single answers."""
        return {
            "machine": {
                "platform": platform.platform(),
                "processor": platform.processor(),
                "torch": torch.__version__,
                "threads": torch.get_num_threads(),
            },
            "settings": self.settings,
            "first_masked_answer_seconds": self.starts,
            "runs": {name: [_run(run) for run in runs] for name, runs in self.runs.items()},
            "steps": {batch: asdict(step) for batch, step in self.steps.items()},
            "first_tokens": {name: asdict(times) for name, times in self.first_tokens.items()},
        }

    def as_markdown(self) -> str:
        """Tables; a ratio is this project's figure over the engine's, above 1 where we are faster."""
        rows = [
            "| engine | at once | answers/s | ours is | tokens/s | ours is | valid | p50 s | forced |",
            "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
        ]
        ours = {run.concurrency: run for run in self.runs.get(OURS, ())}
        for name, runs in self.runs.items():
            rows += [_row(name, run, ours.get(run.concurrency)) for run in runs]
        if self.steps:
            rows += [
                "",
                "| rows | unmasked, ms a step | masked | ratio (rounds) | a mask | kept for a row | of it filled |",
                "|--:|--:|--:|--:|--:|--:|--:|",
            ]
            rows += [_step(batch, step) for batch, step in self.steps.items()]
        if self.first_tokens:
            rows += ["", "| first token of a call | first request | the next | ratio |", "|---|--:|--:|--:|"]
            rows += [
                f"| {name} | {t.first:.2f} s | {t.next:.2f} s | {t.ratio:.2f} |"
                for name, t in self.first_tokens.items()
            ]
        if self.starts:
            rows += ["", "| first masked answer after the start | seconds |", "|---|--:|"]
            rows += [f"| {name} | {seconds:.1f} |" for name, seconds in self.starts.items()]
        return "\n".join(rows)

    def plot(self, path: Path) -> None:
        """Tokens per second over how many requests are open, a line per engine."""
        from matplotlib.figure import Figure  # of the `bench` extra

        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.subplots()
        for name, runs in self.runs.items():
            axes.plot(
                [run.concurrency for run in runs],
                [run.tokens_per_second for run in runs],
                marker="o",
                label=name,
            )
        axes.set_xscale("log", base=2)
        axes.set_xlabel("requests at once")
        axes.set_ylabel("tokens per second")
        axes.set_ylim(bottom=0)
        axes.legend()
        figure.savefig(path)

    def write(self, folder: Path) -> None:
        """`serving.json`, `serving.md` and `serving.png`."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "serving.json").write_text(json.dumps(self.as_json(), indent=1))
        (folder / "serving.md").write_text(self.as_markdown() + "\n")
        self.plot(folder / "serving.png")


def _row(name: str, run: Run, ours: Run | None) -> str:
    return (
        f"| {name} | {run.concurrency}"
        f" | {run.requests_per_second:.2f} | {_times(run, ours, 'requests_per_second')}"
        f" | {run.tokens_per_second:.1f} | {_times(run, ours, 'tokens_per_second')}"
        f" | {run.share_valid:.0%} | {run.median_seconds:.1f} | {run.share_forced:.0%} |"
    )


def _step(batch: int, step: Step) -> str:
    return (
        f"| {batch} | {step.unmasked_ms:.1f} | {step.masked_ms:.1f}"
        f" | {step.ratio:.3f} ({step.ratio_least:.3f} to {step.ratio_most:.3f}) | {step.fill_us:.0f} us"
        f" | {step.bytes_per_row / 2**20:.2f} MiB | {step.share_filled:.0%} |"
    )


def _times(run: Run, ours: Run | None, figure: str) -> str:
    if ours is None or ours is run or not getattr(run, figure):
        return ""
    return f"x {getattr(ours, figure) / getattr(run, figure):.2f}"


def _run(run: Run) -> dict[str, Any]:
    summary = {
        "calls_per_second": run.calls_per_second,
        "requests_per_second": run.requests_per_second,
        "tokens_per_second": run.tokens_per_second,
        "share_valid": run.share_valid,
        "share_forced": run.share_forced,
        "median_seconds": run.median_seconds,
    }
    return asdict(run) | summary
