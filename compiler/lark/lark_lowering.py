"""From a grammar for Lark to rules: the texts that lexers split as the rules do (`compiler.lark`).

A rule of ours stands for a rule of the grammar between two *borders*. A border is what the terminal before it
forbids to follow. Rules are made for the borders that occur, so that no rule lets two terminals touch that a
lexer would read as others.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from compiler.grammar.ambiguity import doubly_recursive, most_nullable_in_a_row
from compiler.grammar.ebnf import MAX_IN_A_ROW, MAX_SHORTEST_BYTES
from compiler.grammar.grammar import EMPTY, Expr, Grammar, Literal, Rule, RuleRef, concat, union
from compiler.grammar.passes import inline_loops, prune
from compiler.grammar.rules import RuleTable
from compiler.grammar.shortest import ShortestSentences
from compiler.lark.competitors import find_competitors
from compiler.lark.lark_source import START, LarkSource, Symbol, SymbolSequence, read_source, refusal
from compiler.lark.lexing import (
    apart_from,
    beginning_outside,
    forbidden_next,
    over_one_alphabet,
    reserved_keywords,
)
from compiler.lark.terminals import read_terminals
from compiler.regular.charset import Ranges, intersection
from compiler.regular.dfa import Dfa, TooManyStates
from compiler.scalars.strings import StringLowering

MAX_RULES = 5_000
"""The most rules of ours: those of the grammar, times the borders at which they may begin and end."""

WriteTexts = Callable[[RuleTable], StringLowering]
"""Makes the lowering that writes the texts of automata."""


class Border(NamedTuple):
    """What the terminal before it forbids to follow; at the beginning of the text nothing is ignored."""

    forbidden: Ranges = ()
    is_beginning: bool = False


_BEGINNING = Border(is_beginning=True)


def lower_lark(definition: str, before: str, after: str, write: WriteTexts) -> Grammar:
    """The texts of a grammar for Lark, each between `before` and `after`.

    Raises:
        UnsupportedSchema: something in the grammar cannot be read or enforced; the reason names the line.
    """
    source = read_source(definition)
    lowering = _LarkLowering(source, write)
    text = concat(Literal(before), lowering.text(), Literal(after))
    pruned = None if text is None else prune(inline_loops(lowering.rules.grammar(Rule(text))))
    if pruned is None:
        raise refusal("no text can be written that a lexer reads as the rules say", "Separate the terminals.")
    _check(source, pruned, lowering.names)
    return replace(pruned, is_client_grammar=True)


class _LarkLowering:
    """Lowers one grammar; `names` has the rule of the grammar that each of our rules stands for."""

    def __init__(self, source: LarkSource, write: WriteTexts) -> None:
        self.rules = RuleTable()
        self.names: dict[str, str] = {}
        self._source = source
        self._writer = write(self.rules)
        self._terminals = read_terminals(source)
        competitors = find_competitors(source)
        comparable = over_one_alphabet(self._terminals)
        forbidden = forbidden_next(comparable, competitors)
        self._borders = {name: Border(characters) for name, characters in forbidden.items()}
        self._reserved = reserved_keywords(comparable, competitors)
        self._first = {name: terminal.written.first for name, terminal in self._terminals.items()}
        self._ends = _Ends(source, self._borders)
        self._refs: dict[tuple[str, Border, Border], RuleRef] = {}
        self._texts: dict[tuple[str, Ranges, tuple[str, ...]], Expr | None] = {}
        self._apart: dict[tuple[str, tuple[str, ...]], Dfa] = {}

    def text(self) -> Expr | None:
        """A whole text; None if there is none."""
        ends = self._ends.of(START, _BEGINNING)
        rule = union([self._rule(START, _BEGINNING, end) for end in ends])
        pending = list(self._refs)
        for key in pending:
            name, begin, end = key
            alternatives = [self._sequence(symbols, begin, end) for symbols in self._source.rules[name]]
            body = union(alternatives)
            # A rule without texts refers to itself, and is pruned.
            self.rules.fill(self._refs[key], Rule(self._refs[key] if body is None else body))
            pending += list(self._refs)[len(pending) :]
        return rule

    def _rule(self, name: str, begin: Border, end: Border) -> RuleRef:
        """The texts of a rule between two borders."""
        key = name, begin, end
        if key not in self._refs:
            if len(self._refs) >= MAX_RULES:
                raise refusal("its terminals touch in too many ways", "Put separators between them.")
            self._refs[key] = self.rules.reserve(f"l_{name}")
            self.names[self._refs[key].name] = name
        return self._refs[key]

    def _sequence(self, symbols: SymbolSequence, begin: Border, end: Border) -> Expr | None:
        """The texts of some symbols between two borders; None if there are none.

        The borders between the symbols are found from the first to the last, the texts from the last to the
        first: each is found once, however many ways lead to it. If what follows a rule is long, it gets a
        rule of its own, which several alternatives share.
        """
        begins: list[Iterable[Border]] = [(begin,)]
        for symbol in symbols:
            begins.append(self._ends.after((symbol,), begins[-1]))
        following: dict[Border, Expr] = {border: EMPTY for border in begins.pop() if border == end}
        for index in reversed(range(len(symbols))):
            texts = {border: self._before(following, symbols[index], border) for border in begins.pop()}
            following = {border: text for border, text in texts.items() if text is not None}
            if index and not symbols[index - 1].is_terminal and len(symbols) - index > 1:
                following = {b: self.rules.define("rest", Rule(text)) for b, text in following.items()}
        return following.get(begin)

    def _before(self, following: Mapping[Border, Expr], symbol: Symbol, begin: Border) -> Expr | None:
        """The texts of a symbol after a border, each before one of those that may follow, by border."""
        if symbol.is_terminal:
            rest = following.get(self._borders[symbol.name])
            return None if rest is None else concat(self._token(symbol, begin), rest)
        ends = [border for border in self._ends.of(symbol.name, begin) if border in following]
        return union([concat(self._rule(symbol.name, begin, end), following[end]) for end in ends])

    def _token(self, terminal: Symbol, begin: Border) -> Expr | None:
        """A terminal after a border, with or without ignored text before it."""
        options = [self._text(terminal, begin.forbidden)]
        if not begin.is_beginning:
            for name in self._source.ignored:
                ignored = self._text(Symbol(name, is_terminal=True), begin.forbidden)
                options.append(concat(ignored, self._text(terminal, self._borders[name].forbidden)))
        token = union(options)
        return token if token is None or len(options) == 1 else self.rules.define("token", Rule(token))

    def _text(self, terminal: Symbol, forbidden: Ranges) -> Expr | None:
        """The texts of a terminal at its place that begin with none of some characters."""
        reserved = self._reserved.get(terminal, ())
        # Most terminals begin with none of them, and are the same after most borders.
        excluded = intersection(forbidden, self._first[terminal.name])
        key = terminal.name, excluded, reserved
        if key not in self._texts:
            self._texts[key] = self._lowered(*key)
        return self._texts[key]

    def _lowered(self, name: str, excluded: Ranges, reserved: tuple[str, ...]) -> Expr | None:
        try:
            texts = self._apart_from(name, reserved)
            return self._written(name, beginning_outside(texts, excluded) if excluded else texts)
        except TooManyStates as error:
            raise self._source.refusal(name, str(error), "Simplify it.") from error

    def _apart_from(self, name: str, keywords: tuple[str, ...]) -> Dfa:
        """The texts of a terminal that are none of some keywords'."""
        if (name, keywords) not in self._apart:
            lexed = [self._terminals[keyword].lexed for keyword in keywords]
            self._apart[name, keywords] = apart_from(self._terminals[name].written, lexed)
        return self._apart[name, keywords]

    def _written(self, name: str, texts: Dfa) -> Expr | None:
        expr = None if texts.is_empty else self._writer.lower_dfa(texts)
        return None if expr is None else self.rules.define(f"t_{name}", Rule(expr))


class _Ends:
    """The borders at which the texts of rules may end, by the border at which they begin."""

    def __init__(self, source: LarkSource, borders: Mapping[str, Border]) -> None:
        self._source = source
        self._borders = borders
        self._ends: dict[tuple[str, Border], dict[Border, None]] = {}

    def of(self, name: str, begin: Border) -> tuple[Border, ...]:
        """The borders after a rule."""
        if (name, begin) not in self._ends:
            self._explore(name, begin)
        return tuple(self._ends[name, begin])

    def after(self, symbols: Iterable[Symbol], begins: Iterable[Border]) -> dict[Border, None]:
        """The borders after some symbols that begin at one of some borders, as far as they are known."""
        borders = dict.fromkeys(begins)
        for symbol in symbols:
            if symbol.is_terminal:
                borders = {self._borders[symbol.name]: None} if borders else {}
            else:
                borders = {end: None for border in borders for end in self._known(symbol.name, border)}
        return borders

    def _known(self, name: str, begin: Border) -> dict[Border, None]:
        return self._ends.setdefault((name, begin), {})

    def _explore(self, name: str, begin: Border) -> None:
        """Find the ends of a rule, and of all that it needs: again and again, until nothing is new."""
        self._known(name, begin)
        while True:
            before = {key: len(ends) for key, ends in self._ends.items()}
            for other, border in list(self._ends):
                for expansion in self._source.rules[other]:
                    self._ends[other, border].update(self.after(expansion, (border,)))
            if {key: len(ends) for key, ends in self._ends.items()} == before:
                return


def _check(source: LarkSource, grammar: Grammar, names: Mapping[str, str]) -> None:
    """Refuse what would be slow to follow or to complete, as in grammars in EBNF."""
    shortest = ShortestSentences(grammar)
    rule = doubly_recursive(grammar, shortest)
    if rule is not None:
        reason = "has texts that may begin and end with texts of the same rule"
        advice = 'Recurse on one side only, as in `e: t ("+" t)*`, and do not repeat what may be empty.'
        raise source.refusal(names.get(rule, START), reason, advice)
    rule, num_parts = most_nullable_in_a_row(grammar, shortest)
    if num_parts > MAX_IN_A_ROW:
        reason = "has too many parts in a row that may be empty"
        raise source.refusal(names.get(rule, START), reason, "Write one loop instead of several.")
    if shortest.length(RuleRef(grammar.root)) > MAX_SHORTEST_BYTES:
        raise refusal(f"its shortest text has more than {MAX_SHORTEST_BYTES} bytes", "Lower its counts.")
