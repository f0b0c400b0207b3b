"""Renaming: the words of a conversation are replaced by random ones, each by the same one everywhere."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tiny_model.conversations import Mix, converse
from tiny_model.examples import Example, example_of

_SEED = 1 << 39  # no conversation of training has this seed
_SAMPLES = (Mix(), Mix(num_tools=(1, 1), num_turns=(4, 4), no_call=1.0))
_NUM_SAMPLED = 400
_FREQUENT = 0.04


@dataclass(frozen=True, slots=True)
class Renaming:
    """Replaces words of a vocabulary of `size` within `groups` [num_forms, num_words].

    Half of a tokenizer's words hardly ever occur in values, and a model does not copy words that it has seen
    only in a few places. After random renaming, all of them occur equally often. Words that the generator
    repeats (types, keywords, openings, small talk) are not renamed: they keep their meaning.
    """

    size: int
    groups: tuple[NDArray[np.int64], ...]

    @classmethod
    def of(cls, tokenizer: Any) -> Self:
        """The renaming of all words of two letters or more that few conversations contain."""
        frequent = {tokenizer.decode([token]).lower() for token in _frequent(tokenizer)}
        words = {
            word: token
            for token in range(len(tokenizer))
            if len(word := tokenizer.decode([token])) > 1 and word.lower() not in frequent
            if word.isascii() and word.isalpha()
        }
        both = [word for word in words if word.islower() and word.capitalize() in words]
        paired = {*both, *(word.capitalize() for word in both)}
        rest = [word for word in words if word not in paired]
        groups = (
            [[words[word] for word in both], [words[word.capitalize()] for word in both]],
            [[words[word] for word in rest if word.islower()]],
            [[words[word] for word in rest if not word.islower()]],
        )
        return cls(len(tokenizer), tuple(np.array(group, np.int64) for group in groups))

    def apply(self, rng: Random, example: Example) -> Example:
        """The same conversation with other words."""
        order = np.random.default_rng(rng.getrandbits(64))
        names = np.arange(self.size, dtype=np.int32)
        for group in self.groups:
            names[group] = group[:, order.permutation(group.shape[1])]
        return Example(names[example.ids], example.is_answer)


def _frequent(tokenizer: Any, samples: Sequence[Mix] = _SAMPLES) -> set[int]:
    """The tokens that one in 25 conversations contains, or one in 25 of those without calls."""
    frequent: set[int] = set()
    for mix in samples:
        counts: Counter[int] = Counter()
        for number in range(_NUM_SAMPLED):
            counts.update({*example_of(tokenizer, converse(_SEED, number, mix)).ids.tolist()})
        frequent |= {token for token, count in counts.items() if count >= _FREQUENT * _NUM_SAMPLED}
    return frequent
