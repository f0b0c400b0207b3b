"""Whether a history of reads and compare-and-set writes of one register is linearizable.

Each write names the version that it replaces, and versions are never repeated. So the writes that took effect form a
chain, and their order is known; what is left is whether times allow it. The n-th version can begin at the earliest when

- the version before it has begun,
- its own write has been sent, and
- every read that saw the version before it has been sent, since that one saw it before it was replaced;

and it has to begin before its write was answered, and before every read that saw it was answered. Taking the earliest
time for each version loses nothing, because every bound on a later version grows with it. So this is exact, and takes
linear time where a search over all orders takes exponential time (Gibbons and Korach, 1997).
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

Version = Hashable
"""None stands for a register that nobody has written."""


@dataclass(frozen=True, slots=True)
class Write:
    """A write of `version` over `replaced`, sent and answered at these times; never answered, it ends in infinity."""

    version: Version
    replaced: Version | None
    sent: float
    answered: float = math.inf


@dataclass(frozen=True, slots=True)
class Read:
    """An answer that showed `version`: of a read, or of a write that was refused because of it."""

    version: Version | None
    sent: float
    answered: float


def violation(operations: Iterable[Write | Read]) -> str:
    """Why no order of the operations explains what they saw; empty if one does.

    Writes that were refused are reads of what they were refused for. Of writes without an answer, those count whose
    version somebody replaced or saw.
    """
    operations = list(operations)
    reads: dict[Version | None, list[Read]] = {}
    for operation in operations:
        if isinstance(operation, Read):
            reads.setdefault(operation.version, []).append(operation)
    chain = _chain([one for one in operations if isinstance(one, Write)], reads)
    if isinstance(chain, str):
        return chain
    unknown = reads.keys() - {None} - {write.version for write in chain}
    if unknown:
        return f"versions that nobody wrote: {sorted(map(str, unknown))[:5]}"
    begun, before = -math.inf, None
    for write in chain:
        begun = max([begun, write.sent, *(read.sent for read in reads.get(before, ()))])
        ends = min([write.answered, *(read.answered for read in reads.get(write.version, ()))])
        if begun > ends:
            return f"{write.version} was acknowledged or seen {begun - ends:.6f} s before it can have begun"
        before = write.version
    return ""


def _chain(writes: Sequence[Write], reads: dict[Version | None, list[Read]]) -> list[Write] | str:
    """The writes that took effect, in their order; or why there is none."""
    answered = {write.version for write in writes if write.answered < math.inf}
    by_replaced: dict[Version | None, list[Write]] = {}
    for write in writes:
        by_replaced.setdefault(write.replaced, []).append(write)
    needed = answered | (reads.keys() - {None})
    chain: list[Write] = []
    version: Version | None = None
    while version in by_replaced:
        followers = by_replaced[version]
        certain = [one for one in followers if one.version in needed or _leads_on(one, by_replaced, needed)]
        if len(certain) > 1:
            return f"{version} was replaced by both {certain[0].version} and {certain[1].version}"
        if not certain:
            break
        chain += certain
        version = certain[0].version
    lost = answered - {write.version for write in chain}
    return f"acknowledged, but not after what it replaced: {sorted(map(str, lost))[:5]}" if lost else chain


def _leads_on(
    write: Write, by_replaced: dict[Version | None, list[Write]], needed: Iterable[Version]
) -> bool:
    """Whether what was written over it took effect, so it did itself."""
    following, seen = [write.version], set()
    while following:
        version = following.pop()
        for one in by_replaced.get(version, ()):
            if one.version in needed:
                return True
            if one.version not in seen:
                seen.add(one.version)
                following.append(one.version)
    return False
