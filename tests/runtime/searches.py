"""Searches with toy models: what they look for, and models that lead them astray."""

import itertools
import math
import random
from collections import defaultdict

import toy_model
from selected import selected_sequence

from compiler import compile_schema
from runtime.selection import Selection

LETTERS = "abc"
WORDS = ["".join(letters) for length in (1, 2, 3) for letters in itertools.product(LETTERS, repeat=length)]
GRAMMAR = compile_schema({"enum": WORDS})


def ids_of(word):
    return [*f'"{word}"'.encode(), toy_model.STOP]


NEXT_IDS = defaultdict(set)
"""The token ids that may follow the beginning of a word in quotes."""
for each in WORDS:
    for at, token_id in enumerate(ids_of(each)):
        NEXT_IDS[tuple(ids_of(each)[:at])].add(token_id)

SCORES = {"particles": "log_probability", "accept": "log_score"}
"""What each strategy looks for, as methods of `RandomModel`."""
LEAST_GAINS = {"particles": 0.0, "accept": math.log(1.25)}


class RandomModel(toy_model.ToyModel):
    """A model whose distribution after every output is random, and the same each time.

    It likes some tokens that no grammar of letters allows.
    """

    def __init__(self, seed):
        super().__init__()
        self.seed = seed

    def next_probabilities(self, output):
        rng = random.Random(f"{self.seed} {bytes(i % 256 for i in output)}")
        ids = [*f'{LETTERS}"x'.encode(), toy_model.STOP]
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

    def next_logits(self, output):
        return {token_id: math.log(p) for token_id, p in self.next_probabilities(output).items()}


def search(size, seed=1, strategy="particles", **options):
    return selected_sequence(Selection(strategy, size), seed, temperature=0.0, **options)


def word_of(sequence):
    """The text that a sequence has written, without its quotes."""
    return bytes(i for i in sequence.output_ids if i != toy_model.STOP).decode().strip('"')


class LostModel(toy_model.ToyModel):
    """A model that begins a text with `a` or `b`, and would then go on as no grammar of letters allows.

    After `a`, it does so at each of the next 40 letters, with the probability `lost`.
    """

    def __init__(self, lost, lost_b):
        super().__init__()
        self.lost = lost
        self.lost_b = lost_b

    def next_logits(self, output):
        written = bytes(i for i in output if i != toy_model.STOP).decode()
        if len(written) < 2:
            return {ord('"'): 0.0} if not written else {ord("a"): math.log(0.6), ord("b"): math.log(0.4)}
        if written.endswith('"'):
            return {toy_model.STOP: 0.0}
        if written[1] == "b":
            return {ord('"'): math.log(1 - self.lost_b), ord("\n"): math.log(self.lost_b)}
        following = ord("a") if len(written) < 41 else ord('"')
        return {following: math.log(1 - self.lost), ord("\n"): math.log(self.lost)}
