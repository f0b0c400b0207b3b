"""Runs a study: every strategy answers every question at every temperature."""

import platform
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import torch

from runtime.errors import RequestRefused
from runtime.loading import LoadedModel
from runtime.study.answering import AskedQuestion, Asker, StudyAnswer
from runtime.study.harder_schemas import harden
from runtime.study.judging import REFUSED
from runtime.study.output_grammars import NoGrammar, OutputGrammar
from runtime.study.questions import Question, bfcl, everyday, held_out
from runtime.study.results import Findings, StudySettings
from runtime.study.strategies import Strategy, strategies_for
from runtime.study.studied_model import StudiedModel

EASY, HARD, EVERYDAY = "easy", "hard", "everyday"
BFCL = ("simple_python", "multiple")
SAMPLE_SEED = 0

OnProgress = Callable[[str, int, int], None]
"""Called with what is being asked, the number of answers so far, and the number of all answers."""


def run_study(loaded: LoadedModel, settings: StudySettings, on_progress: OnProgress) -> Findings:
    """Ask everything. An interrupt ends the study early, with what it has found until then.

    Raises:
        RequestRefused: there is no such strategy, BFCL's files are not in the folder, the model's calls
            cannot be parsed, or no prompt fits into its context.
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
    begun = time.monotonic()
    try:
        _ask_everything(subject, strategies, sets, findings, on_progress)
        findings.is_whole = True
    except KeyboardInterrupt:
        findings.trim(len(strategies) * len(settings.temperatures))
    findings.seconds = time.monotonic() - begun
    return findings


def question_sets(settings: StudySettings) -> dict[str, list[Question]]:
    """The questions of each set, by the set's name.

    Raises:
        RequestRefused: BFCL's files are not in the folder, or there are not enough questions.
    """
    easy = list(held_out(settings.count))
    sets = {
        EASY: easy,
        HARD: [harden(question) for question in easy],
        EVERYDAY: _sample(list(everyday()), settings.count),
    }
    if settings.bfcl is not None:
        sets |= {f"bfcl {name}": _bfcl(settings.bfcl / f"{name}.jsonl.gz", settings.count) for name in BFCL}
    return sets


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
    findings: Findings,
    on_progress: OnProgress,
) -> None:
    """Ask group by group: prompts stay in the prefix cache, and all strategies meet the same machine."""
    settings = findings.settings
    fitting = {
        name: [pair for pair in enumerate(questions) if _fits(subject, strategies, pair[1], settings)]
        for name, questions in sets.items()
    }
    findings.num_left_out = {name: len(sets[name]) - len(pairs) for name, pairs in fitting.items()}
    if not any(fitting.values()):
        raise RequestRefused("no question fits into this model's context", "context_length")
    num_answers = sum(map(len, fitting.values())) * len(strategies) * len(settings.temperatures)
    interview = _Interview(subject, findings, lambda what, done: on_progress(what, done, num_answers))
    for name, numbered in fitting.items():
        for group in _groups(numbered, 2 * settings.num_at_once):
            for strategy in strategies:
                interview.ask(strategy, name, group)


def _fits(
    subject: StudiedModel, strategies: Sequence[Strategy], question: Question, settings: StudySettings
) -> bool:
    """Whether the context has room for every strategy's prompt and an answer."""
    longest = max(len(prompt_of(subject, strategy, question)) for strategy in strategies)
    return longest + settings.max_tokens <= subject.loaded.context_length


def _groups(numbered: Sequence[tuple[int, Question]], size: int) -> Iterator[Sequence[tuple[int, Question]]]:
    for start in range(0, len(numbered), size):
        yield numbered[start : start + size]


_REFUSED = StudyAnswer("", REFUSED, 0.0)


class _Interview:
    """Adds one strategy's answers at a time; `say` gets what is asked, and the number of answers."""

    def __init__(self, subject: StudiedModel, findings: Findings, say: Callable[[str, int], None]) -> None:
        self._subject = subject
        self._findings = findings
        self._say = say
        self._asker = Asker(subject, num_at_once=findings.settings.num_at_once)
        self._num_answers = 0

    def ask(self, strategy: Strategy, name: str, group: Sequence[tuple[int, Question]]) -> None:
        """Ask a group at all temperatures; grammars and prompts are made before the clock starts."""
        settings = self._findings.settings
        self._say(f"{name}: {strategy.name}", self._num_answers)
        grammars = [self._grammar(strategy, name, question) for _, question in group]
        prompts = [prompt_of(self._subject, strategy, question) for _, question in group]
        self._asker.warm(prompts)
        for temperature in settings.temperatures:
            asked = (
                AskedQuestion(
                    self._subject,
                    strategy,
                    question,
                    grammar,
                    prompt,
                    number,
                    temperature,
                    settings.max_tokens,
                )
                for (number, question), grammar, prompt in zip(group, grammars, prompts, strict=True)
                if grammar is not None
            )
            answered = self._asker.answer(asked)
            answers = []
            for grammar in grammars:
                answers.append(_REFUSED if grammar is None else next(answered))
                self._num_answers += 1
                self._say(f"{name}: {strategy.name}, T={temperature:g}", self._num_answers)
            self._findings.add(name, strategy.name, temperature, answers)

    def _grammar(self, strategy: Strategy, name: str, question: Question) -> OutputGrammar | None:
        """The grammar of a question; records how long it took, or why there is none."""
        begun = time.monotonic()
        try:
            grammar = strategy.grammar(self._subject, strategy.show(question))
        except NoGrammar as refusal:
            self._findings.refusals.setdefault((name, strategy.name), []).append(str(refusal))
            return None
        if strategy.is_masked:
            seconds = self._findings.grammar_seconds.setdefault((name, strategy.name), [])
            seconds.append(time.monotonic() - begun)
        return grammar


def prompt_of(subject: StudiedModel, strategy: Strategy, question: Question) -> tuple[int, ...]:
    """The token ids of the prompt in which a strategy shows a question."""
    return tuple(subject.prompt(strategy.show(question), thinks=strategy.thinks))
