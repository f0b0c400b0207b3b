"""The kinds of cases, and how often each comes up."""

import random
from typing import Any, Protocol

from fuzz.findings import Outcome
from fuzz.harness import Harness
from fuzz.schema_cases import PatternCases, SchemaCases
from fuzz.toolset_cases import TaggedCases, ToolsetCases


class Kind(Protocol):
    """Makes up subjects and says what must hold of them."""

    name: str

    def make(self, rng: random.Random) -> dict[str, Any]:
        """A subject, made of JSON values."""
        ...

    def check(self, subject: dict[str, Any], rng: random.Random, harness: Harness) -> Outcome:
        """What holds, and what does not."""
        ...


KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (SchemaCases(), PatternCases(), ToolsetCases(), TaggedCases())
}
TURNS = ("schemas", "patterns", "schemas", "toolsets", "schemas", "tagged", "schemas", "patterns")
"""The kinds of cases, by their numbers."""


def case(seed: int, number: int) -> tuple[str, dict[str, Any], str]:
    """A case's kind, its subject, and the seed of its check: always the same."""
    name = TURNS[number % len(TURNS)]
    return name, KINDS[name].make(random.Random(f"make {seed} {number}")), f"check {seed} {number}"
