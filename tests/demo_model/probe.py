"""The probe: during training, how often the model would write a held-out answer exactly, without a decoder.

Greedy decoding writes an answer exactly if, and only if, each of its tokens is the favourite behind those
before it. So one forward pass over prompt and answer tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from demo_model.batches import collate
from demo_model.conversations import HELD_OUT, converse
from demo_model.examples import Example, example_of

if TYPE_CHECKING:
    from demo_model.trainer import Trainer

SEED = 1 << 41
_ROWS = 16


@dataclass(frozen=True, eq=False, slots=True)
class Probe:
    """Held-out examples, shortest first, and how many of each answer's tokens end with the tool's name."""

    examples: tuple[tuple[Example, int], ...]

    @classmethod
    def of(cls, tokenizer: Any, count: int) -> Probe:
        """The first `count` held-out conversations."""
        return cls(tuple(sorted((_example(tokenizer, n) for n in range(count)), key=lambda e: len(e[0]))))

    @torch.no_grad()
    def measure(self, trainer: Trainer) -> dict[str, float]:
        """Shares of answers that are exact, and that name the right tool."""
        num_exact = num_named = 0
        for start in range(0, len(self.examples), _ROWS):
            rows = self.examples[start : start + _ROWS]
            batch = collate([example for example, _ in rows]).to(trainer.run.device)
            with trainer.autocast():
                states = trainer.model.model(input_ids=batch.ids, use_cache=False).last_hidden_state
                is_next = batch.is_answer[:, 1:]
                favourites = trainer.model.lm_head(states[:, :-1][is_next]).argmax(-1)
            is_right = (favourites == batch.ids[:, 1:][is_next]).cpu()
            lengths = is_next.sum(1).tolist()
            for row, (_, num_header) in zip(is_right.split(lengths), rows, strict=True):
                num_exact += bool(row.all())
                num_named += bool(row[:num_header].all())
        total = max(1, len(self.examples))
        return {"held_out_exact": num_exact / total, "held_out_tool": num_named / total}


def _example(tokenizer: Any, number: int) -> tuple[Example, int]:
    conversation = converse(SEED, number, HELD_OUT)
    (call,) = conversation.expected
    header = f'<tool_call>\n{{"name": "{call.name}", "arguments'
    return example_of(tokenizer, conversation), len(tokenizer.encode(header, add_special_tokens=False))
