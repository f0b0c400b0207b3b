"""Which characters may not follow a terminal, so that every lexer splits the text as the rules do.

Two terminals *compete* if both may come at some place. Where a terminal's text ends, neither the terminal nor
any competitor may be able to go on with the next character, because a lexer would go on. Nor may the text be
that of a keyword that competes with it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from compiler.digraph import reachable
from compiler.lark.lark_source import START, LarkSource, SymbolSequence
from compiler.lark.terminals import Terminal
from compiler.regular import charset
from compiler.regular.charset import Ranges
from compiler.regular.dfa import DEAD, Alphabet, Dfa

_BEGIN = ""
"""Stands for the beginning of the text, as a terminal before the first."""


def forbidden_next(source: LarkSource, terminals: Mapping[str, Terminal]) -> dict[str, Ranges]:
    """For each terminal the characters that may not follow its texts."""
    follows = _follows(source)
    competitors: defaultdict[str, set[str]] = defaultdict(set)
    for following in follows.values():
        for name in following:
            competitors[name] |= following
    return {
        name: charset.union(*(_extensions(terminal.written, terminals[other].lexed) for other in overlapping))
        for name, terminal in terminals.items()
        if (overlapping := sorted(competitors[name] | {name}))
    }


def keywords_beside(source: LarkSource, terminals: Mapping[str, Terminal]) -> dict[str, tuple[str, ...]]:
    """For each terminal that is no keyword, the keywords that compete with it.

    Patterns are not told apart here: of two that follow the same terminal, often only one may come.
    """
    found: defaultdict[str, set[str]] = defaultdict(set)
    for following in _follows(source).values():
        keywords = {name for name in following if terminals[name].is_keyword}
        for name in following - keywords:
            found[name] |= keywords
    return {name: tuple(sorted(others)) for name, others in found.items()}


def _follows(source: LarkSource) -> dict[str, set[str]]:
    """For each terminal, and for the beginning, the terminals that may come next.

    Ignored terminals may come anywhere. After one comes what might have come in its place.
    """
    sets = _Sets.of(source)
    follows: defaultdict[str, set[str]] = defaultdict(set)
    follows[_BEGIN] |= sets.first[START]
    for expansions in source.rules.values():
        for expansion in expansions:
            for i, symbol in enumerate(expansion):
                last = {symbol.name} if symbol.is_terminal else sets.last[symbol.name]
                for name in last:
                    follows[name] |= sets.first_of(expansion[i + 1 :])
    for following in follows.values():
        following |= set(source.ignored)
    return dict(follows)


@dataclass(frozen=True)
class _Sets:
    """The terminals with which a rule's texts may begin and end, and the rules that admit no terminal."""

    nullable: frozenset[str]
    first: Mapping[str, set[str]]
    last: Mapping[str, set[str]]

    @classmethod
    def of(cls, source: LarkSource) -> "_Sets":
        nullable = _nullable(source.rules)
        first = _ends(source.rules, nullable, 1)
        return cls(nullable, first, _ends(source.rules, nullable, -1))

    def first_of(self, expansion: SymbolSequence) -> set[str]:
        first: set[str] = set()
        for symbol in expansion:
            first |= {symbol.name} if symbol.is_terminal else self.first[symbol.name]
            if symbol.is_terminal or symbol.name not in self.nullable:
                break
        return first


def _nullable(rules: Mapping[str, Iterable[SymbolSequence]]) -> frozenset[str]:
    nullable: set[str] = set()
    while True:
        more = {
            name
            for name, expansions in rules.items()
            if any(
                all(not s.is_terminal and s.name in nullable for s in expansion) for expansion in expansions
            )
        }
        if more == nullable:
            return frozenset(nullable)
        nullable = more


def _ends(
    rules: Mapping[str, Iterable[SymbolSequence]], nullable: frozenset[str], direction: int
) -> dict[str, set[str]]:
    """The terminals with which the texts of each rule may begin, or (`direction` -1) end."""
    own: dict[str, set[str]] = {name: set() for name in rules}
    inner: dict[str, set[str]] = {name: set() for name in rules}
    for name, expansions in rules.items():
        for expansion in expansions:
            for symbol in expansion[::direction]:
                (own if symbol.is_terminal else inner)[name].add(symbol.name)
                if symbol.is_terminal or symbol.name not in nullable:
                    break
    return {
        name: own[name].union(*(own[other] for other in reachable(inner[name], inner.__getitem__)))
        for name in rules
    }


def _extensions(written: Dfa, lexed: Dfa) -> Ranges:
    """The characters with which `lexed` goes on where a text of `written` ends."""
    alphabet = Alphabet.of([*written.alphabet.atoms, *lexed.alphabet.atoms])
    written, lexed = written.over(alphabet), lexed.over(alphabet)
    seen = {(0, 0)}
    pending = [(0, 0)]
    symbols: set[int] = set()
    while pending:
        here, there = pending.pop()
        if here in written.accepting:
            symbols |= {symbol for symbol, target in enumerate(lexed.table[there]) if target != DEAD}
        for pair in zip(written.table[here], lexed.table[there], strict=True):
            if DEAD not in pair and pair not in seen:
                seen.add(pair)
                pending.append(pair)
    return charset.union(*(alphabet.atoms[symbol] for symbol in symbols)) if symbols else ()


def beginning_outside(dfa: Dfa, forbidden: Ranges) -> Dfa:
    """The texts of an automaton that do not begin with a character of a set."""
    alphabet = Alphabet.of([*dfa.alphabet.atoms, forbidden])
    first = tuple(DEAD if charset.contains(forbidden, atom[0][0]) else 1 for atom in alphabet.atoms)
    any_after = Dfa(alphabet, (first, (1,) * len(first)), frozenset({1}))
    return dfa.over(alphabet).intersect(any_after)
