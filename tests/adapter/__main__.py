"""`PYTHONPATH=.:tests python -m adapter --out DIR --minutes N`: train, or resume training."""

import argparse
import signal
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from tiny_model.batches import BatchStream
from tiny_model.curves import draw_curves

from adapter.training import LOG, RECIPES, AdapterTrainer, pools_of, train
from runtime.loading import load_model
from runtime.models import find_source


def main() -> None:
    """On SIGINT and SIGTERM, write a checkpoint and the adapter, and end."""
    parser = argparse.ArgumentParser("python -m adapter", description=__doc__)
    parser.add_argument(
        "--model", default="smollm2-base", help="a directory, a GGUF file, a hub id, or a name"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="the folder of the run; resumed if it has one"
    )
    parser.add_argument("--begin-with", type=Path, help="the folder of an adapter to train further")
    parser.add_argument("--minutes", type=float, default=150, help="of training, over all parts of the run")
    parser.add_argument("--steps", type=int, help="end after so many updates instead")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--threads", type=int, help="of torch")
    parser.add_argument("--recipe", choices=sorted(RECIPES), help="by default that of the device")
    parser.add_argument("--learning-rate", type=float, help="by default that of the recipe")
    parser.add_argument("--workers", type=int, help="processes that generate conversations")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: stopped.append(received))
    source = find_source(options.model, Path(tempfile.gettempdir())).model
    loaded = load_model(source, device=options.device, dtype=options.dtype)
    is_cpu = options.device == "cpu"
    recipe = RECIPES[options.recipe or ("cpu" if is_cpu else "gpu")]
    if options.learning_rate:
        recipe = replace(recipe, learning_rate=options.learning_rate)
    num_workers = options.workers if options.workers is not None else (0 if is_cpu else 4)
    trainer = AdapterTrainer(loaded, recipe, seed=options.seed, device=options.device)
    if options.begin_with:
        trainer.begin_with(options.begin_with)
    with BatchStream(partial(pools_of, source, recipe, options.seed), num_workers) as stream:
        train(
            options.out,
            trainer,
            stream,
            minutes=options.minutes,
            max_steps=options.steps,
            is_stopped=lambda: bool(stopped),
        )
    draw_curves(options.out / LOG, options.out / "curves.png", smoothing=10)


if __name__ == "__main__":
    main()
