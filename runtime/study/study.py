"""The study: every strategy answers every question at every temperature."""

import platform
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import torch

from runtime.errors import RequestRefused
from runtime.loading import LoadedModel
from runtime.study.findings import Findings, StudySettings
from runtime.study.hardening import harden
from runtime.study.interview import Interview, prompt_of
from runtime.study.questions import Question, bfcl, held_out
from runtime.study.strategies import Strategy, strategies_for
from runtime.study.subject import StudiedModel

EASY, HARD = "easy", "hard"
BFCL = ("simple_python", "multiple")
BFCL_SEED = 0

Say = Callable[[str, int, int], None]
"""Told what is being asked, how many questions were answered, and of how many."""


def run_study(loaded: LoadedModel, settings: StudySettings, say: Say) -> Findings:
    """Ask everything. An interrupt ends it with what was found until then, `is_whole` False.

    Raises:
        RequestRefused: a strategy is unknown, BFCL's files are not in the folder, the model's calls cannot be
            read, or no prompt has room in its context.
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
        _ask_everything(subject, strategies, sets, findings, say)
        findings.is_whole = True
    except KeyboardInterrupt:
        findings.trim(len(strategies) * len(settings.temperatures))
    findings.seconds = time.monotonic() - begun
    return findings


def question_sets(settings: StudySettings) -> dict[str, list[Question]]:
    """The questions by the names of their sets.

    Raises:
        RequestRefused: BFCL's files are not in the folder.
    """
    easy = list(held_out(settings.count))
    sets = {EASY: easy, HARD: [harden(question) for question in easy]}
    if settings.bfcl is not None:
        sets |= {f"bfcl {name}": _bfcl(settings.bfcl / f"{name}.jsonl.gz", settings.count) for name in BFCL}
    return sets


def _bfcl(path: Path, count: int) -> list[Question]:
    """A sample of a file's questions, the same one each time; BFCL has its like together."""
    try:
        questions = list(bfcl(path))
    except OSError as error:
        reason = (
            f"cannot read {path}: {error.strerror or error}; wanted is the folder of BFCL's .jsonl.gz files"
        )
        raise RequestRefused(reason, "bfcl") from error
    except (ValueError, KeyError, TypeError) as error:
        raise RequestRefused(f"{path} does not hold BFCL's questions: {error!r}", "bfcl") from error
    chance = random.Random(BFCL_SEED)  # noqa: S311 - no secret
    drawn = chance.sample(range(len(questions)), min(count, len(questions)))
    return [questions[number] for number in sorted(drawn)]


def _ask_everything(
    subject: StudiedModel,
    strategies: Sequence[Strategy],
    sets: Mapping[str, Sequence[Question]],
    findings: Findings,
    say: Say,
) -> None:
    """By groups of questions: prompts stay in the KV cache, and all strategies meet the same machine."""
    settings = findings.settings
    fitting = {
        name: [pair for pair in enumerate(questions) if _fits(subject, strategies, pair[1], settings)]
        for name, questions in sets.items()
    }
    findings.num_left_out = {name: len(sets[name]) - len(pairs) for name, pairs in fitting.items()}
    if not any(fitting.values()):
        raise RequestRefused("no question has room in this model's context", "context_length")
    num_answers = sum(map(len, fitting.values())) * len(strategies) * len(settings.temperatures)
    interview = Interview(subject, findings, lambda what, done: say(what, done, num_answers))
    for name, numbered in fitting.items():
        for group in _groups(numbered, 2 * settings.num_at_once):
            for strategy in strategies:
                interview.ask(strategy, name, group)


def _fits(
    subject: StudiedModel, strategies: Sequence[Strategy], question: Question, settings: StudySettings
) -> bool:
    """Whether every strategy's prompt leaves room for an answer."""
    longest = max(len(prompt_of(subject, strategy, question)) for strategy in strategies)
    return longest + settings.max_tokens <= subject.loaded.context_length


def _groups(numbered: Sequence[tuple[int, Question]], size: int) -> Iterator[Sequence[tuple[int, Question]]]:
    for start in range(0, len(numbered), size):
        yield numbered[start : start + size]
