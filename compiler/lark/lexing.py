"""Which characters may not follow a terminal, so that every lexer splits the text as the rules do.

Two terminals *compete* if both may come at some place (`compiler.lark.competitors`). Where a terminal's text
ends, neither the terminal nor any competitor may be able to go on with the next character, because a lexer
would go on. Nor may the text be that of a keyword that competes with it there.

Hundreds of terminals may compete, so their automata are first brought over one alphabet, unless that makes
them large. To compare two of them then takes few steps, if they have no long texts in common.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache

from compiler.digraph import reachable
from compiler.lark.lark_source import Symbol
from compiler.lark.terminals import Terminal
from compiler.regular import charset
from compiler.regular.charset import Ranges
from compiler.regular.dfa import DEAD, Alphabet, Dfa
from compiler.regular.language import union_of

MAX_CELLS = 8_000_000
"""The most cells of all automata together over one alphabet, states times symbols: eight bytes each."""


def over_one_alphabet(terminals: Mapping[str, Terminal]) -> Mapping[str, Terminal]:
    """The terminals with automata that are compared quickly; as they are if those would take much memory."""
    automata = [dfa for terminal in terminals.values() for dfa in (terminal.written, terminal.lexed)]
    alphabet = Alphabet.of([atom for dfa in automata for atom in dfa.alphabet.atoms])
    if len(alphabet.atoms) * sum(len(dfa.table) for dfa in automata) > MAX_CELLS:
        return terminals
    return {
        name: replace(terminal, written=terminal.written.over(alphabet), lexed=terminal.lexed.over(alphabet))
        for name, terminal in terminals.items()
    }


def forbidden_next(
    terminals: Mapping[str, Terminal], competitors: Mapping[Symbol, Collection[str]]
) -> dict[str, Ranges]:
    """For each terminal the characters that may not follow its texts."""
    beside: defaultdict[str, set[str]] = defaultdict(set)
    for symbol, names in competitors.items():
        beside[symbol.name].update(names)
    return {
        name: charset.union(
            *(
                _extensions(terminal.written, terminals[other].lexed)
                for other in sorted(beside[name] | {name})
            )
        )
        for name, terminal in terminals.items()
    }


def reserved_keywords(
    terminals: Mapping[str, Terminal], competitors: Mapping[Symbol, Collection[str]]
) -> dict[Symbol, tuple[str, ...]]:
    """For each terminal at its place the competing keywords of which it has a text; none for keywords.

    Patterns are not told apart here: of two that follow the same terminals, often only one may come.
    """
    keywords = {name for name, terminal in terminals.items() if terminal.is_keyword}

    @cache
    def has_text_of(name: str, keyword: str) -> bool:
        return _have_text_in_common(terminals[name].written, terminals[keyword].lexed)

    return {
        symbol: tuple(
            sorted(other for other in keywords.intersection(names) if has_text_of(symbol.name, other))
        )
        for symbol, names in competitors.items()
        if symbol.is_terminal and symbol.name not in keywords
    }


def _extensions(written: Dfa, lexed: Dfa) -> Ranges:
    """The characters with which `lexed` goes on where a text of `written` ends."""
    if not charset.intersection(written.first, lexed.first):
        return ()
    written, lexed = _over_one_alphabet(written, lexed)
    symbols = {
        symbol
        for here, there in _states_after_the_same_texts(written, lexed)
        if here in written.accepting
        for symbol, target in enumerate(lexed.table[there])
        if target != DEAD
    }
    return charset.union(*(written.alphabet.atoms[symbol] for symbol in symbols)) if symbols else ()


def _have_text_in_common(first: Dfa, second: Dfa) -> bool:
    if not charset.intersection(first.first, second.first):
        return False
    first, second = _over_one_alphabet(first, second)
    return any(
        here in first.accepting and there in second.accepting
        for here, there in _states_after_the_same_texts(first, second)
    )


def _over_one_alphabet(first: Dfa, second: Dfa) -> tuple[Dfa, Dfa]:
    if first.alphabet == second.alphabet:
        return first, second
    alphabet = Alphabet.of([*first.alphabet.atoms, *second.alphabet.atoms])
    return first.over(alphabet), second.over(alphabet)


def _states_after_the_same_texts(first: Dfa, second: Dfa) -> set[tuple[int, int]]:
    """The pairs of states that a text leads to; both automata must have the same alphabet."""

    def successors(states: tuple[int, int]) -> list[tuple[int, int]]:
        pairs = zip(first.table[states[0]], second.table[states[1]], strict=True)
        return [pair for pair in pairs if DEAD not in pair]

    return reachable([(0, 0)], successors)


def apart_from(texts: Dfa, keywords: Iterable[Dfa]) -> Dfa:
    """The texts that are none of the keywords'; only the keywords among them are united, which may be few."""
    common = [first.intersect(second) for first, second in (_over_one_alphabet(texts, k) for k in keywords)]
    return texts.without(union_of(common)) if common else texts


def beginning_outside(dfa: Dfa, forbidden: Ranges) -> Dfa:
    """The texts of an automaton that do not begin with a character of a set."""
    alphabet = Alphabet.of([*dfa.alphabet.atoms, forbidden])
    first = tuple(DEAD if charset.contains(forbidden, atom[0][0]) else 1 for atom in alphabet.atoms)
    any_after = Dfa(alphabet, (first, (1,) * len(first)), frozenset({1}))
    return dfa.over(alphabet).intersect(any_after)
