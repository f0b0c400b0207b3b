"""Batches: pools of conversations, generated ahead by other processes, sorted by length and cut."""

import multiprocessing
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from transformers import AutoTokenizer

from demo_model.conversations import converse
from demo_model.examples import Example, example_of
from demo_model.recipe import Recipe
from demo_model.renaming import Renaming

_MULTIPLE = 32
"""Lengths are padded to multiples, so that few shapes occur."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the stream of batches: this batch of this pool is next."""

    pool: int = 0
    batch: int = 0


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """`ids` [rows, length], padded on the right; `is_answer` [rows, length] marks what the loss is on."""

    ids: Tensor
    is_answer: Tensor

    def to(self, device: str) -> "TrainingBatch":
        """The same on a device."""
        return TrainingBatch(
            self.ids.to(device, non_blocking=True), self.is_answer.to(device, non_blocking=True)
        )


def collate(examples: Sequence[Example]) -> TrainingBatch:
    """Pad to the longest; id 0 stands where nothing is, which nothing before it sees."""
    length = _padded(max(map(len, examples)))
    ids = np.zeros((len(examples), length), np.int64)
    is_answer = np.zeros((len(examples), length), np.bool_)
    for row, example in enumerate(examples):
        ids[row, : len(example)] = example.ids
        is_answer[row, : len(example)] = example.is_answer
    return TrainingBatch(torch.from_numpy(ids), torch.from_numpy(is_answer))


def _padded(length: int) -> int:
    return -(-length // _MULTIPLE) * _MULTIPLE


def pool_of(tokenizer: Any, renaming: Renaming, recipe: Recipe, seed: int, pool: int) -> list[list[Example]]:
    """The batches of a pool, in the order in which they are trained on."""
    examples: list[Example] = []
    for number in range(pool * recipe.pool_size, (pool + 1) * recipe.pool_size):
        stage = recipe.stage(number)
        example = example_of(tokenizer, converse(seed, number, stage.mix(number)))
        rng = Random(f"{seed}/{number}/renaming")
        if rng.random() < recipe.renamed:
            example = renaming.apply(rng, example)
        if len(example) <= stage.max_length:
            examples.append(example)
    examples.sort(key=len)
    batches: list[list[Example]] = [[]]
    for example in examples:
        # The longest of a batch comes last, and all are padded to it.
        num_tokens = (len(batches[-1]) + 1) * _padded(len(example))
        if num_tokens > recipe.batch_tokens and batches[-1]:
            batches.append([])
        batches[-1].append(example)
    Random(f"{seed}/{pool}").shuffle(batches)
    return batches


class BatchStream:
    """The batches from a place on, each with the place behind it.

    `num_workers` 0 generates them in this process.
    """

    def __init__(self, tokenizer_folder: Path, recipe: Recipe, seed: int, num_workers: int) -> None:
        self._recipe = recipe
        self._seed = seed
        self._tokenizer_folder = tokenizer_folder
        self._workers = (
            ProcessPoolExecutor(
                num_workers,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_start,
                initargs=(tokenizer_folder, recipe, seed),
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

    def batches(self, start: Place) -> Iterator[tuple[TrainingBatch, Place]]:
        """Without end."""
        for pool, content in self._pools(start.pool):
            for index, examples in enumerate(content):
                if (pool, index) >= (start.pool, start.batch):
                    is_last = index + 1 == len(content)
                    yield collate(examples), Place(pool + 1) if is_last else Place(pool, index + 1)

    def _pools(self, first: int) -> Iterator[tuple[int, list[list[Example]]]]:
        if self._workers is None:
            tokenizer = AutoTokenizer.from_pretrained(self._tokenizer_folder)
            renaming = Renaming.of(tokenizer)
            for pool in count(first):
                yield pool, pool_of(tokenizer, renaming, self._recipe, self._seed, pool)
            return
        ahead: deque[tuple[int, Future[list[list[Example]]]]] = deque()
        for pool in count(first):
            ahead.append((pool, self._workers.submit(_generate, pool)))
            if len(ahead) > self._num_ahead:
                number, future = ahead.popleft()
                yield number, future.result()


_WORKER: dict[str, Any] = {}
"""What a worker process was started with."""


def _start(tokenizer_folder: Path, recipe: Recipe, seed: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # which ends the run in the process that trains
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    _WORKER.update(tokenizer=tokenizer, renaming=Renaming.of(tokenizer), recipe=recipe, seed=seed)


def _generate(pool: int) -> list[list[Example]]:
    return pool_of(**_WORKER, pool=pool)
