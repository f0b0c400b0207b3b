"""The language of a string constraint: patterns, formats and exclusions intersected."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, reduce

from compiler.regular import charset, nfa
from compiler.regular.dfa import Alphabet, Dfa, TooManyStates, explored
from compiler.regular.ecma import (
    MAX_COUNT,
    Alternation,
    Assertion,
    Chars,
    Concat,
    Look,
    PatternError,
    PatternNode,
    parse,
)


@dataclass(frozen=True)
class PatternCondition:
    """A pattern that must match, or (`is_excluded`) must not."""

    pattern: str
    is_excluded: bool = False

    def node(self, most: int = MAX_COUNT) -> PatternNode:
        """Its tree, read so that characters on which engines disagree are left out.

        What must match counts to `most` at most.

        Raises:
            PatternError: it cannot be read.
        """
        return parse(self.pattern, is_outer=self.is_excluded, most=most)


def language(
    parts: Iterable[PatternCondition], excluded: tuple[str, ...] = (), *, most: int = MAX_COUNT
) -> Dfa:
    """The texts that every part admits, without those listed; patterns count to `most` at most.

    Raises:
        PatternError: a pattern cannot be read or is not regular.
        TooManyStates: an automaton is too large.
    """
    return _intersection(tuple(parts), excluded, most)


@lru_cache(maxsize=256)
def _intersection(parts: tuple[PatternCondition, ...], excluded: tuple[str, ...], most: int) -> Dfa:
    """Kept, since formats and patterns recur."""
    read = [_read(part, most) for part in parts]
    sets = [s for sets, _ in read for s in sets]
    alphabet = Alphabet.of([*sets, *(charset.of(char) for char in sorted(set("".join(excluded))))])
    automata = [_other_than(excluded, alphabet)] if excluded or not parts else []
    return reduce(Dfa.intersect, automata + [dfa.over(alphabet) for _, dfa in read])


@lru_cache(maxsize=256)
def _read(part: PatternCondition, most: int) -> tuple[tuple[charset.Ranges, ...], Dfa]:
    """The sets that a part tells apart, and what it admits, over these alone."""
    node = part.node(most)
    sets = tuple(nfa.sets_of(node))
    dfa = _search(node, Alphabet.of(sets))
    return sets, dfa.complement() if part.is_excluded else dfa


def _other_than(texts: tuple[str, ...], alphabet: Alphabet) -> Dfa:
    """Every text but these: the states are the prefixes of these, and one for having left them."""
    prefixes = {text[:length] for text in texts for length in range(len(text) + 1)} | {""}
    chars = [chr(atom[0][0]) for atom in alphabet.atoms]

    has_left = "\ud800"  # no text of ours begins with a surrogate

    def following(prefix: str) -> list[str]:
        longer = [prefix + char for char in chars]
        return [text if text in prefixes else has_left for text in longer]

    return explored(alphabet, "", following, lambda prefix: prefix not in texts)


def _search(node: PatternNode, alphabet: Alphabet) -> Dfa:
    """As `nfa.search`, with lookarounds where they look at a whole anchored text."""
    if not _looks(node):
        return nfa.search(node, alphabet)
    match node:
        case Alternation(options):
            found = _search(options[0], alphabet)
            for option in options[1:]:
                found = found.union(_search(option, alphabet))
            return found
        case Concat(items):
            return _anchored(list(items), alphabet)
        case _:
            raise PatternError("has a lookaround that is not at an anchored end")


def _anchored(items: list[PatternNode], alphabet: Alphabet) -> Dfa:
    """`^(?=A)(?!B)C(?<!D)$` as C between the anchors, and A, and not B, and not D."""
    start, end = Assertion("^"), Assertion("$")
    conditions: list[tuple[PatternNode, bool]] = []
    if items[0] == start:
        while len(items) > 1 and isinstance(look := items[1], Look) and look.is_ahead:
            conditions.append((Concat((start, look.item)), look.is_negative))
            del items[1]
    if items[-1] == end:
        while len(items) > 1 and isinstance(look := items[-2], Look) and not look.is_ahead:
            conditions.append((Concat((look.item, end)), look.is_negative))
            del items[-2]
    if not conditions:
        raise PatternError("has a lookaround that is not at an anchored end")
    found = _search(Concat(tuple(items)), alphabet)
    for condition, is_negative in conditions:
        dfa = _search(condition, alphabet)
        found = found.intersect(dfa.complement() if is_negative else dfa)
    return found


def _looks(node: PatternNode) -> bool:
    return any(isinstance(inner, Look) for inner in _walk(node))


def _walk(node: PatternNode) -> Iterator[PatternNode]:
    yield node
    match node:
        case Concat(parts) | Alternation(parts):
            for part in parts:
                yield from _walk(part)
        case Chars() | Assertion():
            return
        case _:
            yield from _walk(node.item)


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
        return language([PatternCondition(first), PatternCondition(second)]).is_empty
    except (PatternError, TooManyStates):
        return False
