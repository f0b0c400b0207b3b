"""Many questions at once, through the engine that serves."""

import itertools
from collections.abc import Iterable, Iterator

from runtime.engine import Engine
from runtime.errors import BudgetTooSmall, RuntimeFault
from runtime.forward.model_runner import ModelRunner
from runtime.jump_forward import JumpForward
from runtime.sequence import Sequence
from runtime.settings import EngineSettings
from runtime.study.exchange import AskedQuestion, Exchange, StudyAnswer
from runtime.study.subject import StudiedModel
from runtime.study.unmasked import Unmasked


class Asker:
    """A model's engine, with at most `num_at_once` questions open."""

    def __init__(self, subject: StudiedModel, *, num_at_once: int) -> None:
        loaded = subject.loaded
        settings = EngineSettings(
            max_batch_tokens=2048, max_sequences=num_at_once, device=str(loaded.model.device)
        )
        self._num_at_once = num_at_once
        self._stop_ids = loaded.vocabulary.stop_ids
        self._engine = Engine(
            ModelRunner(loaded.model, settings),
            loaded.vocabulary,
            settings,
            context_length=loaded.context_length,
            jump_forward=JumpForward.of(loaded.tokenizer, loaded.vocabulary),
        )

    def warm(self, prompts: Iterable[Iterable[int]]) -> None:
        """Compute prompts, so that those who ask find them in the KV cache."""
        for number, prompt in enumerate(prompts):
            matcher = Unmasked(self._stop_ids)
            self._engine.add(Sequence(f"warm/{number}", list(prompt), 1, matcher=matcher))
            while self._engine.has_work:
                self._engine.step()

    def answer(self, asked: Iterable[AskedQuestion]) -> Iterator[StudyAnswer]:
        """The answers, in order; a question is begun as soon as another one is over."""
        waiting = enumerate(question.exchange() for question in asked)
        running = _Running(self._engine)
        for number in itertools.count():
            while number not in running.answers:
                for place, exchange in itertools.islice(waiting, self._num_at_once - len(running.open)):
                    running.begin(place, exchange)
                if not running.open:
                    return
                running.step()
            yield running.answers.pop(number)


class _Running:
    """Exchanges that wait for a sequence of theirs, and the answers there are."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.open: dict[Sequence, tuple[int, Exchange]] = {}
        self.answers: dict[int, StudyAnswer] = {}

    def begin(self, place: int, exchange: Exchange) -> None:
        """Run an exchange's first sequence."""
        self._run(next(exchange), place, exchange)

    def step(self) -> None:
        """One step of the engine; exchanges whose sequence has ended go on."""
        for output in self._engine.step():
            if output.is_last:
                self._go_on(*self.open.pop(output.sequence), output.error)

    def _run(self, sequence: Sequence, place: int, exchange: Exchange) -> None:
        try:
            self._engine.add(sequence)
        except BudgetTooSmall as refusal:
            self._go_on(place, exchange, refusal)
        else:
            self.open[sequence] = (place, exchange)

    def _go_on(self, place: int, exchange: Exchange, fault: RuntimeFault | None) -> None:
        try:
            sequence = exchange.send(fault)
        except StopIteration as end:
            self.answers[place] = end.value
        else:
            self._run(sequence, place, exchange)
