"""Runs faults one after the other under the load, and finds what each of them did to it."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from chaos.cluster import started
from chaos.load import DESK, TOOLSET, Load, Registrations, register
from chaos.own_faults import OWN_FAULTS
from chaos.shared_faults import SHARED_FAULTS, Fault, Scene

CLEAR = {"deadline_exceeded"}
"""What any fault may cause: the time for an answer ran out, and the client was told so."""
FAULTS = (*SHARED_FAULTS, *OWN_FAULTS)
FAULT_NAMES = [fault.name for fault in FAULTS]


@dataclass
class Result:
    """What a fault did: requests answered, refused by their codes, and what must not have happened."""

    name: str
    what: str
    seconds: float = 0.0
    num_answered: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    recovery_s: float = 0.0
    longest_s: float = 0.0
    notes: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def was_tried(self) -> bool:
        return self.seconds > 0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def line(self) -> str:
        if not self.was_tried:
            return f"{self.name:20} {'; '.join(self.notes)}"
        verdict = f"{len(self.wrong)} WRONG" if self.wrong else "ok"
        refused = ", ".join(f"{number} {code}" for code, number in self.refused.items()) or "none refused"
        numbers = f"{self.num_answered} answered, {refused}; served again after {self.recovery_s:.1f} s"
        return f"{self.name:20} {verdict}: {numbers}; {'; '.join(self.notes)}"


async def run(
    folder: Path,
    seconds: float,
    only: Collection[str] | None,
    times: int,
    report: Callable[[Sequence[Result]], None],
) -> list[Result]:
    """Inflict each fault, or only some, `times` times each, as far as there is time for them.

    `report` gets what is known so far.
    """
    results: list[Result] = []
    async with started(folder) as cluster:
        await register(cluster.gateways[0], TOOLSET, DESK)
        load, registrations = Load(list(cluster.gateways)), Registrations(list(cluster.gateways))
        async with load.running(), registrations.running():
            await load.steady()
            end = time.monotonic() + seconds
            chosen = [fault for fault in FAULTS if not only or fault.name in only]
            for fault in (fault for fault in chosen for _ in range(times)):
                reason = fault.missing or ("no time was left" if time.monotonic() > end else "")
                if reason:
                    results.append(Result(fault.name, fault.what, notes=[f"not tried: {reason}"]))
                else:
                    results.append(await under(Scene(cluster, load, registrations, [], end), fault))
                report(results)
    return results


async def under(scene: Scene, fault: Fault) -> Result:
    """Inflict a fault, wait until all is served again, and look for what it did."""
    load = scene.load
    num_wrong, begun = len(load.wrong), time.monotonic()
    await fault.inflict(scene)
    mended = time.monotonic()
    last_refused = await load.steady()
    outcomes = [one for one in load.outcomes if one.end > begun]
    refused = Counter(one.code for one in outcomes if not one.is_answered)
    wrong = load.wrong[num_wrong:]
    wrong += [
        f"{number} requests: {code}"
        for code, number in refused.items()
        if code not in {*fault.errors, *CLEAR, "wrong"}
    ]
    wrong += [f"lost: {name}" for name in await scene.registrations.lost()]
    return Result(
        fault.name,
        fault.what,
        seconds=time.monotonic() - begun,
        num_answered=sum(one.is_answered for one in outcomes),
        refused=dict(refused),
        recovery_s=max(0.0, last_refused - mended),
        longest_s=max((one.end - one.start for one in outcomes), default=0.0),
        notes=scene.notes,
        wrong=[f"{fault.name}: {line}" for line in wrong],
    )
