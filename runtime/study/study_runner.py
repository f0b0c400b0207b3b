"""Runs a study: every strategy answers every question at every temperature."""

import json
import platform
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch

from runtime.errors import RequestRefused
from runtime.loading import LoadedModel
from runtime.study.answering import AskedQuestion, Asker, StudyAnswer
from runtime.study.harder_schemas import harden
from runtime.study.journal import Entry, Journal
from runtime.study.judging import REFUSED
from runtime.study.output_grammars import NoGrammar, OutputGrammar
from runtime.study.questions import Question, bfcl, everyday, held_out
from runtime.study.results import Findings, StudySettings
from runtime.study.strategies import Strategy, strategies_for
from runtime.study.studied_model import StudiedModel
from toolspecs.nearest import instead

EASY, HARD, EVERYDAY = "easy", "hard", "everyday"
BFCL = ("simple_python", "multiple")
SAMPLE_SEED = 0

OnProgress = Callable[[str, int, int], None]
"""Called with what is being asked, how many answers there are, and how many there will be."""


def run_study(
    loaded: LoadedModel, settings: StudySettings, on_progress: OnProgress, folder: Path | None = None
) -> Findings:
    """Ask everything. An interrupt ends the study early, with the answers until then.

    In the `folder`, if there is one, every answer is written down as it comes, and a study that was stopped
    there goes on.

    Raises:
        RequestRefused: there is no such strategy, BFCL's files are not in their folder, the model's calls
            cannot be parsed, no prompt fits into its context, or a study of something else was stopped in the
            folder.
    """
    subject = StudiedModel(loaded)
    strategies = strategies_for(subject, settings.strategies)
    sets = question_sets(settings)
    findings = Findings(
        settings,
        loaded.model_id,
        sum(parameter.numel() for parameter in loaded.model.parameters()),
        subject.thinking_syntax is not None,
        {
            "platform": platform.platform(),
            "torch": torch.__version__,
            "threads": str(torch.get_num_threads()),
        },
    )
    journal = Journal(folder, _conditions(findings)) if folder else None
    interview = _Interview(subject, findings, on_progress, journal)
    try:
        _ask_everything(subject, strategies, sets, interview)
        findings.is_whole = True
    except KeyboardInterrupt:
        findings.trim(len(strategies) * len(settings.temperatures))
    findings.seconds = interview.elapsed
    return findings


def _conditions(findings: Findings) -> dict[str, Any]:
    """What an answer depends on, as JSON has it."""
    settings = asdict(findings.settings) | {"bfcl": findings.settings.bfcl is not None}
    conditions = {"model": findings.model, "num_parameters": findings.num_parameters, **settings}
    return cast("dict[str, Any]", json.loads(json.dumps(conditions)))


def question_sets(settings: StudySettings) -> dict[str, list[Question]]:
    """The questions of each set that is asked, by the set's name, each as often in a row as it is asked.

    Raises:
        RequestRefused: there is no such set, BFCL's files are not in the folder, or there are not enough
            questions.
    """
    easy = list(held_out(settings.count))
    sets = {
        EASY: easy,
        HARD: [harden(question) for question in easy],
        EVERYDAY: _sample(list(everyday()), settings.count),
    }
    if settings.bfcl is not None:
        sets |= {f"bfcl {name}": _bfcl(settings.bfcl / f"{name}.jsonl.gz", settings.count) for name in BFCL}
    chosen = settings.sets or tuple(sets)
    if unknown := [name for name in chosen if name not in sets]:
        reason = f"there is no set of questions {unknown[0]!r}{instead(unknown[0], sets)}"
        raise RequestRefused(reason, "sets")
    return {name: [question for question in sets[name] for _ in range(settings.num_draws)] for name in chosen}


def _bfcl(path: Path, count: int) -> list[Question]:
    try:
        return _sample(list(bfcl(path)), count)
    except OSError as error:
        reason = f"cannot read {path}: {error.strerror or error}; give the folder of BFCL's .jsonl.gz files"
        raise RequestRefused(reason, "bfcl") from error
    except (ValueError, KeyError, TypeError) as error:
        raise RequestRefused(f"{path} does not have BFCL's questions: {error!r}", "bfcl") from error


def _sample(questions: Sequence[Question], count: int) -> list[Question]:
    """A random sample, the same one each time: similar questions stand side by side."""
    rng = random.Random(SAMPLE_SEED)  # noqa: S311 - no secret
    numbers = rng.sample(range(len(questions)), min(count, len(questions)))
    return [questions[number] for number in sorted(numbers)]


def _ask_everything(
    subject: StudiedModel,
    strategies: Sequence[Strategy],
    sets: Mapping[str, Sequence[Question]],
    interview: "_Interview",
) -> None:
    """Ask group by group: prompts stay in the prefix cache, and all strategies meet the same machine."""
    findings = interview.findings
    settings = findings.settings
    fitting = {
        name: [pair for pair in enumerate(questions) if _fits(subject, strategies, pair[1], settings)]
        for name, questions in sets.items()
    }
    findings.num_left_out = {
        name: (len(sets[name]) - len(pairs)) // settings.num_draws for name, pairs in fitting.items()
    }
    if not any(fitting.values()):
        raise RequestRefused("no question fits into this model's context", "context_length")
    interview.num_expected = sum(map(len, fitting.values())) * len(strategies) * len(settings.temperatures)
    size = 2 * settings.num_at_once
    for name, numbered in fitting.items():
        for start in range(0, len(numbered), size):
            for strategy in strategies:
                interview.ask(strategy, name, numbered[start : start + size], start)


def _fits(
    subject: StudiedModel, strategies: Sequence[Strategy], question: Question, settings: StudySettings
) -> bool:
    """Whether the context has room for every strategy's prompt and an answer."""
    longest = max(len(prompt_of(subject, strategy, question)) for strategy in strategies)
    return longest + settings.max_tokens <= subject.loaded.context_length


@dataclass(frozen=True, slots=True)
class _PreparedQuestion:
    """A question with its number in the set, its prompt, and its grammar, or why it has none.

    The grammar took `grammar_seconds` to make.
    """

    question: Question
    number: int
    prompt: tuple[int, ...]
    grammar: OutputGrammar | None
    grammar_seconds: float
    refusal: str = ""


class _Interview:
    """Asks one strategy at a time; keeps the answers in the findings, and in the journal if there is one."""

    def __init__(
        self, subject: StudiedModel, findings: Findings, on_progress: OnProgress, journal: Journal | None
    ) -> None:
        self.findings = findings
        self.num_expected = 0
        self._subject = subject
        self._on_progress = on_progress
        self._journal = journal
        self._asker = Asker(subject, num_at_once=findings.settings.num_at_once)
        entries = journal.entries if journal else ()
        findings.num_kept = len(entries)
        for entry in entries:
            findings.add(entry.questions, entry.strategy, entry.temperature, entry.answer)
        self._begun = time.monotonic() - (entries[-1].elapsed if entries else 0.0)

    @property
    def elapsed(self) -> float:
        """The seconds that the study has taken, with those before it was stopped."""
        return time.monotonic() - self._begun

    def ask(self, strategy: Strategy, name: str, group: Sequence[tuple[int, Question]], start: int) -> None:
        """Ask a group, the set's questions from `start` on, at all temperatures, unless it has answered.

        Grammars and prompts are made before the clock starts.
        """
        settings = self.findings.settings
        num_done = {
            temperature: self.findings.num_answered(name, strategy.name, temperature) - start
            for temperature in settings.temperatures
        }
        if min(num_done.values()) >= len(group):
            return
        self._say(f"{name}: {strategy.name}")
        prepared = [self._prepare(strategy, number, question) for number, question in group]
        self._asker.warm(each.prompt for each in prepared)
        for temperature in settings.temperatures:
            unanswered = prepared[max(0, num_done[temperature]) :]
            for answer in self._answers(strategy, unanswered, temperature):
                self._keep(name, strategy.name, temperature, answer)
                self._say(f"{name}: {strategy.name}, T={temperature:g}")

    def _prepare(self, strategy: Strategy, number: int, question: Question) -> _PreparedQuestion:
        prompt = prompt_of(self._subject, strategy, question)
        begun, grammar, reason = time.monotonic(), None, ""
        try:
            grammar = strategy.grammar(self._subject, strategy.show(question))
        except NoGrammar as refusal:
            reason = str(refusal)
        return _PreparedQuestion(question, number, prompt, grammar, time.monotonic() - begun, reason)

    def _answers(
        self, strategy: Strategy, prepared: Sequence[_PreparedQuestion], temperature: float
    ) -> Iterator[StudyAnswer]:
        """The answers to questions, in order; those without a grammar are refused."""
        max_tokens = self.findings.settings.max_tokens
        answers = self._asker.answer(
            AskedQuestion(
                self._subject,
                strategy,
                each.question,
                each.grammar,
                each.prompt,
                each.number,
                temperature,
                max_tokens,
            )
            for each in prepared
            if each.grammar is not None
        )
        for each in prepared:
            if each.grammar is None:
                yield StudyAnswer("", replace(REFUSED, reason=each.refusal), 0.0)
            else:
                seconds = each.grammar_seconds if strategy.is_masked else None
                yield replace(next(answers), grammar_seconds=seconds)

    def _say(self, message: str) -> None:
        self._on_progress(message, self.findings.num_answers, self.num_expected)

    def _keep(self, name: str, strategy: str, temperature: float, answer: StudyAnswer) -> None:
        number = self.findings.num_answered(name, strategy, temperature)
        self.findings.add(name, strategy, temperature, answer)
        if self._journal:
            self._journal.add(Entry(name, strategy, temperature, number, self.elapsed, answer))


def prompt_of(subject: StudiedModel, strategy: Strategy, question: Question) -> tuple[int, ...]:
    """The token ids of the prompt in which a strategy shows a question."""
    return tuple(subject.prompt(strategy.show(question), thinks=strategy.thinks))
