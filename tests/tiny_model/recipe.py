"""Recipes: the shape of a model, and how it is trained."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from transformers import Qwen3Config, Qwen3ForCausalLM

from tiny_model.conversations import Mix
from tiny_model.tools import ToolStyle


class Schedule:
    """Learning rates: warm-up, then half a cosine. Gradients are clipped."""

    __slots__ = ()
    learning_rate: float
    final_share: float
    warmup_steps: int
    clip: float

    def rate(self, step: int, progress: float) -> float:
        """The learning rate of a step, at `progress` of the whole run: warm-up, then half a cosine."""
        cosine = 0.5 + 0.5 * math.cos(math.pi * min(1.0, progress))
        share = self.final_share + (1 - self.final_share) * cosine
        return self.learning_rate * share * min(1.0, (step + 1) / self.warmup_steps)


@dataclass(frozen=True, slots=True)
class Stage:
    """The mixes of all conversations up to number `until`; those of more than `max_length` tokens are left out.

    The conversations are of each mix by turns.
    """

    mixes: tuple[Mix, ...]
    max_length: int
    until: float = math.inf

    def mix(self, number: int) -> Mix:
        """The mix of a conversation."""
        return self.mixes[number % len(self.mixes)]


def _curriculum(scale: int) -> tuple[Stage, ...]:
    """Short conversations come first: a model learns copying cheaply from them, and uses it in long ones.

    Random names are what makes a model read: with those of the domains alone it goes by what it remembers.
    In the end, conversations like those of users take turns with two that ask much in few tokens: many
    tools alike, and many parameters, half of which a request leaves out. A larger `scale` is for a model
    that sees more: more of each stage, and more words in the end.
    """
    one = Mix(
        style=ToolStyle(num_parameters=(1, 2), random_names=0.6),
        num_tools=(1, 2),
        num_turns=(2, 4),
        parallel=0,
    )
    choose = Mix(
        style=ToolStyle(num_parameters=(1, 3), random_names=0.6, jargon=0.4),
        num_tools=(2, 6),
        num_turns=(3, 6),
        result=0.1,
    )
    full = Mix(
        style=ToolStyle(num_parameters=(0, 7), random_names=0.6, verbose=0.3, jargon=0.5, rich=0.2),
        num_tools=(1, 8),
        num_turns=(4, 9),
        result=0.2,
    )
    alike = Mix(
        style=ToolStyle(num_parameters=(0, 2), random_names=0.4, jargon=0.8),
        num_tools=(4, 8),
        num_turns=(6, 10),
        no_call=0.06,
        result=0.05,
    )
    many = Mix(
        style=ToolStyle(num_parameters=(3, 8), random_names=0.6, jargon=0.5, rich=0.1),
        num_tools=(1, 3),
        num_turns=(5, 9),
        no_call=0.06,
        result=0.05,
    )
    return (
        Stage((one,), 448, 6_000 * scale),
        Stage((choose,), 1024, 12_000 * scale),
        Stage((full, alike, many), 1536 + 512 * scale),
    )


@dataclass(frozen=True, slots=True)
class Recipe(Schedule):
    """The shape of a Qwen 3 and its training: Muon or AdamW, warm-up and cosine, loss on answers only.

    A batch holds up to `batch_tokens`, padding counted; a pool is what is sorted by length, so that there is
    little padding. `context_length` is what the model is declared to take. Heads are wide: to copy is to tell
    apart thousands of tokens by one head's keys. `renamed` is the share of conversations whose words get
    other names.
    """

    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    intermediate_size: int
    batch_tokens: int
    stages: tuple[Stage, ...]
    head_dim: int = 64
    vocabulary_size: int = 4096
    num_tokenizer_conversations: int = 6000
    context_length: int = 4096
    rope_theta: float = 100_000.0
    pool_size: int = 512
    learning_rate: float = 4e-3
    final_share: float = 0.02
    warmup_steps: int = 200
    weight_decay: float = 0.05
    clip: float = 1.0
    optimizer: str = "muon"
    renamed: float = 0.6

    def stage(self, number: int) -> Stage:
        """The stage of a conversation."""
        return next(stage for stage in self.stages if number < stage.until)


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "cpu": Recipe(
            hidden_size=256,
            num_layers=6,
            num_heads=4,
            num_kv_heads=4,
            intermediate_size=512,
            batch_tokens=4096,
            stages=_curriculum(1),
        ),
        "gpu": Recipe(
            hidden_size=320,
            num_layers=8,
            num_heads=5,
            num_kv_heads=5,
            intermediate_size=896,
            batch_tokens=131_072,
            stages=_curriculum(2),
            pool_size=4096,
        ),
    }
)
"""Recipes by the device that they are for; both models fit into 24 MB as bfloat16."""


def new_model(recipe: Recipe, tokenizer: Any) -> Any:
    """An untrained model, initialized from torch's own seed."""
    config = Qwen3Config(
        vocab_size=-(-len(tokenizer) // 64) * 64,
        hidden_size=recipe.hidden_size,
        intermediate_size=recipe.intermediate_size,
        num_hidden_layers=recipe.num_layers,
        num_attention_heads=recipe.num_heads,
        num_key_value_heads=recipe.num_kv_heads,
        head_dim=recipe.head_dim,
        max_position_embeddings=recipe.context_length,
        rope_parameters={"rope_type": "default", "rope_theta": recipe.rope_theta},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        attn_implementation="sdpa",
    )
    return Qwen3ForCausalLM(config)
