"""Which tokens a sequence has, and how often it wrote each: what penalties depend on.

They are counted as they come. To count 4,000 tokens anew for each token would take 4 ms each time.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from runtime.device import upload


class TokenCounts:
    """The counts of one sequence over `num_columns` token ids.

    `is_there` says which ids its prompt or output has; `written` how often its output has each.
    """

    def __init__(self, num_columns: int, device: torch.device) -> None:
        self.is_there = torch.zeros(num_columns, dtype=torch.bool, device=device)
        self.written = torch.zeros(num_columns, device=device)
        self._num_counted = 0

    def count(self, token_ids: Sequence[int], end: int, num_prompt: int) -> None:
        """Count the ids from the last call on, up to `end`; the first `num_prompt` are the prompt's."""
        start, self._num_counted = self._num_counted, end
        assert start <= end, "what was counted stays"
        if start == end:
            return
        self.is_there[upload(token_ids[start:end], self.is_there.device)] = True
        if output := token_ids[max(start, num_prompt) : end]:
            ids = upload(output, self.written.device)
            self.written.index_add_(0, ids, torch.ones_like(ids, dtype=self.written.dtype))

    def penalise_repetition(self, row: Tensor, penalty: float) -> None:
        """Move the logits of tokens that are there towards minus infinity (CTRL, arXiv 1909.05858)."""
        penalised = torch.where(row > 0, row / penalty, row * penalty)
        row.copy_(torch.where(self.is_there, penalised, row))

    def penalise_written(self, row: Tensor, presence: float, frequency: float) -> None:
        """Lower the logits of tokens that were written, once each and once for each time."""
        row -= presence * (self.written > 0) + frequency * self.written
