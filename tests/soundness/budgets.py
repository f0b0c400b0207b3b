"""Budgets: the outputs of an engine with a model that knows nothing and a small token limit."""

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from dictation import Indifferent, engine_of, spelled_vocabulary
from soundness.corpora import Case
from soundness.judges import Judges
from soundness.workers import Finished, Job, allow, run
from whole_outputs import parse_calls

from compiler import compile_schema, compile_toolset
from compiler.errors import CompilerError
from compiler.linker.linker import LinkedGrammar
from compiler.prepared_vocabulary import prepare
from compiler.vocabulary import Vocabulary
from runtime.engine import Engine, Runner
from runtime.errors import BudgetTooSmall
from runtime.forward.model_runner import ModelRunner
from runtime.jump_forward import JumpForward
from runtime.loading import load_model
from runtime.models.random_model import RandomModelSettings, ensure_random_model
from runtime.request import Constraint, Sampling
from runtime.scheduling.sequence import Sequence
from runtime.settings import EngineSettings
from runtime.text.detokenizer import TokenBytes
from toolspecs.tool import KeyOrder, Tool

SECONDS = 120.0
"""Processor time for all outputs of a schema, compiling included."""
MEAN_EXTRA = 25
"""Tokens by which a budget is larger than the minimum, on average; one in four has none to spare."""
CLOSING = frozenset(b'"}]')
EAGERNESS = (0.0, 8.0, 12.0)
"""Added to the logits of tokens that close something: at 0 few strings end, at 12 most end at once."""


@dataclass(frozen=True, slots=True)
class Written:
    """One output: how it ended, how early it was closed (None: not at all), and what is wrong with it."""

    end: str
    early: int | None = None
    fault: str = ""


@dataclass(slots=True)
class Tally:
    """Counts of ends, how early outputs were closed, and every fault found."""

    counts: Counter[str] = field(default_factory=Counter)
    early: list[int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def add(self, case: Case, finished: Finished) -> None:
        """Count one schema's outputs."""
        self.counts[f"schemas {finished.end}"] += 1
        self.counts["schemas refused"] += not finished.findings
        for written in finished.findings:
            self.counts[written.end] += 1
            self.early += [] if written.early is None else [written.early]
            self.faults += [f"{case.corpus} {case.name}: {written.fault}"] if written.fault else []

    def __str__(self) -> str:
        early = sorted(self.early) or [0]
        tail = f"{median(early):g}, p90 {early[len(early) * 9 // 10]}, most {early[-1]}"
        return f"{dict(self.counts)}, tokens left where closed: median {tail}"


def outputs(
    cases: Iterable[Case],
    vocabulary: str,
    per_schema: int,
    *,
    workers: int,
    seed: int = 0,
    key_order: KeyOrder = "declared",
) -> Iterator[Tally]:
    """The tally so far, after each case; the schemas of `mcp` are called as tools, the others are response formats."""
    cases = list(cases)
    job = partial(_job, vocabulary, per_schema, seed, key_order, is_limited=bool(workers))
    found = run(job, cases, workers=workers)
    tally = Tally()
    for case, finished in zip(cases, found, strict=True):
        tally.add(case, finished)
        yield tally


def _job(vocabulary: str, per_schema: int, seed: int, key_order: KeyOrder, *, is_limited: bool) -> Job:
    torch.set_num_threads(1)
    words, jump_forward, start_model = _writer(vocabulary)
    closing = [i for i, token in enumerate(words.tokens) if token and CLOSING.issuperset(token)]

    def written(case: Case) -> Iterator[Written]:
        if is_limited:
            allow(SECONDS)
        try:
            constraint = _compiled(case, words, key_order)
        except CompilerError:
            return
        rng = random.Random(f"{seed} {case.name}")
        samplings = [
            Sampling(logit_bias=dict.fromkeys(closing, eager) if eager else {}) for eager in EAGERNESS
        ]
        chosen = [samplings[number % len(samplings)] for number in range(per_schema)]
        engine = engine_of(start_model(), words, jump_forward)
        yield from write(constraint, engine, Judges(case.schema, case.documents), chosen, rng)

    return written


def _writer(vocabulary: str) -> tuple[Vocabulary, JumpForward | None, Callable[[], Runner]]:
    """A vocabulary, how its texts are spelled, and a model over it: for "random" one of random weights."""
    if vocabulary != "random":
        words, jump_forward = spelled_vocabulary(vocabulary)
        return words, jump_forward, partial(Indifferent, words.width)
    settings = RandomModelSettings(hidden_size=64, num_layers=2)
    loaded = load_model(ensure_random_model(Path(tempfile.gettempdir(), "callgate-models"), settings))
    start_model = partial(ModelRunner, loaded.model, EngineSettings(num_pages=1024))
    return loaded.vocabulary, JumpForward.of(loaded.tokenizer, prepare(loaded.prepared)), start_model


def _compiled(case: Case, vocabulary: Vocabulary, key_order: KeyOrder) -> Constraint:
    if case.corpus != "mcp":
        return compile_schema(
            case.schema, documents=case.documents, tokenizer=vocabulary, key_order=key_order
        )
    tool = Tool(case.name.partition("/")[2], "", case.schema, key_order=key_order)
    return compile_toolset([tool], tokenizer=vocabulary, syntax="hermes")


def write(
    constraint: Any, engine: Engine, judges: Judges, samplings: Iterable[Sampling], rng: random.Random
) -> Iterator[Written]:
    """One output for each sampling, with budgets from the smallest that any output fits on."""
    vocabulary = constraint.vocabulary
    minimum = constraint.closer().minimum()
    if minimum >= engine.context_length - 1000:
        yield Written("too long for any context")
        return
    sequences = []
    for sampling in samplings:
        extra = rng.choice((0, *[1 + int(rng.expovariate(1 / MEAN_EXTRA))] * 3))
        sequences.append(_sequence(constraint, minimum + extra, sampling, rng))
    if minimum > 0:
        yield _refused(engine, _sequence(constraint, minimum - 1, Sampling(), rng), minimum)
    for sequence in sequences:
        engine.add(sequence)
    while engine.has_work:
        for output in engine.step():
            if output.error is not None:
                yield Written("failed", fault=f"{output.error} {_shown(output.sequence, vocabulary)}")
                sequences.remove(output.sequence)
    engine.check_integrity()
    for sequence in sequences:
        yield _judged(sequence, constraint, judges)


def _sequence(constraint: Any, budget: int, sampling: Sampling, rng: random.Random) -> Sequence:
    return Sequence(
        "s",
        [0],
        budget,
        sampling,
        seed=rng.getrandbits(32),
        matcher=constraint.matcher(),
        closer=constraint.closer(),
    )


def _refused(engine: Engine, sequence: Sequence, minimum: int) -> Written:
    """A budget below the minimum is refused before anything is computed; the error names the minimum."""
    try:
        engine.add(sequence)
    except BudgetTooSmall as refusal:
        if refusal.minimum == minimum and not engine.has_work:
            return Written("refused below the minimum")
    return Written("not refused", fault=f"a budget of {minimum - 1}, below the minimum, was not refused")


def _judged(sequence: Sequence, constraint: Any, judges: Judges) -> Written:
    closed = sequence.closed_by == "budget"
    early = sequence.remaining if closed else None
    if faults := _faults(sequence, constraint, judges):
        shown = _shown(sequence, constraint.vocabulary)
        return Written("wrong", early, f"{shown} of {sequence.max_tokens} tokens: {faults}")
    return Written("closed" if closed else "ended", early)


def _faults(sequence: Sequence, constraint: Any, judges: Judges) -> list[str]:
    if sequence.num_output > sequence.max_tokens:
        return ["longer than its budget"]
    if not sequence.matcher.is_completed():
        return ["not complete"]
    text = _text(sequence, constraint.vocabulary)
    if not isinstance(constraint, LinkedGrammar):
        return judges.faults(text)
    prose, calls = parse_calls(text.decode(), constraint.syntax)
    if prose.strip() or not calls or any(name not in constraint.names for name, _ in calls):
        return ["no calls, or more than calls"]
    return [fault for _, arguments in calls for fault in judges.faults(arguments.encode())]


def _text(sequence: Sequence, vocabulary: Vocabulary) -> bytes:
    spelling = TokenBytes(vocabulary)
    return b"".join(spelling[i] for i in sequence.output_ids)


def _shown(sequence: Sequence, vocabulary: Vocabulary) -> str:
    return repr(_text(sequence, vocabulary).decode(errors="replace"))[:1000]
