"""Asks the model through the engine: many questions at the same time, each in one or more attempts."""

import itertools
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace

from runtime.decoding.population import population_of
from runtime.decoding.sampling import draw_seed
from runtime.draft import Draft
from runtime.drafting import shown_draft
from runtime.engine import Engine
from runtime.errors import BudgetTooSmall, PromptTooLong, RuntimeFault
from runtime.events import FinishReason
from runtime.forward.model_runner import ModelRunner
from runtime.jump_forward import JumpForward
from runtime.request import Message, Sampling
from runtime.scheduling.sequence import Sequence
from runtime.scheduling.weights import Weight
from runtime.settings import EngineSettings
from runtime.study.best_of import BestOf
from runtime.study.judging import Judgement, judge
from runtime.study.output_grammars import AllowsEverything, OutputGrammar
from runtime.study.questions import Question
from runtime.study.strategies import STRATEGIES, Strategy
from runtime.study.studied_model import StudiedModel

ATTEMPT_SEEDS = 1 << 32
"""The distance between the seeds of one attempt and the next."""
_MOST_TOGETHER = max(max(strategy.selection.size, strategy.num_compared) for strategy in STRATEGIES)
"""The most sequences that one answer is selected from."""


@dataclass(frozen=True, slots=True)
class StudyAnswer:
    """The text and judgement of the last attempt, with counts and seconds of all attempts together.

    Attempts that could only repeat the first one are counted but not made. `num_tokens` were written, and
    `num_computed` computed by the model, those of prompts included; where an answer was selected from several
    draws, all of them count. The selected one has `num_forced` tokens that were not sampled. In `num_rescued`
    of its `num_steps` masked steps, the mask forbade the model's most probable token; `mass_removed` is the
    sum over the steps of the probability that the mask removed. `is_spelled_so`: the tokenizer makes the same
    tokens of the text. It took `grammar_seconds` to make the question's grammar, if the strategy has one.
    """

    text: str
    verdict: Judgement
    seconds: float
    num_attempts: int = 1
    num_prompt_tokens: int = 0
    num_tokens: int = 0
    num_computed: int = 0
    num_forced: int = 0
    num_steps: int = 0
    num_rescued: int = 0
    mass_removed: float = 0.0
    is_spelled_so: bool = False
    is_closed_by_budget: bool = False
    grammar_seconds: float | None = None


Ended = tuple[Sequence, RuntimeFault | None]
"""A sequence that has ended, or that was selected from a population; and its error."""
Exchange = Generator[Sequence, Ended, StudyAnswer]
"""Yields sequences to run, and is sent how each ended."""


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question, how it is asked, and the token ids of its prompt."""

    subject: StudiedModel
    strategy: Strategy
    question: Question
    grammar: OutputGrammar
    prompt: tuple[int, ...]
    number: int
    temperature: float
    max_tokens: int

    def exchange(self) -> Exchange:
        """Ask until an attempt is valid, or attempts or context run out.

        Strategies that complain show the model what was wrong with its last attempt.
        """
        begun = time.monotonic()
        max_attempts = 1 if self._repeats else self.strategy.max_attempts
        prompt, sequences = list(self.prompt), list[Sequence]()
        while True:
            draft = Draft() if self.strategy.draft and not sequences else None
            sequence, fault = yield self._first(prompt, len(sequences), draft)
            sequences.append(sequence)
            text = self.subject.text(sequence.output_ids)
            verdict = self._judge(sequence, text, is_failed=fault is not None)
            prompt = self._again(text, verdict)
            is_valid = verdict.is_valid if draft is None else draft.is_valid
            is_over = is_valid or len(sequences) == max_attempts
            if is_over or len(prompt) + self.max_tokens > self.subject.loaded.context_length:
                return self._answer(sequences, text, verdict, time.monotonic() - begun)

    @property
    def _repeats(self) -> bool:
        """Whether another attempt would be identical: greedy, with the same prompt and grammar."""
        return self.temperature == 0 and not (self.strategy.complains or self.strategy.draft)

    def _first(self, prompt: list[int], attempt: int, draft: Draft | None) -> Sequence:
        """The sequence that an attempt begins with; of a population, if its answer is selected."""
        selection, num_compared = self.strategy.selection, self.strategy.num_compared
        is_weighed = max(selection.size, num_compared) > 1
        seed = self.number + attempt * ATTEMPT_SEEDS

        def sequence(number: int, max_tokens: int) -> Sequence:
            return self._sequence(prompt, attempt, draw_seed(seed, number), max_tokens, is_weighed=is_weighed)

        first = sequence(0, self.max_tokens)
        first.population = (
            BestOf(first, num_compared, sequence)
            if num_compared > 1
            else population_of(first, selection, sequence)
        )
        if draft is not None:
            assert first.matcher is not None, "drafts are of a grammar"
            first.matcher = draft.follow(first.matcher, self.subject.vocabulary.tokens)
            first.closer = None
        return first

    def _sequence(
        self, prompt: list[int], attempt: int, seed: int, max_tokens: int, *, is_weighed: bool
    ) -> Sequence:
        is_thinking = self.subject.has_begun_to_think(prompt)
        return Sequence(
            f"{self.strategy.name}/{self.number}/{attempt}",
            prompt,
            max_tokens,
            Sampling(temperature=self.temperature),
            seed=seed,
            matcher=self.grammar.matcher(is_thinking=is_thinking),
            closer=self.grammar.closer(is_thinking=is_thinking),
            weight=Weight(len(prompt)) if is_weighed else None,
            next_jump=0 if self.strategy.jumps else max_tokens,
        )

    def _judge(self, sequence: Sequence, text: str, *, is_failed: bool) -> Judgement:
        strategy = self.strategy
        is_ended = sequence.finish_reason is FinishReason.STOP or sequence.closed_by is not None
        return judge(
            strategy.judged(self.question),
            text,
            self.subject.thinking_syntax or self.subject.syntax,
            is_whole=is_ended and not is_failed,
            is_utf8=self.subject.is_utf8(sequence.output_ids),
            ignored=strategy.ignored(self.question) if strategy.ignored else None,
        )

    def _again(self, text: str, verdict: Judgement) -> list[int]:
        """The prompt of the next attempt; with a complaint, it shows the last failure, as instructor does."""
        request = self.strategy.show(self.question)
        if self.strategy.draft == "shown":
            prompt = self.subject.prompt(replace(request, messages=(*request.messages, *shown_draft(text))))
            is_too_long = len(prompt) + self.max_tokens > self.subject.loaded.context_length
            return list(self.prompt) if is_too_long else prompt
        if verdict.is_valid or not self.strategy.complains:
            return list(self.prompt)
        complaint = f"{verdict.reason}\nCall the function again, and fix this."
        failed = (Message("assistant", text), Message("user", complaint))
        return self.subject.prompt(replace(request, messages=(*request.messages, *failed)))

    def _answer(
        self, sequences: list[Sequence], text: str, verdict: Judgement, seconds: float
    ) -> StudyAnswer:
        counters = [sequence.counters for sequence in sequences]
        times = 1 if verdict.is_valid or not self._repeats else self.strategy.max_attempts
        return StudyAnswer(
            text,
            verdict,
            times * seconds,
            num_attempts=times * len(sequences),
            num_prompt_tokens=times * sum(len(sequence.prompt_ids) for sequence in sequences),
            num_tokens=times * sum(map(_num_written, sequences)),
            num_computed=times * sum(map(_num_computed, sequences)),
            num_forced=times * sum(counts.num_forced for counts in counters),
            num_steps=times * sum(counts.num_masked_steps for counts in counters),
            num_rescued=times * sum(counts.num_rescued for counts in counters),
            mass_removed=times * sum(counts.mass_removed_sum for counts in counters),
            is_spelled_so=self.subject.spells_so(sequences[-1].output_ids),
            is_closed_by_budget=sequences[-1].closed_by is not None,
        )


def _num_written(sequence: Sequence) -> int:
    return sequence.selection.num_written_tokens if sequence.selection else sequence.num_output


def _num_computed(sequence: Sequence) -> int:
    of_all = sequence.selection.num_computed_tokens if sequence.selection else None
    return sequence.counters.num_computed if of_all is None else of_all


class Asker:
    """Asks through an engine of its own, at most `num_at_once` questions at a time."""

    def __init__(self, subject: StudiedModel, *, num_at_once: int) -> None:
        loaded = subject.loaded
        settings = EngineSettings(
            max_batch_tokens=max(2048, num_at_once),
            max_batch=num_at_once,
            max_waiting=num_at_once,
            max_sequences_per_client=num_at_once * _MOST_TOGETHER,
            device=str(loaded.model.device),
        )
        self._num_at_once = num_at_once
        self._stop_ids = loaded.vocabulary.stop_ids
        self._engine = Engine(
            ModelRunner(loaded.model, settings),
            loaded.prepared,
            settings,
            context_length=loaded.context_length,
            jump_forward=JumpForward.of(loaded.tokenizer, loaded.prepared),
        )

    def warm(self, prompts: Iterable[Iterable[int]]) -> None:
        """Compute prompts, so that they are in the prefix cache."""
        for number, prompt in enumerate(prompts):
            matcher = AllowsEverything(self._stop_ids)
            self._engine.add(Sequence(f"warm/{number}", list(prompt), 1, matcher=matcher))
            while self._engine.has_work:
                self._engine.step()

    def answer(self, questions: Iterable[AskedQuestion]) -> Iterator[StudyAnswer]:
        """The answers, in order; each question begins as soon as another one is done."""
        waiting = enumerate(question.exchange() for question in questions)
        running = _Running(self._engine)
        for number in itertools.count():
            while number not in running.answers:
                for index, exchange in itertools.islice(waiting, self._num_at_once - len(running.open)):
                    running.begin(index, exchange)
                if not running.open:
                    return
                running.step()
            yield running.answers.pop(number)


class _Running:
    """The exchanges whose sequences run, and the answers of those that are done, by number."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.open: dict[Sequence, tuple[int, Exchange]] = {}
        self.answers: dict[int, StudyAnswer] = {}

    def begin(self, number: int, exchange: Exchange) -> None:
        """Run the first sequence of an exchange."""
        self._run(next(exchange), number, exchange)

    def step(self) -> None:
        """Run one step of the engine; exchanges whose sequence has ended continue."""
        for output in self._engine.step():
            if output.is_last:
                number, exchange = self.open.pop(output.sequence.first)
                self._continue(number, exchange, (output.sequence, output.error))

    def _run(self, sequence: Sequence, number: int, exchange: Exchange) -> None:
        try:
            self._engine.add(sequence)
        except (BudgetTooSmall, PromptTooLong) as refusal:
            self._continue(number, exchange, (sequence, refusal))
        else:
            self.open[sequence] = (number, exchange)

    def _continue(self, number: int, exchange: Exchange, ended: Ended) -> None:
        try:
            sequence = exchange.send(ended)
        except StopIteration as end:
            self.answers[number] = end.value
        else:
            self._run(sequence, number, exchange)
