"""The steps of a training run, of a whole model or of an adapter: learning rates, loss, updates and progress."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from tiny_model.batches import StreamPosition, TrainingBatch
from tiny_model.recipe import Schedule


@dataclass(slots=True)
class Progress:
    """How far a run has come; `seconds` is the training time of all its parts."""

    step: int = 0
    seconds: float = 0.0
    num_tokens: int = 0
    num_answer_tokens: int = 0
    place: StreamPosition = field(default_factory=StreamPosition)

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> Self:
        """The progress of a checkpoint, which has it as a dictionary."""
        return cls(**{**saved, "place": StreamPosition(**saved["place"])})

    def share(self, minutes: float, num_steps: int | None = None) -> float:
        """The share of the whole run that is done, between 0 and 1; `num_steps`, if given, replaces `minutes`."""
        if num_steps is not None:
            return min(1.0, self.step / num_steps)
        return min(1.0, self.seconds / (60 * minutes))


class Steps:
    """The weights that are trained, their optimizers, and the progress of a run.

    `body` gives the last hidden states of token ids, and `head` their logits.
    """

    def __init__(
        self,
        schedule: Schedule,
        weights: Sequence[Tensor],
        optimizers: Sequence[torch.optim.Optimizer],
        body: Callable[..., Any],
        head: Callable[[Tensor], Tensor],
    ) -> None:
        self.progress = Progress()
        self.optimizers = optimizers
        self._schedule = schedule
        self._weights = weights
        self._body = body
        self._head = head

    def do(self, batch: TrainingBatch, share: float, autocast: AbstractContextManager[None]) -> float:
        """Do one update, at `share` of the run; returns the mean loss over the tokens of answers, in nats.

        Raises:
            FloatingPointError: the loss is not a number.
        """
        rate = self._schedule.rate(self.progress.step, share)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
        with autocast:
            loss = self._loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self._weights, self._schedule.clip)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise FloatingPointError(f"the loss of step {self.progress.step} is not a number")
        self.progress.step += 1
        self.progress.num_tokens += batch.ids.numel()
        self.progress.num_answer_tokens += int(batch.is_answer.sum())
        return value

    def _loss(self, batch: TrainingBatch) -> Tensor:
        """Needs no attention mask: padding is on the right, where no token attends to it."""
        states = self._body(input_ids=batch.ids, use_cache=False).last_hidden_state
        is_next = batch.is_answer[:, 1:]
        logits = self._head(states[:, :-1][is_next])
        return cross_entropy(logits.float(), batch.ids[:, 1:][is_next])
