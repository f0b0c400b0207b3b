"""Shortest sentences: how little text completes a rule of a grammar, and how fast that can grow."""

import heapq
from collections.abc import Iterator

from compiler.grammar.grammar import (
    CharClass,
    Choice,
    Concatenation,
    Expr,
    Grammar,
    Literal,
    Prose,
    Repeat,
    RuleRef,
    subexpressions,
)

MAX_CONTINUATION = 3
"""Bytes that the first byte of a character may ask for."""


class ShortestSentences:
    """The shortest sentences of one grammar's rules and expressions; immutable once built."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self._costs = Costs(grammar)
        self.growth = _Growth(self).largest() + MAX_CONTINUATION
        """The most bytes by which one more byte can make what completes a sentence longer."""

    def length(self, expr: Expr) -> int:
        """Bytes of the shortest sentence of an expression; `NEVER` if it has none."""
        return int(self._costs.of(expr))


class _Growth:
    """What is to be written, at most, once it is decided how an expression begins.

    Only that decision makes completions longer: it may settle for an option that is not the shortest.
    """

    def __init__(self, shortest: ShortestSentences) -> None:
        self._shortest = shortest
        self._rules = shortest.grammar.rules
        self._begun: dict[str, int] = {}

    def largest(self) -> int:
        """Over every expression of the grammar: what the worst beginning leaves over what the best does."""
        for name in self._rules:
            self._settle(name)
        bodies = (part for rule in self._rules.values() for part in subexpressions(rule.body))
        return max(self._longest(part) - self._shortest.length(part) for part in bodies)

    def _settle(self, name: str) -> None:
        """A rule after the rules that its sentences may begin with; a left recursion counts once."""
        todo, entered = [name], set[str]()
        while todo:
            last = todo[-1]
            if last in self._begun:
                todo.pop()
                continue
            open_rules = [r for r in self._corners(self._rules[last].body) if r not in self._begun]
            if last not in entered:
                entered.add(last)
                todo += (rule for rule in open_rules if rule not in entered)
            if todo[-1] == last:
                self._begun[last] = self._longest(self._rules[last].body)

    def _corners(self, expr: Expr) -> Iterator[str]:
        match expr:
            case RuleRef(name):
                yield name
            case Choice(options):
                for option in options:
                    yield from self._corners(option)
            case Concatenation(items):
                for item in items:
                    yield from self._corners(item)
                    if self._shortest.length(item):
                        return

    def _longest(self, expr: Expr) -> int:
        match expr:
            case RuleRef(name):
                return self._begun.get(name, 0)
            case Choice(options):
                return max(map(self._longest, options))
            case Repeat(item, low, _):
                return max(low, 1) * width(chr(item.ranges[0][0]))
            case Concatenation(items):
                return self._longest_of(items)
            case _:
                return self._shortest.length(expr)

    def _longest_of(self, items: tuple[Expr, ...]) -> int:
        rest = sum(map(self._shortest.length, items))
        longest = 0
        for item in items:
            length = self._shortest.length(item)
            rest -= length
            longest = max(longest, self._longest(item) + rest)
            if length:
                break
        return longest


NEVER = 1 << 60
"""The cost of what has no finite sentence, or more."""


class Costs:
    """The costs of one grammar's rules and expressions; immutable once built.

    A rule costs `per_call` more where it is referred to.
    """

    def __init__(self, grammar: Grammar, *, per_call: float = 0) -> None:
        self._per_call = per_call
        self._final: dict[str, float] = {}
        self._find(grammar)

    def of(self, expr: Expr) -> float:  # noqa: PLR0911 - one case per kind of expression
        """The cost of an expression's cheapest sentence; `NEVER` or more if it has none."""
        match expr:
            case Literal(text):
                return len(text.encode())
            case CharClass(ranges):
                return width(chr(ranges[0][0]))
            case Repeat(item, low, _):
                return low * width(chr(item.ranges[0][0]))
            case Concatenation(items):
                return min(NEVER, sum(map(self.of, items)))
            case Choice(options):
                return min(map(self.of, options))
            case RuleRef(name):
                return self._final[name] + self._per_call if name in self._final else NEVER
            case Prose():
                return 0

    def _find(self, grammar: Grammar) -> None:
        """The rules in the order of their costs, each found from those before it."""
        users: dict[str, set[str]] = {name: set() for name in grammar.rules}
        for name, rule in grammar.rules.items():
            for part in subexpressions(rule.body):
                if isinstance(part, RuleRef):
                    users[part.name].add(name)
        found = [(self.of(rule.body), name) for name, rule in grammar.rules.items()]
        heap = [entry for entry in found if entry[0] < NEVER]
        heapq.heapify(heap)
        while heap:
            cost, name = heapq.heappop(heap)
            if name in self._final:
                continue
            self._final[name] = cost
            for user in users[name] - self._final.keys():
                cost = self.of(grammar.rules[user].body)
                if cost < NEVER:
                    heapq.heappush(heap, (cost, user))


def width(char: str) -> int:
    """Bytes of a character in UTF-8."""
    code = ord(char)
    return 1 + (code >= 0x80) + (code >= 0x800) + (code >= 0x10000)
