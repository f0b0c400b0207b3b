"""Searches with toy models: what they look for, and models that lead them astray."""

import itertools
import math
import random
from collections import defaultdict
from dataclasses import dataclass

import toy_model
from selected import run, selected_sequence
from toy_model import STOP, ToyModel, ids_of, written

from compiler import compile_schema
from runtime.selection import Selection

LETTERS = "abc"
WORDS = ["".join(letters) for length in (1, 2, 3) for letters in itertools.product(LETTERS, repeat=length)]
GRAMMAR = compile_schema({"enum": WORDS})
ANY_TEXT = compile_schema({"type": "string"})

NEXT_IDS = defaultdict(set)
"""The token ids that may follow the beginning of a word in quotes."""
for each in WORDS:
    for at, token_id in enumerate(ids_of(each)):
        NEXT_IDS[tuple(ids_of(each)[:at])].add(token_id)

SCORES = {"particles": "log_probability", "accept": "log_score"}
"""What each strategy looks for, as methods of `RandomModel`."""
LEAST_GAINS = {"particles": 0.0, "accept": math.log(1.25)}


def search(size, seed=1, strategy="particles", **options):
    """The first sequence of a search for texts of the toy grammar, or another one."""
    return selected_sequence(Selection(strategy, size), seed, temperature=0.0, **options)


def searched(model, size, *, settings=(), **options):
    """The sequence that a search selects."""
    engine = toy_model.toy_engine(model, **dict(settings))
    (output,) = run(engine, [search(size, **options)]).values()
    return output.sequence


def word_of(sequence):
    """The text that a sequence has written, without its quotes."""
    return toy_model.text_of(sequence.output_ids)


@dataclass
class RandomModel(ToyModel):
    """A model whose distribution after every output is random, and the same each time.

    It likes some tokens that no grammar of letters allows.
    """

    seed: int

    def next_probabilities(self, output):
        rng = random.Random(f"{self.seed} {bytes(i % 256 for i in output)}")
        ids = [*f'{LETTERS}"x'.encode(), STOP]
        weights = [rng.random() ** 4 + 1e-3 for _ in ids]
        return {i: weight / sum(weights) for i, weight in zip(ids, weights, strict=True)}

    def log_probability(self, word):
        """The logarithm of the model's probability of a word in quotes."""
        ids = ids_of(word)
        return sum(math.log(self.next_probabilities(ids[:at])[i]) for at, i in enumerate(ids))

    def log_faithfulness(self, word):
        """How close a word in quotes is to what the model would write without a mask."""
        ids, total = ids_of(word), 0.0
        for at, token_id in enumerate(ids):
            probabilities = self.next_probabilities(ids[:at])
            allowed = [probabilities[i] for i in NEXT_IDS[tuple(ids[:at])]]
            total += math.log(sum(allowed)) + math.log(probabilities[token_id] / max(allowed))
        return total

    def log_score(self, word):
        """What `LikelyOrFaithful` looks for."""
        return max(self.log_probability(word), self.log_faithfulness(word) - math.log(5))


@dataclass
class LostModel(ToyModel):
    """A model that begins a text with `a` or `b`, and would then go on as no grammar of letters allows.

    After `a`, it does so at each of the next 40 letters, with the probability `lost`.
    """

    lost: float
    lost_b: float

    def next_probabilities(self, output):
        text = written(output)
        if len(text) < 2:
            return {ord("a"): 0.6, ord("b"): 0.4} if text else {ord('"'): 1.0}
        if text.endswith('"'):
            return {STOP: 1.0}
        if text[1] == "b":
            return {ord('"'): 1 - self.lost_b, ord("\n"): self.lost_b}
        return {ord("a" if len(text) < 41 else '"'): 1 - self.lost, ord("\n"): self.lost}


@dataclass
class ListedModel(ToyModel):
    """A model whose logits are listed, by what it has written. After anything else, it ends a text and the output."""

    after: dict[str, dict[str, float]]

    def next_logits(self, output):
        listed = self.after.get(written(output))
        if listed is None:
            return {ord('"'): 0.0, STOP: 0.0}
        return {ord(letter): logit for letter, logit in listed.items()}


@dataclass
class NumberModel(ToyModel):
    """A model that writes a `1`, and then has the same logits after any digits, by token id."""

    after: dict[int, float]

    def next_logits(self, output):
        return self.after if output else {ord("1"): 0.0}
