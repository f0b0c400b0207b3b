"""Which of several patterns one text may match together."""

from compiler.regular.dfa import TooManyStates
from compiler.regular.ecma import PatternError
from compiler.regular.language import Part, language


class TooManyOverlaps(ValueError):
    """Patterns overlap in more ways than allowed."""


def overlaps(patterns: tuple[str, ...], most: int) -> list[tuple[str, ...]]:
    """The sets of patterns of which any two can match one text, the empty set first.

    Patterns are read inner, as where they must match. What has no automaton counts as overlapping.

    Raises:
        TooManyOverlaps: there are more than `most`.
    """
    found: list[tuple[str, ...]] = [()]
    for index, pattern in enumerate(patterns):
        apart = {other for other in patterns[:index] if _exclude(pattern, other)}
        found += [(*others, pattern) for others in found if apart.isdisjoint(others)]
        if len(found) > most:
            raise TooManyOverlaps
    return found


def _exclude(first: str, second: str) -> bool:
    try:
        return language([Part(first), Part(second)]).is_empty
    except (PatternError, TooManyStates):
        return False
