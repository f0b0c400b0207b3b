"""The language of several patterns at once, and which patterns exclude one another."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from compiler.regular import charset, lookaheads, nfa
from compiler.regular.dfa import Alphabet, Dfa, TooManyStates, build_dfa, intersection, union
from compiler.regular.ecma import MAX_COUNT, parse
from compiler.regular.formats import FORMATS
from compiler.regular.pattern_tree import (
    Alternation,
    Assertion,
    Chars,
    Concat,
    Lookaround,
    PatternError,
    PatternNode,
    Repetition,
    nodes,
)

_MISPLACED_ASSERTION = r"has ^, \b or \B in a lookahead that is not right after ^"


@dataclass(frozen=True)
class PatternCondition:
    """A pattern that must match somewhere in a text or, with `is_excluded`, must not match anywhere.

    Without `is_counted`, its texts may have any length (see `text_length`). `excludes_beginnings`
    also excludes texts that only begin like one that must not match (see `Dfa.beginnings`).
    """

    pattern: str
    is_excluded: bool = False
    is_counted: bool = True
    excludes_beginnings: bool = False

    def node(self, most: int) -> PatternNode:
        """The syntax tree of the pattern: read inner if it must match, outer if it must not.

        Bounds of repetitions beyond `most` are changed so that the condition admits less (see `parse`).

        Raises:
            PatternError: the pattern cannot be read.
        """
        node = parse(self.pattern, is_outer=self.is_excluded, most=most)
        return node if self.is_counted else _without_count(node)


@lru_cache(maxsize=256)
def text_length(pattern: str) -> tuple[int, int | None] | None:
    r"""The bounds of a text's length, if a pattern only counts characters and has lookarounds; else None.

    Then the pattern means the same as these bounds and the pattern without its count.

    >>> text_length(r"^(?=.*\d).{8,64}$"), text_length("^.{8,64}$"), text_length("^(?=a)ab{2}$")
    ((8, 64), None, None)

    Raises:
        PatternError: the pattern cannot be read.
    """
    match _counted(parse(pattern)):
        case None | Repetition(_, 0, None):
            return None
        case Repetition(_, low, high):
            return low, high


def _counted(node: PatternNode) -> Repetition | None:
    """The item of an anchored pattern with lookarounds, if it is one class of characters that is repeated."""
    match node:
        case Concat((Assertion("^"), *inner, Assertion("$"))):
            items = [item for item in inner if not isinstance(item, Lookaround)]
            match items:
                case [Repetition(Chars()) as item] if len(inner) > 1:
                    return item
    return None


def _without_count(node: PatternNode) -> PatternNode:
    counted = _counted(node)
    assert isinstance(node, Concat), "text_length found bounds"
    assert counted is not None, "text_length found bounds"
    return Concat(tuple(replace(item, low=0, high=None) if item is counted else item for item in node.items))


def language(
    conditions: Iterable[PatternCondition], excluded: tuple[str, ...] = (), *, most: int = MAX_COUNT
) -> Dfa:
    """The automaton of the texts that meet every condition and are none of `excluded`.

    >>> dfa = language([PatternCondition("^a"), PatternCondition("b", is_excluded=True)], ("ac",))
    >>> [dfa.accepts(text) for text in ("a", "ab", "ac")]
    [True, False, False]

    Bounds of repetitions beyond `most` are changed so that less is admitted (see `parse`).

    Raises:
        PatternError: a pattern cannot be read or is not regular.
        TooManyStates: an automaton is too large.
    """
    return _intersection(tuple(conditions), excluded, most)


@lru_cache(maxsize=512)
def _intersection(conditions: tuple[PatternCondition, ...], excluded: tuple[str, ...], most: int) -> Dfa:
    """As `language`; cached, since formats and patterns recur."""
    automata = [_automaton(condition, most) for condition in conditions]
    sets = [s for sets, _ in automata for s in sets]
    alphabet = Alphabet.of([*sets, *(charset.of(char) for char in sorted(set("".join(excluded))))])
    first = [_other_than(excluded, alphabet)] if excluded or not conditions else []
    return intersection(first + [dfa.over(alphabet) for _, dfa in automata])


def whole_texts(pattern: str, *, is_outer: bool) -> Dfa:
    r"""The automaton of the texts that a pattern matches from their first character to their last.

    Unlike `^(?:...)$` in the outer reading, it has no text with a line break behind such a text.

    >>> whole_texts("a|b", is_outer=True).accepts("a\n"), whole_texts("a|b", is_outer=True).accepts("b")
    (False, True)

    Raises:
        PatternError: the pattern cannot be read, or has lookarounds that are not at an anchored end.
        TooManyStates: the automaton is too large.
    """
    node = Concat((Assertion("^"), parse(pattern, is_outer=is_outer), Assertion("$")))
    return _search(node, Alphabet.of(nfa.sets_of(node)))


def is_valid_for_all(name: str, text: str) -> bool:
    """Whether every validator takes a text for one of a format in `FORMATS`.

    >>> is_valid_for_all("email", "ann@example.com"), is_valid_for_all("email", "ann@localhost")
    (True, False)
    """
    known = FORMATS[name]
    patterns = [known.pattern] if known.lengths is None else [known.pattern, known.lengths]
    return language(map(PatternCondition, patterns)).accepts(text)


def may_be_valid(name: str, text: str) -> bool:
    """Whether some validator may take a text for one of a format in `FORMATS`.

    >>> may_be_valid("date", "0000-01-01"), may_be_valid("date", "7d")
    (True, False)
    """
    # Where `\d` is not that of ASCII, digits of other scripts are digits.
    digits = "".join("0" if char.isdigit() else char for char in text) if not text.isascii() else text
    pattern = FORMATS[name].outer_listed or FORMATS[name].outer
    return language([PatternCondition(pattern)]).accepts(digits)


def union_of(languages: Iterable[Dfa]) -> Dfa:
    """The automaton of the texts in any of some languages.

    Raises:
        TooManyStates: the automaton is too large.
    """
    automata = list(languages)
    alphabet = Alphabet.of(atom for dfa in automata for atom in dfa.alphabet.atoms)
    automata = [dfa.over(alphabet) for dfa in automata]
    while len(automata) > 1:
        automata = [union(automata[i : i + 2]) for i in range(0, len(automata), 2)]
    return automata[0]


@lru_cache(maxsize=256)
def _automaton(condition: PatternCondition, most: int) -> tuple[tuple[charset.Ranges, ...], Dfa]:
    """The sets of characters in a condition's pattern, and its automaton over these sets alone."""
    node = condition.node(most)
    sets = tuple(nfa.sets_of(node))
    dfa = _search(node, Alphabet.of(sets))
    if condition.excludes_beginnings:
        dfa = dfa.beginnings()
    return sets, dfa.complement() if condition.is_excluded else dfa


def _other_than(texts: tuple[str, ...], alphabet: Alphabet) -> Dfa:
    """The automaton of all other texts: a state for every prefix of `texts`, one for other prefixes."""
    prefixes = {text[:length] for text in texts for length in range(len(text) + 1)} | {""}
    chars = [chr(atom[0][0]) for atom in alphabet.atoms]
    other = "\ud800"  # a lone surrogate: the prefix of no text

    def successors(prefix: str) -> list[str]:
        return [prefix + char if prefix + char in prefixes else other for char in chars]

    return build_dfa(alphabet, "", successors, lambda prefix: prefix not in texts)


def _search(node: PatternNode, alphabet: Alphabet) -> Dfa:
    """As `nfa.search`, for trees that may have lookarounds."""
    if not any(isinstance(inner, Lookaround) for inner in nodes(node)):
        return nfa.search(node, alphabet)
    match node:
        case Alternation(options):
            return union([_search(option, alphabet) for option in options])
        case Concat(items):
            return _anchored(list(items), alphabet)
        case _:
            return _with_lookaheads(node, alphabet)


def _anchored(items: list[PatternNode], alphabet: Alphabet) -> Dfa:
    """`^(?=A)(?!B)C(?<!D)$` as the intersection of `^C$`, `^A`, not `^B` and not `D$`."""
    start, end = Assertion("^"), Assertion("$")
    conditions: list[tuple[PatternNode, bool]] = []
    if items[0] == start:
        while len(items) > 1 and isinstance(look := items[1], Lookaround) and look.is_ahead:
            conditions.append((Concat((start, look.item)), look.is_negative))
            del items[1]
    if items[-1] == end:
        while len(items) > 1 and isinstance(look := items[-2], Lookaround) and not look.is_ahead:
            conditions.append((Concat((look.item, end)), look.is_negative))
            del items[-2]
    if not conditions:
        return _with_lookaheads(Concat(tuple(items)), alphabet)
    automaton = _search(Concat(tuple(items)), alphabet)
    for condition, is_negative in conditions:
        dfa = _search(condition, alphabet)
        automaton = automaton.intersect(dfa.complement() if is_negative else dfa)
    return automaton


def _with_lookaheads(node: PatternNode, alphabet: Alphabet) -> Dfa:
    """The automaton of a tree with lookaheads anywhere.

    What may follow a lookahead is an automaton of its own, which does not know what is before that position.
    So it can have no assertion that asks for this.
    """
    rests: dict[Lookaround, Dfa] = {}
    for look in (inner for inner in nodes(node) if isinstance(inner, Lookaround)):
        if not look.is_ahead:
            raise PatternError(nfa.MISPLACED_LOOKBEHIND)
        if any(isinstance(inner, Assertion) and inner.kind[0] in "^bB" for inner in nodes(look.item)):
            raise PatternError(_MISPLACED_ASSERTION)
        if look not in rests:
            rest = _search(Concat((Assertion("^"), look.item)), alphabet)
            rests[look] = rest.complement() if look.is_negative else rest
    return lookaheads.search(node, alphabet, rests)


class TooManyOverlaps(ValueError):
    """There are too many sets of patterns that overlap."""


def overlaps(patterns: tuple[str, ...], most: int) -> list[tuple[str, ...]]:
    """The sets of patterns in which any two can match the same text; the empty set comes first.

    >>> overlaps(("^a", "b", "^c"), most=10)
    [(), ('^a',), ('b',), ('^a', 'b'), ('^c',), ('b', '^c')]

    Patterns are read inner. A pattern without an automaton counts as overlapping with every other one.

    Raises:
        TooManyOverlaps: there are more than `most`.
    """
    overlapping: list[tuple[str, ...]] = [()]
    for index, pattern in enumerate(patterns):
        disjoint = {other for other in patterns[:index] if _exclude(pattern, other)}
        overlapping += [(*others, pattern) for others in overlapping if disjoint.isdisjoint(others)]
        if len(overlapping) > most:
            raise TooManyOverlaps
    return overlapping


def _exclude(first: str, second: str) -> bool:
    """Whether it is known that no text matches both patterns."""
    try:
        return language([PatternCondition(first), PatternCondition(second)]).is_empty
    except (PatternError, TooManyStates):
        return False
