"""The probe: measures, during training, how many held-out answers the model would write exactly.

Greedy decoding writes an answer exactly if, and only if, each of its tokens is the most probable one after
those before it. So one forward pass over prompt and answer is enough, without decoding.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Self

import torch

from tiny_model.batches import collate
from tiny_model.conversations import HELD_OUT, converse
from tiny_model.examples import Example, example_of

SEED = 1 << 41
_ROWS = 16


@dataclass(frozen=True, eq=False, slots=True)
class Probe:
    """Held-out examples, shortest first, each with the number of its answer's tokens up to the tool's name."""

    examples: tuple[tuple[Example, int], ...]

    @classmethod
    def of(cls, tokenizer: Any, count: int) -> Self:
        """The first `count` held-out conversations."""
        return cls(tuple(sorted((_example(tokenizer, n) for n in range(count)), key=lambda e: len(e[0]))))

    @torch.no_grad()
    def measure(self, model: Any, device: str, autocast: AbstractContextManager[None]) -> dict[str, float]:
        """The shares of answers that are exact, and that name the right tool."""
        num_exact = num_named = 0
        for start in range(0, len(self.examples), _ROWS):
            rows = self.examples[start : start + _ROWS]
            batch = collate([example for example, _ in rows]).to(device)
            with autocast:
                states = model.model(input_ids=batch.ids, use_cache=False).last_hidden_state
                is_next = batch.is_answer[:, 1:]
                likeliest = model.lm_head(states[:, :-1][is_next]).argmax(-1)
            is_right = (likeliest == batch.ids[:, 1:][is_next]).cpu()
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
