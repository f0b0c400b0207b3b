"""An engine on a clock that tests move, and matchers that take as long as a test says."""

from dictation import Indifferent
from moved_clock import Clock
from vocabularies import BYTES

from compiler.cache_entry import CacheEntry
from compiler.prepared_vocabulary import prepare
from compiler.response_format import ResponseFormat
from runtime.engine import Engine
from runtime.errors import GrammarTooSlow
from runtime.request import Sampling
from runtime.scheduling.sequence import Sequence
from runtime.settings import EngineSettings

VOCABULARY = prepare(BYTES)
GRAMMAR = CacheEntry.of_format(ResponseFormat("pattern", "[a-z]{400}"), VOCABULARY).compiled_format


class TimedRunner(Indifferent):
    """Each step takes 10 ms."""

    def __init__(self, settings, clock):
        super().__init__(BYTES.width, num_pages=settings.num_pages, page_size=settings.page_size)
        self.clock = clock
        self.batches = []

    def run(self, batch):
        self.clock.pass_by(seconds=0.01)
        self.batches.append([chunk.sequence.client_id for chunk in batch.chunks])
        return super().run(batch)


class SlowMatcher:
    """A matcher whose masks take `seconds` each."""

    def __init__(self, seconds, clock):
        self.matcher, self.seconds, self.clock = GRAMMAR.matcher(), seconds, clock

    def __getattr__(self, name):
        return getattr(self.matcher, name)

    def fill_bitmask(self, bitmask, row):
        self.clock.pass_by(seconds=self.seconds)
        self.matcher.fill_bitmask(bitmask, row)


class Machine:
    """An engine on a clock of its own."""

    def __init__(self, max_batch=8):
        self.clock = Clock()
        settings = EngineSettings(page_size=4, num_pages=4096, max_batch=max_batch, max_batch_tokens=64)
        self.runner = TimedRunner(settings, self.clock)
        self.engine = Engine(self.runner, VOCABULARY, settings, context_length=4000)
        slow = self.engine.scheduler.slow
        slow._clock = slow._processor_clock = self.clock.elapsed_s
        self.errors = {}

    def add(self, client_id, seconds=0.0, num_tokens=300):
        number = len(list(self.engine.scheduler))
        sequence = Sequence(
            f"{client_id}/{number}",
            [number, 1, 1, 1],
            num_tokens,
            Sampling(temperature=0),
            client_id=client_id,
            matcher=SlowMatcher(seconds, self.clock),
        )
        self.engine.add(sequence)
        return sequence

    def step(self):
        before = self.clock.elapsed_s()
        for output in self.engine.step():
            if output.error is not None:
                self.errors[output.sequence] = output.error
        if self.clock.elapsed_s() == before:
            self.clock.pass_by(seconds=0.001)  # an idle step waits
        self.engine.check_integrity()

    def check_that_only_one_fails(self, slow, quick):
        """Step until a sequence fails because it is too slow, and another one has written 300 tokens."""
        while slow not in self.errors:
            self.step()
        assert isinstance(self.errors.pop(slow), GrammarTooSlow)
        while quick.num_output < 300:
            self.step()
        assert not self.errors
