"""Random schedules: whatever runs, stops and fails together, each sequence writes what it writes alone.

The model computes nothing. It notes each token in its page, and reads there what a token attends to: pages that
are shared, copied or used again too early are found out at once.
"""

import math
import random
import time
from dataclasses import dataclass

import pytest
import torch
import toy_model
from toy_model import STOP, ToyModel, toy_engine

from compiler import compile_schema
from runtime.decoding.population import population_of
from runtime.decoding.sampling import draw_seed
from runtime.errors import DeadlineExceeded, GenerationFailed, Unforeseen
from runtime.request import Sampling
from runtime.scheduling.sequence import Sequence
from runtime.scheduling.weights import Weight
from runtime.selection import Selection

CONTEXT = 88
LETTERS = list(b'abcxyz"{}[]:, 0123truefalsnd')
SCHEMAS = (
    {"enum": list(toy_model.TEXTS)},
    {"properties": {"a": {"enum": ["x", "yy"]}, "bcd": {"type": "boolean"}}, "required": ["a"]},
    {"type": "array", "items": {"type": "integer"}, "minItems": 1},
    {"type": "string", "maxLength": 6},
    {"enum": ["abc", "abd", "xyz" * 20]},
    {"type": "array", "items": {"enum": ["aa", "ab"]}, "maxItems": 4, "uniqueItems": True},
)
GRAMMARS = [compile_schema(schema) for schema in SCHEMAS]
CLOSERS = [grammar.closer() for grammar in GRAMMARS]


class Ledger(ToyModel):
    """A model whose pages hold positions and token ids; its logits depend on the last six of these."""

    def __init__(self, seed):
        self.seed = seed
        self.fault = None
        self.misread = []
        """Pages with another content than a sequence has tokens; the engine would take an error as the batch's."""

    def run(self, batch):
        for chunk in batch.chunks:
            for at in range(chunk.start, chunk.end):
                self._page(chunk.sequence, at)[at % self.page_size] = (at, chunk.sequence.token_ids[at])
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        logits = torch.full((len(batch.rows), self.num_columns), -20.0)
        for own, row in zip(logits, batch.rows, strict=True):
            rng = random.Random(f"{self.seed} {self._read(row)[-6:]}")
            own[[*LETTERS, STOP]] = torch.tensor([rng.gauss(0, 2.5) for _ in LETTERS] + [rng.gauss(-2, 2.5)])
        return logits

    def _page(self, sequence, at):
        return self.cache.notes[sequence.page_table[at // self.page_size]]

    def _read(self, row):
        positions = range(row.position + 1)
        read = [self._page(row.sequence, at)[at % self.page_size] for at in positions]
        if read != list(zip(positions, row.sequence.token_ids, strict=False)):
            self.misread.append((row, read))
        return row.sequence.token_ids[: row.position + 1]


@dataclass
class Notes:
    """The pages of a ledger; takes the place of a KV cache."""

    num_pages: int
    page_size: int

    def __post_init__(self):
        self.notes = [[None] * self.page_size for _ in range(self.num_pages)]

    def clear(self, pages):
        for page in pages:
            self.notes[page] = [None] * self.page_size

    def copy(self, source, target):
        self.notes[target] = list(self.notes[source])


def ledger_engine(seed, **settings):
    engine = toy_engine(Ledger(seed), **settings)
    pool = engine.pool
    engine.runner.page_size = pool.page_size
    engine.runner.cache = engine.populations._cache = Notes(pool.num_pages, pool.page_size)
    engine.context_length = CONTEXT
    return engine


def tight_engine(rng, seed):
    page_size, max_batch = rng.choice((1, 2, 3, 4, 8)), rng.choice((2, 8, 24))
    return ledger_engine(
        seed,
        page_size=page_size,
        num_pages=2 + rng.choice((90, 150, 300)) // page_size,
        max_batch=max_batch,
        max_batch_tokens=max_batch + rng.choice((0, 1, 7, 60)),
    )


def drawn_case(rng, number):
    """What makes a random sequence, each time the same one, given its deadline."""
    grammar = rng.choice((None, *range(len(GRAMMARS))))
    selection = Selection(rng.choice(("accept", "particles", "particles")), rng.choice((1, 3, 8)))
    sampling = Sampling(
        temperature=rng.choice((0.0, 0.7, 1.0, 1.0, 2.0)),
        top_k=rng.choice((None, None, 1, 5)),
        top_p=rng.choice((1.0, 1.0, 0.0, 0.9)),
        repetition_penalty=rng.choice((1.0, 1.0, 0.8, 1.5)),
        frequency_penalty=rng.choice((0.0, 0.0, 0.5)),
    )
    prompt = [97] * rng.choice((0, 12)) + rng.choices(LETTERS, k=rng.choice((1, 3, 10)))
    budget = rng.choice((1, 2, 5, 60, 60, 60)) + (0 if grammar is None else CLOSERS[grammar].minimum() - 1)
    options = {
        "num_logprobs": rng.choice((None, None, 2)),
        "min_tokens": rng.choice((0, 3)) if grammar is None else 0,
        "client_id": rng.choice("aab"),
    }
    seed = rng.randrange(1 << 30)

    def sequence(deadline=math.inf):
        def member(member_number, max_tokens):
            made = Sequence(f"{number}", prompt, max_tokens, sampling, draw_seed(seed, member_number))
            for name, value in (options | {"deadline": deadline}).items():
                setattr(made, name, value)
            if grammar is not None:
                made.matcher, made.closer = GRAMMARS[grammar].matcher(), CLOSERS[grammar].fork()
                made.weight = Weight(len(prompt)) if selection.size > 1 else None
            return made

        first = member(0, budget)
        first.population = None if grammar is None else population_of(first, selection, member)
        return first

    return sequence


def drive(engine, sequences, rng, *, disturb=lambda live: None):
    """The outputs of each sequence; they come at random times, and `disturb` is called around each step."""
    pending, outputs = list(sequences), {}
    while engine.has_work or pending:
        while pending and (not engine.has_work or rng.random() < 0.4):
            outputs[pending[0]] = []
            engine.add(pending.pop(0))
        live = [first for first, received in outputs.items() if not (received and received[-1].is_last)]
        disturb(live)
        for output in engine.step(lambda: disturb(live)):  # noqa: B023 - called in this step
            received = outputs[output.sequence.first]
            assert not (received and received[-1].is_last)
            received.append(output)
        engine.check_integrity()
        assert not engine.runner.misread
    assert engine.pool.num_free == engine.pool.num_usable
    return outputs


def told(outputs):
    """All that clients are told of a sequence."""
    last = outputs[-1].sequence
    tokens = [token.sampled for output in outputs for token in output.tokens]
    assert [token.token_id for token in tokens] == last.output_ids
    logprobs = [None if token.logprob is None else round(token.logprob, 3) for token in tokens]
    return last.output_ids, logprobs, last.finish_reason, last.closed_by, chosen(last.selection)


def chosen(stats):
    return stats and (stats.num_draws, stats.is_exact, stats.num_written_tokens)


@pytest.mark.parametrize("seed", range(5))
def test_company_and_want_of_memory_change_no_output(seed):
    rng = random.Random(seed)
    cases = [drawn_case(rng, number) for number in range(40)]
    engine = tight_engine(rng, seed)
    crowded = drive(engine, [case() for case in cases], rng)
    for case, outputs in zip(cases, crowded.values(), strict=True):
        (alone,) = drive(ledger_engine(seed), [case()], rng).values()
        assert told(outputs) == told(alone)


@pytest.mark.parametrize("seed", range(4))
def test_stops_faults_and_deadlines_end_their_own_sequences_and_leave_no_page(seed, monkeypatch):
    rng, now = random.Random(seed), [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    engine, stopped = tight_engine(rng, seed), set()

    def disturb(live):
        now[0] += 0.5
        if live and rng.random() < 0.02:
            stopped.add(first := rng.choice(live))
            engine.stop(first)
        if rng.random() < 0.02:
            engine.runner.fault = rng.choice((torch.OutOfMemoryError("full"), RuntimeError("fault")))

    deadlines = (math.inf, math.inf, 1020.0, 1100.0)
    sequences = [drawn_case(rng, number)(rng.choice(deadlines)) for number in range(40)]
    for first, outputs in drive(engine, sequences, rng, disturb=disturb).items():
        if first in stopped:
            continue
        assert outputs[-1].is_last
        if outputs[-1].error is None:
            told(outputs)
        else:
            assert isinstance(outputs[-1].error, DeadlineExceeded | GenerationFailed | Unforeseen)
