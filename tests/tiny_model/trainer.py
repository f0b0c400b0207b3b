"""The trainer: steps, checkpoints and a log; a run that was cut off can be resumed."""

import json
import re
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from tiny_model.batches import BatchStream, TrainingBatch, pools_of_tiny_model
from tiny_model.probe import Probe
from tiny_model.recipe import Recipe, new_model
from tiny_model.steps import Progress, Steps
from tiny_model.tokenizer import build_tokenizer

MODEL, CHECKPOINT, LOG = "model", "checkpoint.pt", "log.jsonl"
_SHARD_SIZE = "15MB"
_TEMPERATURE = 0.3
"""Of requests that set none: at 1, so small a model rambles."""


@dataclass(frozen=True, slots=True)
class Run:
    """How long a run takes, on which device, and how often it saves; `num_steps`, if given, replaces `minutes`."""

    minutes: float = 120.0
    num_steps: int | None = None
    seed: int = 0
    device: str = "cpu"
    num_workers: int = 1
    save_minutes: float = 4.0
    probe_minutes: float = 8.0
    log_steps: int = 20
    num_probes: int = 128
    compiles: bool = False


class RunRefused(Exception):
    """A run cannot begin or be resumed in this folder; the message says what to do."""


class Trainer:
    """A model, and the steps of its training."""

    def __init__(self, recipe: Recipe, run: Run, tokenizer: Any) -> None:
        torch.manual_seed(run.seed)
        self.recipe = recipe
        self.run = run
        self.model = new_model(recipe, tokenizer).to(run.device)
        self.optimizers = _optimizers(self.model, recipe)
        body = self.model.model
        body = torch.compile(body, dynamic=True) if run.compiles else body
        weights = list(self.model.parameters())
        self.steps = Steps(recipe, weights, self.optimizers, body, self.model.lm_head)

    @property
    def progress(self) -> Progress:
        """How far the run has come."""
        return self.steps.progress

    @property
    def share(self) -> float:
        """The share of the run that is done, between 0 and 1."""
        return self.progress.share(self.run.minutes, self.run.num_steps)

    def step(self, batch: TrainingBatch) -> float:
        """Do one update; returns the mean loss over the tokens of answers, in nats."""
        return self.steps.do(batch.to(self.run.device), self.share, self.autocast())

    def autocast(self) -> AbstractContextManager[None]:
        """Compute matrix products in bfloat16, if the device can."""
        if self.run.device == "cpu" and not torch.cpu._is_avx512_bf16_supported():
            return nullcontext()
        return torch.autocast(self.run.device.partition(":")[0], torch.bfloat16)

    def save(self, path: Path) -> None:
        """Write a checkpoint; it replaces the last one when it is complete."""
        state = {
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "progress": asdict(self.progress),
            "recipe": repr(self.recipe),
            "seed": self.run.seed,
        }
        partial = path.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(path)

    def load(self, path: Path) -> None:
        """Continue from a checkpoint.

        Raises:
            RunRefused: the checkpoint has another recipe or seed.
        """
        state = torch.load(path, map_location=self.run.device, weights_only=True)
        there, here = (state["recipe"], state["seed"]), (repr(self.recipe), self.run.seed)
        if there != here:
            begun, now = _options(*there), _options(*here)
            changed = [
                f"--{name.replace('_', '-')} {begun[name]}" for name in begun if begun[name] != now[name]
            ]
            raise RunRefused(
                f"{path} was begun with {' '.join(changed) or 'another recipe'}:"
                " resume with the same --recipe and options, or give another --out"
            )
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.steps.progress = Progress.restored(state["progress"])

    def export(self, folder: Path, tokenizer: Any) -> None:
        """Write model and tokenizer in transformers' format, as bfloat16."""
        copy = deepcopy(self.model).to("cpu", torch.bfloat16)
        copy.generation_config.update(do_sample=True, temperature=_TEMPERATURE)
        copy.save_pretrained(folder, max_shard_size=_SHARD_SIZE)
        tokenizer.save_pretrained(folder)


def train(
    folder: Path,
    recipe: Recipe,
    run: Run,
    *,
    resume: bool = False,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Trainer:
    """Train into `folder`: `model/`, `checkpoint.pt` and `log.jsonl`; all are complete if it is stopped.

    Raises:
        RunRefused: the folder has a run and `resume` is not set, or no run to resume, or another run.
    """
    checkpoint = folder / CHECKPOINT
    if checkpoint.exists() and not resume:
        raise RunRefused(f"{folder} has a run already: add --resume to continue it, or give another --out")
    if resume and not checkpoint.exists():
        raise RunRefused(f"there is no {checkpoint} to resume: correct --out, or begin without --resume")
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer(folder / MODEL, recipe)
    trainer = Trainer(recipe, run, tokenizer)
    if checkpoint.exists():
        trainer.load(checkpoint)
    probe = Probe.of(tokenizer, run.num_probes)
    make_pools = partial(pools_of_tiny_model, folder / MODEL, recipe, run.seed)
    with BatchStream(make_pools, run.num_workers) as stream:
        losses: list[float] = []
        saved = probed = trainer.progress.seconds
        start = time.monotonic() - trainer.progress.seconds
        for batch, place in stream.batches(trainer.progress.place):
            if trainer.share >= 1 or is_stopped():
                break
            losses.append(trainer.step(batch))
            trainer.progress.place = place
            trainer.progress.seconds = time.monotonic() - start
            if trainer.progress.step % run.log_steps == 0:
                _log(folder / LOG, _row(trainer, losses))
                losses.clear()
            if trainer.progress.seconds - probed >= 60 * run.probe_minutes:
                probed = trainer.progress.seconds
                _log(
                    folder / LOG,
                    _row(trainer, ()) | probe.measure(trainer.model, run.device, trainer.autocast()),
                )
            if trainer.progress.seconds - saved >= 60 * run.save_minutes:
                saved = trainer.progress.seconds
                trainer.save(checkpoint)
                trainer.export(folder / MODEL, tokenizer)
    trainer.save(checkpoint)
    trainer.export(folder / MODEL, tokenizer)
    _log(folder / LOG, _row(trainer, losses) | probe.measure(trainer.model, run.device, trainer.autocast()))
    return trainer


def _options(recipe: str, seed: int) -> dict[str, str]:
    """The values of a recipe, given as its `repr`, that the command line can change."""
    shown = re.findall(r"\b(hidden_size|num_layers|batch_tokens|learning_rate|optimizer)=([^,)]+)", recipe)
    return {name: value.strip("'") for name, value in shown} | {"seed": str(seed)}


def _tokenizer(folder: Path, recipe: Recipe) -> Any:
    """The tokenizer of the run, built when the run begins."""
    if not (folder / "tokenizer.json").exists():
        build_tokenizer(
            recipe.vocabulary_size,
            recipe.context_length,
            num_conversations=recipe.num_tokenizer_conversations,
        ).save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def _optimizers(model: Any, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """The optimizers: `muon` updates the layers' matrices, AdamW the rest; only matrices decay."""
    named = list(model.named_parameters())
    matrices = [p for name, p in named if p.dim() == 2 and "embed" not in name]
    rest = [p for name, p in named if p.dim() != 2 or "embed" in name]
    options: dict[str, Any] = {"lr": recipe.learning_rate, "betas": (0.9, 0.98), "fused": True}
    plain = {"params": rest, "weight_decay": 0.0}
    if recipe.optimizer == "muon":
        muon = torch.optim.Muon(
            matrices,
            lr=recipe.learning_rate,
            weight_decay=recipe.weight_decay,
            adjust_lr_fn="match_rms_adamw",
        )
        return [muon, torch.optim.AdamW([plain], **options)]
    decayed = {"params": matrices, "weight_decay": recipe.weight_decay}
    return [torch.optim.AdamW([decayed, plain], **options)]


def _row(trainer: Trainer, losses: Iterable[float]) -> dict[str, Any]:
    progress = trainer.progress
    row: dict[str, Any] = {
        "step": progress.step,
        "minutes": round(progress.seconds / 60, 3),
        "tokens": progress.num_tokens,
        "answer_tokens": progress.num_answer_tokens,
        "conversations": progress.place.pool * trainer.recipe.pool_size,
        "rate": trainer.recipe.rate(progress.step, trainer.share),
    }
    losses = list(losses)
    return row | ({"loss": round(sum(losses) / len(losses), 5)} if losses else {})


def _log(path: Path, row: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(row) + "\n")
