"""Runs cases in worker processes until the time is over, shrinks what they find, and counts."""

import itertools
import json
import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from soundness.workers import Finished, Job, Worker, allow

from fuzz.ajv import Ajv, is_at_hand
from fuzz.findings import Finding, Outcome
from fuzz.harness import Harness
from fuzz.kinds import KINDS, case
from fuzz.shrinking import shrink

COMPILE_SECONDS = 20.0
"""Processor time to compile a case; a gateway refuses a schema that takes longer."""
CHECK_SECONDS = 60.0
"""Processor time for all else."""
SHRINK_SECONDS = 40.0
MAX_BYTES = 4 * 2**30
MOST_ALIKE = 12
"""Findings of one signature that are shrunk and written; more of them are only counted."""
_COMPILED = "compiled"


@dataclass(frozen=True, slots=True)
class Settings:
    """How long, which cases, in how many processes, and where findings are written."""

    minutes: float
    seed: int
    jobs: int
    out: Path
    first: int = 0


@dataclass(slots=True)
class Tally:
    """Counts by kind, and the findings."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in KINDS})
    found: Counter[tuple[str, ...]] = field(default_factory=Counter)
    num_cases: int = 0
    seconds: float = 0.0

    def lines(self) -> Iterator[str]:
        """What was looked at, a line for each kind, and what was found."""
        yield f"{self.num_cases} cases in {self.seconds / 3600:.2f} process-hours"
        for kind, counts in self.counts.items():
            yield f"  {kind}: " + ", ".join(f"{what} {number}" for what, number in sorted(counts.items()))
        yield f"  findings: {sum(self.found.values())}"
        for signature, number in self.found.most_common():
            yield f"    {number} x {' | '.join(signature)}"


def fuzz(settings: Settings, report: Callable[[str], None]) -> Tally:
    """Run cases, and write the tally and findings under `settings.out`."""
    tally, lock, start = Tally(), threading.Lock(), time.monotonic()
    numbers = itertools.count(settings.first)
    end = start + 60 * settings.minutes

    def run() -> None:
        worker = Worker(checker, max_bytes=MAX_BYTES)
        try:
            while time.monotonic() < end:
                with lock:
                    number = next(numbers)
                    allowed = {signature for signature, found in tally.found.items() if found >= MOST_ALIKE}
                begun = time.monotonic()
                kind, subject, seed = case(settings.seed, number)
                finished = worker.finish((kind, subject, seed, allowed))
                with lock:
                    tally.seconds += time.monotonic() - begun
                    _add(tally, settings, number, (kind, subject, seed), finished)
                    if tally.num_cases % 200 == 0:
                        _write(tally, settings)
                        report(next(tally.lines()) + f", {sum(tally.found.values())} findings")
        finally:
            worker.stop()

    with ThreadPoolExecutor(settings.jobs) as pool:
        for done in [pool.submit(run) for _ in range(settings.jobs)]:
            done.result()
    _write(tally, settings)
    return tally


def checker() -> Job:
    """The job of a worker: checks one case, then shrinks what it found."""
    harness = Harness(ajv=Ajv() if is_at_hand() else None)

    def check(task: Any) -> Iterator[Any]:
        name, subject, seed, known = task
        kind = KINDS[name]
        stages: list[str] = []

        def compiled() -> None:
            stages.append(_COMPILED)
            allow(CHECK_SECONDS)

        def outcome(changed: Any) -> Outcome:
            allow(COMPILE_SECONDS)
            return kind.check(changed, random.Random(seed), replace(harness, compiled=compiled))

        try:
            found = outcome(subject)
        except Exception:  # noqa: BLE001 - a fault of ours, which must not end the run
            yield Outcome(
                findings=[Finding(name, "fuzzing itself raises", subject, traceback.format_exc()[-800:])]
            )
            return
        yield found
        for finding in {finding.signature: finding for finding in found.findings}.values():
            if (name, *finding.signature) not in known:
                yield _shrunk(finding, outcome, seed)

    return check


def _shrunk(finding: Finding, outcome: Callable[[Any], Outcome], seed: str) -> Finding:
    """The finding with the smallest subject that shows the same."""
    best = finding

    def still_shows(subject: Any) -> bool:
        nonlocal best
        if not isinstance(subject, dict) or subject.keys() != finding.subject.keys():
            return False
        try:
            alike = [other for other in outcome(subject).findings if other.signature == finding.signature]
        except Exception:  # noqa: BLE001 - what is no subject any more shows nothing
            return False
        best = alike[0] if alike else best
        return bool(alike)

    shrink(finding.subject, still_shows, seconds=SHRINK_SECONDS)
    return replace(best, seed=seed)


def _add(
    tally: Tally, settings: Settings, number: int, made: tuple[str, dict[str, Any], str], finished: Finished
) -> None:
    kind, subject, seed = made
    tally.num_cases += 1
    outcome = next((found for found in finished.findings if isinstance(found, Outcome)), Outcome())
    tally.counts[kind] += outcome.counts
    shrunk = [found for found in finished.findings if isinstance(found, Finding)]
    if finished.end != "done" and not outcome.findings:
        tally.counts[kind][finished.end] += 1
        if finished.end == "over time":
            _note(settings, "over-time", number, kind, subject)
        else:
            shrunk = [Finding(kind, "the process ends", subject, finished.end, seed)]
            outcome.findings.append(shrunk[0])
    if outcome.findings and not shrunk and tally.found[(kind, *outcome.findings[0].signature)] < MOST_ALIKE:
        shrunk = [replace(outcome.findings[0], seed=seed)]
    for signature in {finding.signature for finding in outcome.findings}:
        tally.found[(kind, *signature)] += 1
    for at, finding in enumerate(shrunk):
        finding.write(settings.out / "findings", f"{kind}-{settings.seed}-{number}-{at}")


def _note(settings: Settings, folder: str, number: int, kind: str, subject: Any) -> None:
    place = settings.out / folder
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{kind}-{settings.seed}-{number}.json").write_text(json.dumps(subject))


def _write(tally: Tally, settings: Settings) -> None:
    settings.out.mkdir(parents=True, exist_ok=True)
    counts = {
        "cases": tally.num_cases,
        "process_hours": tally.seconds / 3600,
        "settings": {key: str(value) for key, value in asdict(settings).items()},
        "counts": {kind: dict(counted) for kind, counted in tally.counts.items()},
        "found": {" | ".join(signature): number for signature, number in tally.found.items()},
    }
    (settings.out / f"tally-{settings.seed}.json").write_text(json.dumps(counts, indent=1))
