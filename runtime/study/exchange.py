"""One question put to the model by one strategy: one answer, or some attempts at it."""

import time
from collections.abc import Generator
from dataclasses import dataclass, replace

from runtime.errors import RuntimeFault
from runtime.events import FinishReason
from runtime.request import Message, Sampling
from runtime.sequence import Sequence
from runtime.study.grammars import OutputGrammar
from runtime.study.judging import Judgement, judge
from runtime.study.questions import Question
from runtime.study.strategies import Strategy
from runtime.study.subject import StudiedModel

ATTEMPT_SEEDS = 1 << 32
"""Apart from one attempt to the next."""


@dataclass(frozen=True, slots=True)
class StudyAnswer:
    """The last attempt's text and verdict; counts and seconds are of all attempts together.

    Attempts that could only repeat the first one are counted, not made.
    `num_forced` tokens were written without being drawn. Of `num_steps` draws, in `num_rescued` the model's
    favourite was masked; `mass_removed` is the sum over the draws of what the mask took. `is_spelled_so`:
    the tokenizer spells the text in these tokens.
    """

    text: str
    verdict: Judgement
    seconds: float
    num_attempts: int = 1
    num_prompt_tokens: int = 0
    num_tokens: int = 0
    num_forced: int = 0
    num_steps: int = 0
    num_rescued: int = 0
    mass_removed: float = 0.0
    is_spelled_so: bool = False
    is_closed_by_budget: bool = False


Exchange = Generator[Sequence, RuntimeFault | None, StudyAnswer]
"""Yields sequences to run; is sent each one's fault, if any, when it has ended."""


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """What an exchange is about. `prompt`: the token ids of what is shown."""

    subject: StudiedModel
    strategy: Strategy
    question: Question
    grammar: OutputGrammar
    prompt: tuple[int, ...]
    number: int
    temperature: float
    max_tokens: int

    def exchange(self) -> Exchange:
        """Ask, and ask again, with what was wrong if that is shown, while there may be and there is room."""
        begun = time.monotonic()
        max_attempts = 1 if self._repeats else self.strategy.max_attempts
        prompt, sequences = list(self.prompt), list[Sequence]()
        while True:
            sequence = self._sequence(prompt, len(sequences))
            fault = yield sequence
            sequences.append(sequence)
            text = self.subject.text(sequence.output_ids)
            verdict = self._judge(sequence, text, is_failed=fault is not None)
            prompt = self._again(text, verdict)
            is_over = verdict.is_valid or len(sequences) == max_attempts
            if is_over or len(prompt) + self.max_tokens > self.subject.loaded.context_length:
                return self._answer(sequences, text, verdict, time.monotonic() - begun)

    @property
    def _repeats(self) -> bool:
        """Whether another attempt would be the same to the letter: greedy, to the same prompt."""
        return self.temperature == 0 and not self.strategy.complains

    def _sequence(self, prompt: list[int], attempt: int) -> Sequence:
        matcher, closer = self.grammar.start(is_thinking=self.subject.has_begun_to_think(prompt))
        return Sequence(
            f"{self.strategy.name}/{self.number}/{attempt}",
            prompt,
            self.max_tokens,
            Sampling(temperature=self.temperature),
            seed=self.number + attempt * ATTEMPT_SEEDS,
            matcher=matcher,
            closer=closer,
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
        """The prompt with the latest failure behind it, as instructor has it."""
        if verdict.is_valid or not self.strategy.complains:
            return list(self.prompt)
        shown = self.strategy.show(self.question)
        complaint = f"{verdict.reason}\nCall the function again, and fix this."
        failed = (Message("assistant", text), Message("user", complaint))
        return self.subject.prompt(replace(shown, messages=(*shown.messages, *failed)))

    def _answer(
        self, sequences: list[Sequence], text: str, verdict: Judgement, seconds: float
    ) -> StudyAnswer:
        stats = [sequence.stats for sequence in sequences]
        tallies = [sequence.counters for sequence in sequences]
        times = 1 if verdict.is_valid or not self._repeats else self.strategy.max_attempts
        return StudyAnswer(
            text,
            verdict,
            times * seconds,
            num_attempts=times * len(sequences),
            num_prompt_tokens=times * sum(stat.num_prompt_tokens for stat in stats),
            num_tokens=times * sum(stat.num_output_tokens for stat in stats),
            num_forced=times * sum(stat.num_forced_tokens for stat in stats),
            num_steps=times * sum(tally.num_masked_steps for tally in tallies),
            num_rescued=times * sum(tally.num_rescued for tally in tallies),
            mass_removed=times * sum(tally.mass_removed_sum for tally in tallies),
            is_spelled_so=self.subject.spells_so(sequences[-1].output_ids),
            is_closed_by_budget=sequences[-1].closed_by is not None,
        )
