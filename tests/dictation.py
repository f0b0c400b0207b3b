"""Dictation: an engine whose model writes given tokens, or does not care, and computes nothing."""

from collections.abc import Sequence as Tokens
from functools import cache
from typing import Any

import torch
from corpus import corpus
from sequences import finish, make_sequence
from transformers import AutoTokenizer

from compiler.prepared_vocabulary import prepare
from compiler.vocabulary import Vocabulary
from runtime.engine import Engine
from runtime.forward.attention import KVCache
from runtime.jump_forward import JumpForward
from runtime.scheduling.batch import Batch
from runtime.scheduling.sequence import Sequence
from runtime.settings import EngineSettings


class Indifferent:
    """A model to which all tokens are alike; a `Runner`."""

    is_async = False

    def __init__(self, width: int, *, num_pages: int = 1024, page_size: int = 16) -> None:
        self.cache = KVCache(num_pages, page_size)
        self.num_columns = width

    def run(self, batch: Batch) -> torch.Tensor:
        """Logits of zero."""
        return torch.zeros(len(batch.rows), self.num_columns)


class Dictated(Indifferent):
    """A model that writes given tokens; where an output has left them, all tokens are alike."""

    def __init__(self, width: int, token_ids: Tokens[int]) -> None:
        super().__init__(width)
        self._token_ids = list(token_ids)

    def run(self, batch: Batch) -> torch.Tensor:
        """The next token's logit is 1, all others are 0."""
        logits = super().run(batch)
        for row, sequence in zip(logits, batch.sampled, strict=True):
            at = sequence.num_output
            if sequence.output_ids == self._token_ids[:at] and at < len(self._token_ids):
                row[self._token_ids[at]] = 1
        return logits


@cache
def spelled_vocabulary(name: str) -> tuple[Vocabulary, JumpForward]:
    """`bytes`, or one of the corpus's tokenizers; and how its texts are spelled."""
    if name == "bytes":
        vocabulary = Vocabulary.of_bytes()
        return vocabulary, JumpForward(prepare(vocabulary), lambda text: list(text.encode()))
    tokenizer = AutoTokenizer.from_pretrained(corpus("tokenizers", name))
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    jump_forward = JumpForward.of(tokenizer, prepare(vocabulary))
    assert jump_forward is not None
    return vocabulary, jump_forward


def engine_of(runner: Any, vocabulary: Vocabulary, jump_forward: JumpForward | None) -> Engine:
    """An engine around a model that computes nothing."""
    settings = EngineSettings(num_pages=1024, max_batch=64)
    return Engine(runner, prepare(vocabulary), settings, context_length=2**14, jump_forward=jump_forward)


def ids_of(text: str, vocabulary: Vocabulary, jump_forward: JumpForward) -> list[int]:
    """A whole output as its tokenizer spells it, markers as one token each."""
    pieces = vocabulary.pieces(vocabulary.spell(text).encode())
    return [i for p in pieces for i in ([p] if isinstance(p, int) else jump_forward.encode(p.decode()))]


def dictate(constraint: Any, token_ids: Tokens[int], jump_forward: JumpForward | None) -> Sequence:
    """What comes of tokens dictated to an engine under a grammar, its stop token left out."""
    vocabulary = constraint.vocabulary
    engine = engine_of(
        Dictated(vocabulary.width, [*token_ids, vocabulary.stop_ids[0]]), vocabulary, jump_forward
    )
    closer, budget = constraint.closer(), len(token_ids) + 60
    sequence = make_sequence([0], budget, matcher=constraint.matcher(), closer=closer)
    finish(engine, sequence)
    if sequence.token_ids[-1] in vocabulary.stop_ids:
        sequence.token_ids.pop()
    return sequence
