"""Writers choose the tokens that a guard has to look at; a `Generation` takes one in place of a `random.Random`."""

import random

import numpy as np

from compiler.vocabulary import Vocabulary


class Writer(random.Random):
    """Comes near bounds of lengths: chooses a token that goes on for long, one that is escaped, or any."""

    def __init__(self, seed: float, vocabulary: Vocabulary) -> None:
        super().__init__(seed)
        self._tokens = vocabulary.tokens

    def choice(self, seq: np.ndarray) -> int:
        """One of the ids."""
        sampled = [int(i) for i in self.choices(seq, k=12)]
        match self.randrange(3):
            case 0:
                return max(sampled, key=lambda i: (b'"' not in self._tokens[i], len(self._tokens[i])))
            case 1:
                escaping = [i for i in seq[:5_000].tolist() if b"\\" in self._tokens[i]]
                odd = [i for i in sampled if not self._tokens[i].isalnum() and b'"' not in self._tokens[i]]
                return super().choice(escaping or odd or sampled)
        return sampled[0]


class Repeating(random.Random):
    """Prefers tokens that it has written before."""

    def __init__(self, seed: float) -> None:
        super().__init__(seed)
        self._written: set[int] = set()

    def choice(self, seq: np.ndarray) -> int:
        """One of the ids, which come in order."""
        known = [i for i in sorted(self._written) if seq[np.searchsorted(seq, i) % len(seq)] == i]
        chosen = int(super().choice(known if known and self.random() < 0.8 else seq))
        self._written.add(chosen)
        return chosen
