"""Batches: other processes generate pools of conversations ahead, sort each by length, and cut it into batches."""

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from transformers import AutoTokenizer

from tiny_model.conversations import converse
from tiny_model.examples import Example, example_of
from tiny_model.recipe import Recipe
from tiny_model.renaming import Renaming

PoolOf = Callable[[int], list[list[Example]]]
"""The batches of the pool of a number, in the order of training."""

_MULTIPLE = 32
"""Lengths are padded to a multiple of this, so that there are few shapes."""


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """A position in the stream of batches: the pool and the batch that come next."""

    pool: int = 0
    batch: int = 0


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """`ids` [rows, length], padded on the right; `is_answer` [rows, length] marks the tokens of the loss."""

    ids: Tensor
    is_answer: Tensor

    def to(self, device: str) -> "TrainingBatch":
        """The same batch on a device."""
        return TrainingBatch(
            self.ids.to(device, non_blocking=True), self.is_answer.to(device, non_blocking=True)
        )


def collate(examples: Sequence[Example]) -> TrainingBatch:
    """Pad examples to the longest with id 0, to which no token of theirs attends."""
    length = _padded(max(map(len, examples)))
    ids = np.zeros((len(examples), length), np.int64)
    is_answer = np.zeros((len(examples), length), np.bool_)
    for row, example in enumerate(examples):
        ids[row, : len(example)] = example.ids
        is_answer[row, : len(example)] = example.is_answer
    return TrainingBatch(torch.from_numpy(ids), torch.from_numpy(is_answer))


def _padded(length: int) -> int:
    return -(-length // _MULTIPLE) * _MULTIPLE


def pools_of_tiny_model(tokenizer_folder: Path, recipe: Recipe, seed: int) -> PoolOf:
    """The pools that the tiny model is trained on."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    return partial(pool_of, tokenizer, Renaming.of(tokenizer), recipe, seed)


def pool_of(tokenizer: Any, renaming: Renaming, recipe: Recipe, seed: int, pool: int) -> list[list[Example]]:
    """The batches of a pool, in the order of training."""
    examples: list[Example] = []
    for number in range(pool * recipe.pool_size, (pool + 1) * recipe.pool_size):
        stage = recipe.stage(number)
        example = example_of(tokenizer, converse(seed, number, stage.mix(number)))
        rng = Random(f"{seed}/{number}/renaming")
        if rng.random() < recipe.renamed:
            example = renaming.apply(rng, example)
        if len(example) <= stage.max_length:
            examples.append(example)
    return in_batches(examples, recipe.batch_tokens, Random(f"{seed}/{pool}"))


def in_batches(examples: Sequence[Example], max_tokens: int, rng: Random) -> list[list[Example]]:
    """Batches of examples of similar lengths, at most `max_tokens` each, padding counted; in random order."""
    batches: list[list[Example]] = [[]]
    for example in sorted(examples, key=len):
        # The last example of a batch is the longest, and all are padded to it.
        if batches[-1] and (len(batches[-1]) + 1) * _padded(len(example)) > max_tokens:
            batches.append([])
        batches[-1].append(example)
    rng.shuffle(batches)
    return batches


class BatchStream:
    """Generates batches in `num_workers` other processes; 0 generates them in this one.

    `make_pools` is called once in each process that generates; other processes get it pickled.
    """

    def __init__(self, make_pools: Callable[[], PoolOf], num_workers: int) -> None:
        self._make_pools = make_pools
        self._workers = (
            ProcessPoolExecutor(
                num_workers,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_start,
                initargs=(make_pools,),
            )
            if num_workers
            else None
        )
        self._num_ahead = 2 * num_workers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._workers is not None:
            self._workers.shutdown(cancel_futures=True)

    def batches(self, start: StreamPosition) -> Iterator[tuple[TrainingBatch, StreamPosition]]:
        """An endless stream of batches, each with the position after it."""
        for pool, content in self._pools(start.pool):
            for index, examples in enumerate(content):
                if (pool, index) >= (start.pool, start.batch):
                    is_last = index + 1 == len(content)
                    following = StreamPosition(pool + 1) if is_last else StreamPosition(pool, index + 1)
                    yield collate(examples), following

    def _pools(self, first: int) -> Iterator[tuple[int, list[list[Example]]]]:
        if self._workers is None:
            generate = self._make_pools()
            for pool in count(first):
                yield pool, generate(pool)
            return
        ahead: deque[tuple[int, Future[list[list[Example]]]]] = deque()
        for pool in count(first):
            ahead.append((pool, self._workers.submit(_generate, pool)))
            if len(ahead) > self._num_ahead:
                number, future = ahead.popleft()
                yield number, future.result()


_worker_pools: list[PoolOf] = []
"""In a worker process: what generates its pools."""


def _start(make_pools: Callable[[], PoolOf]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the training process handles it
    torch.set_num_threads(1)
    _worker_pools.append(make_pools())


def _generate(pool: int) -> list[list[Example]]:
    return _worker_pools[0](pool)
