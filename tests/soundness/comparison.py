"""The outcome of a case under an engine, and the scores of many cases."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from soundness.corpora import Case, Instance
from soundness.engines import ENGINES, Engine, Refused
from soundness.key_order import in_declared_order
from soundness.workers import Finished, Job, allow, run

COMPILE_SECONDS = 10.0
"""Processor time within which a schema must compile, or it counts as not compiled."""
READ_SECONDS = 60.0
"""Processor time for all instances of a schema."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case under one engine.

    `end` is "compiled", "refused" (then `why`, `keyword`, `pointer` say more), "over time" or "crashed";
    `accepted` says for each instance whether the engine lets a model write it as it is, `writable` whether it does
    so as it is or with keys in declared order.
    """

    corpus: str
    name: str
    end: str
    seconds: float = 0.0
    why: str = ""
    keyword: str = ""
    pointer: str = ""
    accepted: tuple[bool, ...] = ()
    writable: tuple[bool, ...] = ()


def outcomes(engine: str, cases: Iterable[Case], *, workers: int) -> Iterator[Outcome]:
    """The outcome of every case, in order; in worker processes with limits, or in this one if `workers` is 0."""
    cases = list(cases)
    found = run(partial(_job, engine, is_limited=bool(workers)), cases, workers=workers)
    for case, finished in zip(cases, found, strict=True):
        yield _outcome(case, finished)


def _job(engine: str, *, is_limited: bool) -> Job:
    made = ENGINES[engine]()
    limit = allow if is_limited else lambda _: None
    return lambda case: _steps(made, case, limit)


def _steps(engine: Engine, case: Case, limit: Any) -> Iterator[Any]:
    """The seconds it took to compile, then of each instance whether it is accepted and writable; or the refusal."""
    limit(COMPILE_SECONDS)
    start = time.process_time()
    try:
        accepts = engine(case.schema, case.documents)
    except Refused as refusal:
        yield {"end": "refused", "why": refusal.why, "keyword": refusal.keyword, "pointer": refusal.pointer}
        return
    except Exception as error:  # noqa: BLE001 - an engine's fault is one of the things counted
        yield {"end": "crashed", "why": repr(error)[:500]}
        return
    yield time.process_time() - start
    limit(READ_SECONDS)
    for instance in case.instances:
        texts = spellings(instance.value)
        is_accepted = any(map(accepts, texts))
        yield is_accepted, is_accepted or any(map(accepts, _reordered(case, instance) - texts))


def _reordered(case: Case, instance: Instance) -> set[str]:
    """The texts of an instance with keys in declared order."""
    return set().union(*map(spellings, in_declared_order(instance.value, case.schema, case.documents)))


def spellings(value: Any) -> set[str]:
    """The texts of a value: with and without a blank after separators, non-ASCII as it is and escaped."""
    texts = {
        json.dumps(value, separators=separators, ensure_ascii=is_ascii)
        for separators in ((", ", ": "), (",", ":"))
        for is_ascii in (True, False)
    }
    return {text for text in texts if _is_unicode(text)}


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _outcome(case: Case, finished: Finished) -> Outcome:
    match finished.findings:
        case []:
            return Outcome(case.corpus, case.name, finished.end)
        case [dict(refusal)]:
            return Outcome(case.corpus, case.name, **refusal)
        case [seconds, *found]:
            found += [(False, False)] * (len(case.instances) - len(found))
            accepted, writable = zip(*found, strict=True) if found else ((), ())
            return Outcome(case.corpus, case.name, "compiled", seconds, accepted=accepted, writable=writable)


@dataclass(slots=True)
class Score:
    """A row of the table, and the instances that it counts.

    `wrong` are invalid instances that can be written, `missed` valid ones that cannot, and `disordered` valid ones
    that can only be written with keys in declared order; each with the name of its schema.
    """

    tally: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, str]] = field(default_factory=list)
    disordered: list[tuple[str, str]] = field(default_factory=list)
    missed: list[tuple[str, str]] = field(default_factory=list)
    refused: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def add(self, case: Case, outcome: Outcome) -> None:
        """Count one case."""
        self.tally["schemas"] += 1
        self.tally[outcome.end] += 1
        if outcome.end != "compiled":
            why = (outcome.keyword, outcome.why or outcome.end)
            self.refused.setdefault(why, []).append(f"{case.name} {outcome.pointer or '/'}")
            return
        wrong = len(self.wrong)
        for instance, is_accepted, is_writable in zip(
            case.instances, outcome.accepted, outcome.writable, strict=True
        ):
            label = "valid" if instance.is_valid else "invalid"
            self.tally[label] += 1
            self.tally[f"{label} accepted"] += is_accepted
            self.tally[f"{label} writable"] += is_writable
            found = (case.name, f"{instance.note}: {json.dumps(instance.value)}")
            if instance.is_valid and not is_accepted:
                (self.disordered if is_writable else self.missed).append(found)
            elif is_writable and not instance.is_valid:
                self.wrong.append(found)
                self.tally["wrong but for a format"] += instance.needs_format
        self.tally["wrong schemas"] += len(self.wrong) > wrong

    @property
    def row(self) -> tuple[str, ...]:
        """Invalid instances accepted, schemas compiled, valid instances accepted, writable, schemas over the limit."""
        tally = self.tally
        return (
            f"{tally['invalid accepted']} of {tally['invalid']}" if tally["invalid"] else "-",
            _share(tally["compiled"], tally["schemas"]),
            _share(tally["valid accepted"], tally["valid"]),
            _share(tally["valid writable"], tally["valid"]),
            str(tally["over time"] + tally["crashed"]),
        )


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.1%})" if whole else "-"


def score(cases: Iterable[Case], found: Iterable[Outcome]) -> Score:
    """The score of cases by their outcomes."""
    total = Score()
    for case, outcome in zip(cases, found, strict=True):
        total.add(case, outcome)
    return total


def as_json(engine: str, outcome: Outcome) -> str:
    """A line of a file of outcomes."""
    return json.dumps({"engine": engine, **asdict(outcome)})
