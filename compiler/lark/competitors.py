"""Which terminals a lexer looks for at the same time: those that may come after the same terminals.

Lark's contextual lexer looks for what its parser may take next, and OpenAI's for what the rules admit. After
the terminals of a text, its rules may have come to several places; we follow all of them at once. Where a
rule ends, we go on after every use of it. So we find all terminals that a lexer looks for, and often fewer
than those that may follow the last terminal:

    start: "get" SP NAME ";" | "sort" SP "by" SP NAME
    SP: " "
    NAME: /[a-z]+/

After `get ` only a name may come, and after `sort ` only `by`, although both follow a blank.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from compiler.digraph import reachable
from compiler.lark.lark_source import START, LarkSource, Symbol, SymbolSequence, refusal

MAX_STEPS, MAX_MERGED_STEPS = 1_000_000, 10_000_000
"""Places that are looked at one by one, and then with those of a terminal as one: half a second, and two."""

_Rules = Mapping[str, Iterable[SymbolSequence]]
_Part = Symbol | str
"""A terminal at its place, or the name of a rule, wherever it is used."""


class _TooManySteps(Exception):
    """There are too many places to follow them all."""


def find_competitors(source: LarkSource) -> Mapping[Symbol, set[str]]:
    """For each terminal at its place, the names of all that a lexer looks for there, itself among them.

    What is ignored may come at every place, and has none of its own. If there are too many places, those of
    the same terminal count as one.

    Raises:
        UnsupportedSchema: there are too many places all the same.
    """
    try:
        return _competitors(_Places(source.rules, MAX_STEPS), source.ignored)
    except _TooManySteps:
        rules = {
            name: [tuple(map(_without_place, symbols)) for symbols in expansions]
            for name, expansions in source.rules.items()
        }
        try:
            found = _competitors(_Places(rules, MAX_MERGED_STEPS), source.ignored)
        except _TooManySteps:
            reason = "too many terminals may come next: many rules may be empty, or end in others"
            raise refusal(reason, "Write fewer of them.") from None
        sequences = [symbols for expansions in source.rules.values() for symbols in expansions]
        terminals = {symbol for symbols in sequences for symbol in symbols if symbol.is_terminal}
        return {symbol: found[_without_place(symbol)] for symbol in terminals | found.keys()}


def _without_place(symbol: Symbol) -> Symbol:
    return replace(symbol, place=0)


def _competitors(places: "_Places", ignored: Iterable[str]) -> Mapping[Symbol, set[str]]:
    found: defaultdict[Symbol, set[str]] = defaultdict(set)
    everywhere = {Symbol(name, is_terminal=True) for name in ignored}
    for reached in places.reached_together():
        together = reached | everywhere
        names = {symbol.name for symbol in together}
        for symbol in together:
            found[symbol] |= names
    return found


class _Places:
    """The terminals of some rules, each at its place, and which may come after which."""

    def __init__(self, rules: _Rules, max_steps: int) -> None:
        self._steps_left = max_steps
        self._nullable = _nullable(rules)
        self._first = self._first_of_rules(rules)
        self._next: defaultdict[_Part, set[Symbol]] = defaultdict(set)
        """What may come after a part of an expansion in the same expansion."""
        self._ended: defaultdict[_Part, set[str]] = defaultdict(set)
        """The rules that may end after a part of an expansion."""
        for name, expansions in rules.items():
            for expansion in expansions:
                self._read(name, expansion)
        ended = self._ended.__getitem__
        self._after = {name: self._union(self._next, reachable({name}, ended)) for name in rules}

    def reached_together(self) -> Iterator[frozenset[Symbol]]:
        """The places that may come next at the beginning, and after the terminals of any text."""
        start = frozenset(self._first[START])
        seen = {start}
        pending = [start]
        while pending:
            places = pending.pop()
            yield places
            following: defaultdict[str, set[Symbol]] = defaultdict(set)
            for place in places:
                self._add(following[place.name], self._next[place])
                for rule in self._ended[place]:
                    self._add(following[place.name], self._after[rule])
            new = set(map(frozenset, following.values())) - seen
            seen |= new
            pending += new

    def _first_of_rules(self, rules: _Rules) -> Mapping[str, set[Symbol]]:
        own: defaultdict[_Part, set[Symbol]] = defaultdict(set)
        inner: defaultdict[str, set[str]] = defaultdict(set)
        for name, expansions in rules.items():
            for expansion in expansions:
                for symbol in expansion:
                    if symbol.is_terminal:
                        own[name].add(symbol)
                    else:
                        inner[name].add(symbol.name)
                    if symbol.is_terminal or symbol.name not in self._nullable:
                        break
        return {name: self._union(own, reachable({name}, inner.__getitem__)) for name in rules}

    def _read(self, name: str, expansion: SymbolSequence) -> None:
        following: set[Symbol] = set()
        is_end = True
        for symbol in reversed(expansion):
            part = symbol if symbol.is_terminal else symbol.name
            self._add(self._next[part], following)
            if is_end:
                self._ended[part].add(name)
            if symbol.is_terminal or symbol.name not in self._nullable:
                following, is_end = set(), False
            self._add(following, {symbol} if symbol.is_terminal else self._first[symbol.name])

    def _union(self, sets: Mapping[_Part, set[Symbol]], names: Iterable[str]) -> set[Symbol]:
        union: set[Symbol] = set()
        for name in names:
            self._add(union, sets[name])
        return union

    def _add(self, symbols: set[Symbol], more: set[Symbol]) -> None:
        symbols |= more
        self._steps_left -= 1 + len(more)
        if self._steps_left < 0:
            raise _TooManySteps


def _nullable(rules: _Rules) -> frozenset[str]:
    """The rules that derive the empty text."""
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
