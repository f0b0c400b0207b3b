"""`PYTHONPATH=.:tests python -m tiny_model --out DIR --minutes N --device cpu|cuda [--resume]`."""

import argparse
import signal
from dataclasses import replace
from pathlib import Path

import torch

from tiny_model.curves import draw_curves
from tiny_model.recipe import RECIPES
from tiny_model.trainer import LOG, Run, RunRefused, train


def main() -> None:
    """Train, or resume training; on SIGINT and SIGTERM, write a checkpoint and a model, and end."""
    parser = _parser()
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: stopped.append(received))
    device = options.device
    recipe = RECIPES[options.recipe or ("cpu" if device == "cpu" else "gpu")]
    changed = {
        name: value
        for name in ("hidden_size", "num_layers", "batch_tokens", "learning_rate", "optimizer")
        if (value := getattr(options, name)) is not None
    }
    run = Run(
        minutes=options.minutes,
        num_steps=options.steps,
        seed=options.seed,
        device=device,
        num_workers=options.workers if options.workers is not None else (1 if device == "cpu" else 12),
        save_minutes=options.save_minutes,
        probe_minutes=options.probe_minutes,
        compiles=options.compile,
    )
    try:
        train(
            options.out,
            replace(recipe, **changed),
            run,
            resume=options.resume,
            is_stopped=lambda: bool(stopped),
        )
    except RunRefused as error:
        parser.exit(2, f"train: {error}\n")
    draw_curves(options.out / LOG, options.out / "curves.png")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tiny_model", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the folder of the run")
    parser.add_argument("--minutes", type=float, default=120, help="of training, over all parts of the run")
    parser.add_argument(
        "--steps", type=int, help="instead of minutes; on a CPU, such a run repeats bit for bit"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--resume", action="store_true", help="go on from the folder's checkpoint")
    parser.add_argument("--recipe", choices=sorted(RECIPES), help="by default that of the device")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, help="processes that generate conversations")
    parser.add_argument("--threads", type=int, help="of torch")
    parser.add_argument("--compile", action="store_true", help="have torch fuse kernels")
    parser.add_argument("--save-minutes", type=float, default=4, help="between checkpoints")
    parser.add_argument("--probe-minutes", type=float, default=8, help="between held-out measurements")
    parser.add_argument("--hidden-size", type=int)
    parser.add_argument("--num-layers", type=int)
    parser.add_argument("--batch-tokens", type=int)
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--optimizer", choices=["adamw", "muon"])
    return parser


if __name__ == "__main__":
    main()
