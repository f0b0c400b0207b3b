"""Answers of a model to many questions at once, through the engine that serves: masked, or free."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.closer import closer_of
from compiler.errors import UnsupportedToolset
from compiler.matcher import Bitmask
from compiler.toolset import compile_toolset
from runtime.detokenizer import Spelling
from runtime.engine import Engine
from runtime.loading import LoadedModel
from runtime.model import ModelRunner
from runtime.models.train.questions import Question
from runtime.request import Sampling
from runtime.sequence import Sequence as Generation
from runtime.settings import EngineSettings
from runtime.template import render_prompt

MAX_TOKENS = 384
_NUM_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Strategy:
    """How answers are drawn; masked by a grammar that wants one call."""

    is_masked: bool
    temperature: float

    @property
    def name(self) -> str:
        """Names a row of results."""
        return f"{'masked' if self.is_masked else 'unmasked'}, T={self.temperature:g}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An output as it is read; `is_whole`: it was ended, by the model or by its closer."""

    text: str
    num_tokens: int
    is_whole: bool


class Unmasked:
    """A matcher that allows everything, markers too: the engine's path without a grammar."""

    def __init__(self, stop_ids: Iterable[int]) -> None:
        self._stop_ids = frozenset(stop_ids)
        self._written: list[int] = []

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite `bitmask[row]` with every token."""
        bitmask[row] = np.int32(-1)

    def accept(self, token_id: int) -> bool:
        """Take any token."""
        self._written.append(token_id)
        return True

    def rollback(self, num_tokens: int) -> None:
        """Undo the last tokens."""
        del self._written[len(self._written) - num_tokens :]

    def forced_text(self) -> bytes:
        """Nothing is forced."""
        return b""

    def is_completed(self) -> bool:
        """A stop token may come at any time."""
        return True

    def is_terminated(self) -> bool:
        """Whether it has come."""
        return bool(self._written) and self._written[-1] in self._stop_ids


class Answerer:
    """One loaded model and its engine."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        self._spelling = Spelling(loaded.vocabulary)
        settings = EngineSettings(
            max_batch_tokens=2048, max_sequences=_NUM_AT_ONCE, device=str(loaded.model.device)
        )
        runner = ModelRunner(loaded.model, settings)
        self._engine = Engine(runner, loaded.vocabulary, settings, context_length=loaded.context_length)

    def answer(self, questions: Iterable[Question], strategy: Strategy) -> Iterator[Answer | None]:
        """An answer to each, in order; None where a tool cannot be masked or there is no room."""
        numbered = enumerate(questions)
        while group := list(itertools.islice(numbered, _NUM_AT_ONCE)):
            yield from self._answer(group, strategy)

    def _answer(self, group: Sequence[tuple[int, Question]], strategy: Strategy) -> list[Answer | None]:
        generations = [self._generation(number, question, strategy) for number, question in group]
        for generation in filter(None, generations):
            self._engine.add(generation)
        while self._engine.has_work:
            self._engine.step()
        return [self._read(generation) if generation else None for generation in generations]

    def _generation(self, number: int, question: Question, strategy: Strategy) -> Generation | None:
        prompt = render_prompt(self._loaded.tokenizer, question.messages, question.tools)
        if len(prompt) + MAX_TOKENS > self._engine.context_length:
            return None
        generation = Generation(
            str(number),
            prompt,
            MAX_TOKENS,
            Sampling(temperature=strategy.temperature),
            seed=number,
            matcher=Unmasked(self._engine.stop_ids),
        )
        return self._masked(generation, question) if strategy.is_masked else generation

    def _masked(self, generation: Generation, question: Question) -> Generation | None:
        """With the grammar of the tools, and what closes an output that gets too long."""
        try:
            grammar = compile_toolset(
                question.tools,
                tokenizer=self._loaded.vocabulary,
                syntax=self._loaded.syntax,
                parallel=False,
            )
        except UnsupportedToolset:
            return None
        generation.matcher, generation.closer = grammar.matcher(), closer_of(grammar)
        return generation if generation.closer.fits(MAX_TOKENS) else None

    def _read(self, generation: Generation) -> Answer:
        ids = generation.output_ids
        text = b"".join(self._spelling[i] for i in ids).decode("utf-8", "replace")
        is_ended = bool(ids) and ids[-1] in self._engine.stop_ids
        return Answer(text, len(ids), is_ended or generation.closer is not None)
