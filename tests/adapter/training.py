"""Trains a LoRA adapter with peft: steps, checkpoints and a log; a run that was cut off can be resumed."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load_file, save_file
from tiny_model.batches import BatchStream, PoolOf, TrainingBatch, in_batches
from tiny_model.conversations import Conversation
from tiny_model.conversations import converse as synthetic
from tiny_model.examples import Example, example_of
from tiny_model.recipe import RECIPES as TINY_RECIPES
from tiny_model.recipe import Schedule
from tiny_model.steps import Progress, Steps

from adapter.conversations import converse as everyday
from adapter.conversations import spell
from runtime.loading import LoadedModel
from runtime.text.tokenizer import load_tokenizer

CHECKPOINT, LOG = "checkpoint.pt", "log.jsonl"
WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
_MODULES = "all-linear"
"""Every matrix of the layers; not the embeddings, which are the output's matrix too."""


@dataclass(frozen=True, slots=True)
class AdapterRecipe(Schedule):
    """The shape of the adapter and its training: AdamW, warm-up and cosine, loss on answers only.

    `synthetic` is the share of the tiny model's own conversations, `spelling` that of conversations with
    little but words to copy; all others are everyday ones. Each update takes one batch of up to
    `batch_tokens`, padding counted; conversations of more than `max_length` tokens are left out.
    """

    rank: int = 12
    alpha: int = 24
    synthetic: float = 0.15
    spelling: float = 0.0
    learning_rate: float = 4e-4
    final_share: float = 0.05
    warmup_steps: int = 20
    batch_tokens: int = 2048
    max_length: int = 2048
    pool_size: int = 96
    clip: float = 1.0


RECIPES: Mapping[str, AdapterRecipe] = MappingProxyType(
    {
        "cpu": AdapterRecipe(),
        "gpu": AdapterRecipe(
            batch_tokens=16_384,
            pool_size=768,
            learning_rate=8e-4,
            warmup_steps=60,
            synthetic=0.3,
            spelling=0.1,
        ),
        "spelling": AdapterRecipe(learning_rate=2e-4, spelling=0.6, synthetic=0.1, max_length=1024),
        "further": AdapterRecipe(
            learning_rate=2e-4, batch_tokens=4096, warmup_steps=10, spelling=0.1, max_length=1024
        ),
    }
)
"""Recipes by device, and two that train an adapter further on a CPU: with words to copy, and with larger batches."""


class AdapterTrainer:
    """A model whose weights stay, the adapter on top, and the steps of its training."""

    def __init__(
        self, loaded: LoadedModel, recipe: AdapterRecipe, *, seed: int = 0, device: str = "cpu"
    ) -> None:
        torch.manual_seed(seed)
        config = LoraConfig(
            r=recipe.rank, lora_alpha=recipe.alpha, target_modules=_MODULES, task_type="CAUSAL_LM"
        )
        loaded.model.set_attn_implementation("sdpa")
        self.model = get_peft_model(loaded.model.to(device), config)  # the adapter is float32
        self.is_bfloat16 = loaded.model.dtype == torch.bfloat16
        self.recipe = recipe
        self.seed = seed
        self.device = device
        self.tokenizer = loaded.tokenizer
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.AdamW(weights, betas=(0.9, 0.98), weight_decay=0.0)
        base = self.model.get_base_model()
        self.steps = Steps(recipe, weights, [self.optimizer], base.model, base.lm_head)

    @property
    def progress(self) -> Progress:
        """How far the run has come."""
        return self.steps.progress

    def step(self, batch: TrainingBatch, share: float) -> float:
        """Do one update, at `share` of the run; returns the mean loss over the tokens of answers, in nats."""
        autocast = torch.autocast(self.device, torch.bfloat16, enabled=self.is_bfloat16)
        return self.steps.do(batch.to(self.device), share, autocast)

    def export(self, folder: Path) -> None:
        """Write the adapter in peft's format, as bfloat16; each file replaces the last one when it is whole."""
        state = get_peft_model_state_dict(self.model, save_embedding_layers=False)
        tensors = {name: tensor.to("cpu", torch.bfloat16).contiguous() for name, tensor in state.items()}
        save_file(tensors, folder / f"{WEIGHTS}.partial", metadata={"format": "pt"})
        (folder / f"{WEIGHTS}.partial").replace(folder / WEIGHTS)
        shown = {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "r": self.recipe.rank,
            "lora_alpha": self.recipe.alpha,
            "target_modules": sorted(self.model.peft_config["default"].target_modules),
        }
        (folder / CONFIG).write_text(json.dumps(shown, indent=2) + "\n", "utf-8")

    def save(self, path: Path) -> None:
        """Write a checkpoint; it replaces the last one when it is complete."""
        state = {
            "adapter": get_peft_model_state_dict(self.model, save_embedding_layers=False),
            "optimizer": self.optimizer.state_dict(),
            "progress": asdict(self.progress),
            "recipe": repr((self.recipe, self.seed)),
        }
        torch.save(state, path.with_suffix(".partial"))
        path.with_suffix(".partial").replace(path)

    def begin_with(self, folder: Path) -> None:
        """Start from an adapter that was exported, with a new optimizer, instead of from one that changes nothing."""
        set_peft_model_state_dict(self.model, load_file(folder / WEIGHTS))

    def load(self, path: Path) -> None:
        """Continue from a checkpoint.

        Raises:
            ValueError: the checkpoint has another recipe or seed.
        """
        state = torch.load(path, map_location=self.device, weights_only=True)
        if state["recipe"] != repr((self.recipe, self.seed)):
            raise ValueError(f"{path} was begun with another recipe or seed: give another --out")
        set_peft_model_state_dict(self.model, state["adapter"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.steps.progress = Progress.restored(state["progress"])


def conversation(recipe: AdapterRecipe, seed: int, number: int) -> Conversation:
    """The conversation of a number: an everyday one, one of words, or one of the tiny model's last stage."""
    drawn = Random(f"{seed}/{number}").random()
    if drawn < recipe.synthetic:
        stage = TINY_RECIPES["cpu"].stages[-1]
        return synthetic(seed, number, stage.mix(number))
    return spell(seed, number) if drawn < recipe.synthetic + recipe.spelling else everyday(seed, number)


def pools_of(source: str, recipe: AdapterRecipe, seed: int) -> PoolOf:
    """The pools that the adapter of a model is trained on."""
    return partial(_pool, load_tokenizer(source).tokenizer, recipe, seed)


def _pool(tokenizer: Any, recipe: AdapterRecipe, seed: int, pool: int) -> list[list[Example]]:
    numbers = range(pool * recipe.pool_size, (pool + 1) * recipe.pool_size)
    examples = [example_of(tokenizer, conversation(recipe, seed, number)) for number in numbers]
    kept = [example for example in examples if len(example) <= recipe.max_length]
    return in_batches(kept, recipe.batch_tokens, Random(f"{seed}/{pool}"))


def train(
    folder: Path,
    trainer: AdapterTrainer,
    stream: BatchStream,
    *,
    minutes: float,
    max_steps: int | None = None,
    save_minutes: float = 5.0,
    is_stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Train into `folder`, going on from its checkpoint if there is one; all files are whole if it is stopped."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / CHECKPOINT).exists():
        trainer.load(folder / CHECKPOINT)
    progress = trainer.progress
    batches = stream.batches(progress.place)
    batch, place = next(batches)  # the first one takes the time that the stream needs to begin
    start = time.monotonic() - progress.seconds
    saved = progress.seconds
    while not is_stopped():
        share = progress.share(minutes, max_steps)
        if share >= 1:
            break
        loss = trainer.step(batch, share)
        progress.seconds = time.monotonic() - start
        progress.place = place
        row = {
            "step": progress.step,
            "minutes": round(progress.seconds / 60, 2),
            "tokens": progress.num_tokens,
        }
        with (folder / LOG).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(row | {"loss": round(loss, 4)}) + "\n")
        if progress.seconds - saved >= 60 * save_minutes:
            saved = progress.seconds
            trainer.save(folder / CHECKPOINT)
            trainer.export(folder)
        batch, place = next(batches)
    trainer.save(folder / CHECKPOINT)
    trainer.export(folder)
