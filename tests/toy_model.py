"""A model over bytes whose distribution of outputs is known in closed form, and a grammar it does not fit.

The grammar allows four texts of two letters in quotes. The model likes to begin with `a`, and then to go on
as the grammar forbids. So a plain mask writes an `a` first far more often than the model would, had it to
write one of the four.
"""

import itertools
import math

import torch

from compiler import compile_schema
from compiler.prepared_vocabulary import prepare
from compiler.vocabulary import Vocabulary
from runtime.engine import Engine
from runtime.forward.attention import KVCache
from runtime.jump_forward import JumpForward
from runtime.settings import EngineSettings

VOCABULARY = Vocabulary.of_bytes()
(STOP,) = VOCABULARY.stop_ids
TEXTS = ("aa", "ab", "ba", "bb")
GRAMMAR = compile_schema({"enum": list(TEXTS)})

_NEXT = {
    "": {'"': 0.6, "x": 0.4},
    '"': {"a": 0.7, "b": 0.2, "c": 0.1},
    '"a': {"a": 0.011, "b": 0.009, "c": 0.98},
    '"b': {"a": 0.25, "b": 0.7, "c": 0.05},
    '"aa': {'"': 0.9, "x": 0.1},
    '"ab': {'"': 0.4, "x": 0.6},
    '"ba': {'"': 0.8, "x": 0.2},
    '"bb': {'"': 0.9, "x": 0.1},
}
_END = {STOP: 0.95, ord("x"): 0.05}


def next_probabilities(output, temperature=1.0, top_k=None):
    """The model's distribution after some output, by token id."""
    named = {ord(name): p for name, p in _NEXT.get(bytes(output).decode(), {}).items()} or _END
    best = sorted(named, key=named.get, reverse=True)[:top_k]
    powers = {token_id: named[token_id] ** (1 / temperature) for token_id in best}
    return {token_id: power / sum(powers.values()) for token_id, power in powers.items()}


def ids_of(text):
    """The tokens of an output: a text in quotes, and the end."""
    return [*f'"{text}"'.encode(), STOP]


def written(output):
    """What an output spells, with its quotes."""
    return bytes(token_id for token_id in output if token_id != STOP).decode()


def text_of(output):
    """What an output spells, without its quotes."""
    return written(output).strip('"')


def probability(text, **sampling):
    """The model's probability of one of the texts in quotes, and of ending after it."""
    ids = ids_of(text)
    return math.prod(next_probabilities(ids[:at], **sampling).get(i, 0.0) for at, i in enumerate(ids))


def allowed_masses(text, **sampling):
    """What a mask leaves of the model's distribution before each token of a text in quotes, and its end."""
    ids = ids_of(text)
    allowed = [{ids_of(other)[at] for other in TEXTS if ids_of(other)[:at] == ids[:at]} for at in range(5)]
    return [
        sum(next_probabilities(ids[:at], **sampling).get(i, 0.0) for i in ids_at)
        for at, ids_at in enumerate(allowed)
    ]


def conditional(**sampling):
    """The model's distribution of the texts, given that it writes one of them."""
    return _normalised({text: probability(text, **sampling) for text in TEXTS})


def masked(**sampling):
    """The distribution of the texts under a plain mask."""
    return _normalised(
        {text: probability(text, **sampling) / math.prod(allowed_masses(text, **sampling)) for text in TEXTS}
    )


def distance(one, other):
    """The total variation between two distributions of the texts."""
    return sum(abs(one.get(text, 0.0) - other.get(text, 0.0)) for text in TEXTS) / 2


def _normalised(weights):
    return {text: weight / sum(weights.values()) for text, weight in weights.items()}


class ToyModel:
    """A `Runner` that computes nothing. Other models override what it says of the next token."""

    is_async = False
    num_columns = VOCABULARY.width
    num_computed = 0
    """The number of tokens of all batches."""

    def next_probabilities(self, output):
        """The distribution after an output, by token id."""
        return next_probabilities(output)

    def next_logits(self, output):
        """The logits after an output, by token id, other than minus infinity."""
        return {token_id: math.log(p) for token_id, p in self.next_probabilities(output).items() if p}

    def run(self, batch):
        """The logits of a batch, row by row."""
        self.num_computed += batch.num_tokens
        rows = torch.full((len(batch.rows), self.num_columns), -math.inf)
        for logits, row in zip(rows, batch.rows, strict=True):
            output = row.sequence.token_ids[len(row.sequence.prompt_ids) : row.position + 1]
            for token_id, logit in self.next_logits(output).items():
                logits[token_id] = logit
        return rows


def toy_engine(model=None, *, jumps=True, **settings):
    """An engine of the toy model or another one. Its masks take no time: how much it computes depends on no machine."""
    chosen = EngineSettings(**{"num_pages": 1024, "page_size": 4, "max_batch": 16} | settings)
    prepared = prepare(VOCABULARY)
    jump_forward = JumpForward(prepared, lambda text: list(text.encode())) if jumps else None
    runner = model or ToyModel()
    runner.cache = KVCache(num_pages=chosen.num_pages, page_size=chosen.page_size)
    engine = Engine(runner, prepared, chosen, context_length=512, jump_forward=jump_forward)
    engine.scheduler.slow._processor_clock = lambda: 0.0
    return engine


assert all(math.isclose(sum(d.values()), 1.0) for d in (*_NEXT.values(), _END))
assert not any(a.startswith(b) for a, b in itertools.permutations(TEXTS, 2))
