"""A grammar that takes long to follow holds up its own sequences, and after some time ends them."""

import pytest
import torch

from compiler import compile_schema
from compiler.cache_entry import CacheEntry
from compiler.errors import UnsupportedGrammar
from compiler.prepared_vocabulary import prepare
from compiler.recogniser import recogniser
from compiler.response_format import ResponseFormat
from compiler.vocabulary import Vocabulary
from runtime.engine import Engine
from runtime.errors import GrammarTooSlow
from runtime.request import Sampling
from runtime.sequence import Sequence
from runtime.settings import EngineSettings
from runtime.slow_grammars import MAX_SLOW_S, REST, SLOW_S, STEP_S, SlowGrammars

VOCABULARY = prepare(Vocabulary.of_bytes())
GRAMMAR = CacheEntry.of_format(ResponseFormat("pattern", "[a-z]{400}"), VOCABULARY).compiled_schema


class Runner:
    """Logits that depend on nothing; each step takes 10 ms."""

    is_async = False
    num_columns = 257

    def __init__(self, settings, clocks):
        self.cache = type(
            "Cache", (), {"num_pages": settings.num_pages, "page_size": 4, "clear": lambda *_: None}
        )
        self.clocks = clocks
        self.batches = []

    def run(self, batch):
        self.clocks.seconds += 0.01
        self.batches.append([chunk.sequence.share for chunk in batch.chunks])
        return torch.zeros(len(batch.rows), self.num_columns)


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

    def __init__(self):
        self.clocks = Clocks()
        settings = EngineSettings(page_size=4, num_pages=4096, max_sequences=8, max_batch_tokens=64)
        self.runner = Runner(settings, self.clocks)
        self.engine = Engine(self.runner, VOCABULARY, settings, context_length=4000)
        self.engine.scheduler.slow = SlowGrammars(self.clocks, self.clocks)
        self.errors = {}

    def add(self, share, seconds=0.0, num_tokens=300):
        number = len(list(self.engine.scheduler))
        sequence = Sequence(
            f"{share}/{number}",
            [number, 1, 1, 1],
            num_tokens,
            Sampling(temperature=0),
            share=share,
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


def test_ten_tokens_beside_slow_grammars_take_few_times_as_long_as_alone():
    machine = Machine()
    for _ in range(7):
        machine.add("attacker", 0.1)
    for _ in range(5):
        machine.step()
    start, victim = machine.clocks.seconds, machine.add("victim")
    while victim.num_output < 10:
        machine.step()
    assert machine.clocks.seconds - start < 0.1 + 0.8  # ten steps, and all masks of one step at most


def test_slow_sequences_take_turns_beside_quick_ones_of_others():
    machine = Machine()
    slow = [machine.add("attacker", 0.2) for _ in range(3)]
    quick = machine.add("victim")
    while quick.num_output < 250:
        machine.step()
    batches = machine.runner.batches[2:]
    assert max(batch.count("attacker") for batch in batches) == 1
    assert sum("attacker" in batch for batch in batches) < 250 * 0.01 / (REST * 0.2) + 2
    assert any(sequence.num_output > 1 for sequence in slow)


def test_nobody_waits_where_grammars_are_slow_and_their_client_is_alone():
    machine = Machine()
    sequences = [machine.add("alone", SLOW_S * 1.5) for _ in range(3)]
    for _ in range(50):
        machine.step()
    assert machine.clocks.seconds == pytest.approx(50 * 0.01 + 150 * SLOW_S * 1.5)
    assert all(sequence.num_output == 50 for sequence in sequences)


def test_the_slow_sequences_of_one_step_are_bounded_so_that_a_newcomer_waits_for_few():
    machine = Machine()
    for _ in range(8):
        machine.add("alone", STEP_S * 0.4)
    for _ in range(9):
        machine.step()
    assert [len(batch) for batch in machine.runner.batches[1:]] == [2] * 8


def test_a_sequence_that_takes_too_long_in_all_fails_and_no_other():
    machine = Machine()
    slow, quick = machine.add("attacker", 0.5), machine.add("victim")
    while slow not in machine.errors:
        machine.step()
    assert quick.num_output == 300
    assert isinstance(machine.errors.pop(slow), GrammarTooSlow)
    assert slow.num_output <= MAX_SLOW_S / 0.5 + 1
    assert not machine.errors


def test_the_search_for_a_completion_ends(monkeypatch):
    """Two requests of 300 bytes held the threads that begin a client's answers for longer than two minutes."""
    monkeypatch.setattr(recogniser, "MAX_ATTEMPTS", 500)
    inner = {"type": "array", "uniqueItems": True, "maxItems": 4}
    items = {**inner, "items": {"enum": [[], [[]], [[], []], [[[]]], {}]}}
    schema = {"type": "array", "uniqueItems": True, "minItems": 30, "items": items}
    closer = compile_schema(schema, tokenizer=VOCABULARY).closer()
    with pytest.raises(UnsupportedGrammar, match="500 attempts found no text"):
        closer.minimum()
