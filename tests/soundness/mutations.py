"""Values that differ a little from valid ones, which a mask that is slightly too wide would admit."""

import copy
import random
from collections.abc import Iterable, Iterator
from typing import Any

from soundness.comparison import spellings
from soundness.judges import Judges
from soundness.schemas import KEYS, STRINGS

from compiler.compiled_format import CompiledFormat


def wrongly_accepted(
    compiled: CompiledFormat, judges: Judges, values: Iterable[Any]
) -> list[tuple[str, list[str]]]:
    """The texts of `values` that are invalid and yet accepted, and what is wrong with each."""
    accepted = (text for value in values for text in spellings(value) if compiled.accepts(text))
    return [(text, faults) for text in accepted if (faults := judges.faults(text.encode()))]


def mutations(value: Any, rng: random.Random, count: int) -> Iterator[Any]:
    """Values that differ from `value` in one place, or in a few."""
    for _ in range(count):
        changed = value
        for _ in range(rng.choice((1, 1, 2))):
            changed = _mutated(changed, rng)
        yield changed


def _mutated(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict | list) and value and rng.random() < 0.5:
        changed = copy.copy(value)
        place = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
        changed[place] = _mutated(value[place], rng)
        return changed
    if rng.random() < 0.25:
        return copy.deepcopy(rng.choice((None, True, 0, 1.5, -1, "a", "", [], {}, ["a", 1], {"a": 1})))
    return rng.choice(_neighbours(value, rng))


def _neighbours(value: Any, rng: random.Random) -> list[Any]:
    match value:
        case bool() | None:
            return [not value]
        case int() | float():
            return [value + 1, value - 1, -value, value + 0.5, value * 10, value / 2, str(value)]
        case str() | list():
            at = rng.randrange(len(value) + 1)
            start, end = value[:at], value[at:]
            more = rng.choice(STRINGS) if isinstance(value, str) else [None]
            return [start, end, start + end[:1] + end, start + more + end, value[::-1], value + value]
        case dict():
            kept = {key: item for key, item in value.items() if rng.random() < 0.7}
            added = {**value, rng.choice(KEYS): rng.choice((None, 1, "a", [], {}))}
            return [kept, added, dict(reversed(value.items()))]
    raise AssertionError(type(value))
