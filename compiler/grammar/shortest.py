"""Shortest sentences: how little text a rule or an expression of a grammar needs."""

import heapq

from compiler.grammar.grammar import (
    CharClass,
    Choice,
    Concatenation,
    Expr,
    Grammar,
    GuardedText,
    Literal,
    Prose,
    Repeat,
    RuleRef,
    options_of,
    subexpressions,
)

NEVER = 1 << 60
"""The cost of an expression that has no finite sentence; other costs are lower."""


class ShortestSentences:
    """The shortest sentences of one grammar's rules and expressions; immutable once built.

    A sentence costs its bytes, and `per_call` more for each reference to a rule.
    """

    def __init__(self, grammar: Grammar, *, per_call: float = 0) -> None:
        self._per_call = per_call
        self._final: dict[str, float] = {}
        self._find(grammar)

    def of(self, expr: Expr) -> float:  # noqa: PLR0911 - one case per kind of expression
        """The cost of an expression's cheapest sentence; `NEVER` or more if it has none."""
        match expr:  # patterns with arguments would take half as long again
            case Literal():
                return len(expr.text.encode())
            case RuleRef():
                return self._final[expr.name] + self._per_call if expr.name in self._final else NEVER
            case Concatenation():
                return min(NEVER, sum(map(self.of, expr.items)))
            case Choice():
                return min(map(self.of, expr.options))
            case CharClass():
                return _width(expr.ranges[0][0])
            case Repeat():
                return expr.low * _width(expr.item.ranges[0][0])
            case Prose():
                return 0
            case GuardedText():
                return expr.automaton.byte_distance[0] + 1

    def length(self, expr: Expr) -> int:
        """Bytes of an expression's shortest sentence; `NEVER` or more if it has none."""
        return int(self.of(expr))

    def _find(self, grammar: Grammar) -> None:
        """Find the costs of the rules, the cheapest first; a rule's cost depends only on cheaper ones.

        Donald E. Knuth, "A generalization of Dijkstra's algorithm", Information Processing Letters 6 (1977).
        """
        users: dict[str, list[tuple[str, Expr]]] = {name: [] for name in grammar.rules}
        """The options of rules that refer to a rule: only these get cheaper when its cost is found."""
        for name, rule in grammar.rules.items():
            for option in options_of(rule.body):
                for used in {part.name for part in subexpressions(option) if isinstance(part, RuleRef)}:
                    users[used].append((name, option))
        sentences = [(self.of(rule.body), name) for name, rule in grammar.rules.items()]
        heap = [entry for entry in sentences if entry[0] < NEVER]
        heapq.heapify(heap)
        while heap:
            cost, name = heapq.heappop(heap)
            if name in self._final:
                continue
            self._final[name] = cost
            for user, option in users[name]:
                if user not in self._final and (cost := self.of(option)) < NEVER:
                    heapq.heappush(heap, (cost, user))


def _width(code: int) -> int:
    """The number of bytes of a code point in UTF-8."""
    return 1 + (code >= 0x80) + (code >= 0x800) + (code >= 0x10000)
