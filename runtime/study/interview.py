"""One strategy's answers to a group of questions, added to what has been found."""

import time
from collections.abc import Callable, Sequence

from runtime.study.asking import Asker
from runtime.study.exchange import AskedQuestion, StudyAnswer
from runtime.study.findings import Findings
from runtime.study.grammars import NoGrammar, OutputGrammar
from runtime.study.judging import REFUSED
from runtime.study.questions import Question
from runtime.study.strategies import Strategy
from runtime.study.subject import StudiedModel

_REFUSED = StudyAnswer("", REFUSED, 0.0)


class Interview:
    """Asks one model; `say` is told of every answer what it is about, and how many there are."""

    def __init__(self, subject: StudiedModel, findings: Findings, say: Callable[[str, int], None]) -> None:
        self._subject = subject
        self._findings = findings
        self._say = say
        self._asker = Asker(subject, num_at_once=findings.settings.num_at_once)
        self._num_answers = 0

    def ask(self, strategy: Strategy, name: str, group: Sequence[tuple[int, Question]]) -> None:
        """At all temperatures; grammars and prompts are there before the clock starts."""
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
        """The grammar of a question; how long it took is noted, or why there is none."""
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
    """The token ids of a question as a strategy shows it."""
    return tuple(subject.prompt(strategy.show(question), thinks=strategy.thinks))
