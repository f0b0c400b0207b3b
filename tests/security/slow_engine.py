"""An engine on a clock that tests move, and matchers that take as long as a test says."""

from dictation import Indifferent
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

    def __init__(self, settings, clocks):
        super().__init__(BYTES.width, num_pages=settings.num_pages, page_size=settings.page_size)
        self.clocks = clocks
        self.batches = []

    def run(self, batch):
        self.clocks.seconds += 0.01
        self.batches.append([chunk.sequence.client_id for chunk in batch.chunks])
        return super().run(batch)


class Clocks:
    """One clock for all that the test lets take time."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


class SlowMatcher:
    """A matcher whose masks take `seconds` each."""

    def __init__(self, seconds, clocks):
        self.matcher, self.seconds, self.clocks = GRAMMAR.matcher(), seconds, clocks

    def __getattr__(self, name):
        return getattr(self.matcher, name)

    def fill_bitmask(self, bitmask, row):
        self.clocks.seconds += self.seconds
        self.matcher.fill_bitmask(bitmask, row)


class Machine:
    """An engine on a clock of its own."""

    def __init__(self, max_batch=8):
        self.clocks = Clocks()
        settings = EngineSettings(page_size=4, num_pages=4096, max_batch=max_batch, max_batch_tokens=64)
        self.runner = TimedRunner(settings, self.clocks)
        self.engine = Engine(self.runner, VOCABULARY, settings, context_length=4000)
        slow = self.engine.scheduler.slow
        slow._clock = slow._processor_clock = self.clocks
        self.errors = {}

    def add(self, client_id, seconds=0.0, num_tokens=300):
        number = len(list(self.engine.scheduler))
        sequence = Sequence(
            f"{client_id}/{number}",
            [number, 1, 1, 1],
            num_tokens,
            Sampling(temperature=0),
            client_id=client_id,
            matcher=SlowMatcher(seconds, self.clocks),
        )
        self.engine.add(sequence)
        return sequence

    def step(self):
        before = self.clocks.seconds
        for output in self.engine.step():
            if output.error is not None:
                self.errors[output.sequence] = output.error
        if self.clocks.seconds == before:
            self.clocks.seconds += 0.001  # an idle step waits
        self.engine.check_integrity()

    def check_that_only_one_fails(self, slow, quick):
        """Step until a sequence fails because it is too slow, and another one has written 300 tokens."""
        while slow not in self.errors:
            self.step()
        assert isinstance(self.errors.pop(slow), GrammarTooSlow)
        while quick.num_output < 300:
            self.step()
        assert not self.errors
