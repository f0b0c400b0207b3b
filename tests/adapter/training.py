"""Trains a LoRA adapter with peft: steps, checkpoints and a log; a run that was cut off can be resumed."""

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load_file, save_file
from tiny_model.batches import BatchStream, PoolOf, StreamPosition, TrainingBatch, in_batches
from tiny_model.conversations import Conversation
from tiny_model.conversations import converse as synthetic
from tiny_model.examples import Example, example_of
from tiny_model.recipe import RECIPES as TINY_RECIPES
from torch.nn.functional import cross_entropy

from adapter.conversations import converse as everyday
from adapter.conversations import spell
from runtime.loading import LoadedModel
from runtime.text.tokenizer import load_tokenizer

CHECKPOINT, LOG = "checkpoint.pt", "log.jsonl"
WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
_MODULES = "all-linear"
"""Every matrix of the layers; not the embeddings, which are the output's matrix too."""


@dataclass(frozen=True, slots=True)
class AdapterRecipe:
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

    def rate(self, step: int, progress: float) -> float:
        """The learning rate of a step, at `progress` of the whole run: warm-up, then half a cosine."""
        cosine = 0.5 + 0.5 * math.cos(math.pi * min(1.0, progress))
        share = self.final_share + (1 - self.final_share) * cosine
        return self.learning_rate * share * min(1.0, (step + 1) / self.warmup_steps)


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


@dataclass(slots=True)
class Progress:
    """How far a run has come; `seconds` is the training time of all its parts."""

    step: int = 0
    seconds: float = 0.0
    num_tokens: int = 0
    place: StreamPosition = field(default_factory=StreamPosition)


class AdapterTrainer:
    """A model whose weights stay, the adapter on top, the optimizer, and the progress of a run."""

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
        self.weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.AdamW(self.weights, betas=(0.9, 0.98), weight_decay=0.0)
        self.progress = Progress()

    def step(self, batch: TrainingBatch, share: float) -> float:
        """Do one update; returns the mean loss over the tokens of answers, in nats.

        Raises:
            FloatingPointError: the loss is not a number.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate(self.progress.step, share)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.is_bfloat16):
            loss = self._loss(batch.to(self.device))
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.weights, self.recipe.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise FloatingPointError(f"the loss of step {self.progress.step} is not a number")
        self.progress.step += 1
        self.progress.num_tokens += batch.ids.numel()
        return value

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
        place = StreamPosition(**state["progress"]["place"])
        self.progress = Progress(**state["progress"] | {"place": place})

    def _loss(self, batch: TrainingBatch) -> torch.Tensor:
        """The mean over the tokens of answers. Padding is on the right, where no token attends to it."""
        base = self.model.get_base_model()
        states = base.model(input_ids=batch.ids, use_cache=False).last_hidden_state
        is_next = batch.is_answer[:, 1:]
        logits = base.lm_head(states[:, :-1][is_next])
        return cross_entropy(logits.float(), batch.ids[:, 1:][is_next])


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
        share = progress.seconds / (60 * minutes) if max_steps is None else progress.step / max_steps
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
