"""Unbounded ambiguity, which makes parsing slower and slower.

If the texts of a rule may begin and end with texts of the same rule (`e ::= e "+" e`), a text can be split in
as many ways as it has operators: parsing one byte then takes time that grows with the square of what was
read. Many nullable parts in a row (`x* x* x*`), each of which may be left out or repeated, have the same
effect.
"""

from collections.abc import Iterable, Mapping

from compiler.digraph import reachable
from compiler.grammar.grammar import EMPTY, Choice, Concatenation, Expr, Grammar, RuleRef, subexpressions
from compiler.grammar.shortest import ShortestSentences

LOOP = 8
"""How many nullable parts a loop counts for."""

_Graph = Mapping[str, tuple[str, ...]]


def doubly_recursive(grammar: Grammar, shortest: ShortestSentences) -> str | None:
    """A rule that is both left- and right-recursive once nullable parts are skipped, if there is one."""
    at_start = {name: _first(rule.body, shortest, 1) for name, rule in grammar.rules.items()}
    at_end = {name: _first(rule.body, shortest, -1) for name, rule in grammar.rules.items()}
    both = (name for name in grammar.rules if _leads_back(name, at_end) and _leads_back(name, at_start))
    return next(both, None)


def most_nullable_in_a_row(grammar: Grammar, shortest: ShortestSentences) -> tuple[str, int]:
    """The rule with the most nullable parts in a row, and their number; a loop counts as `LOOP`."""
    rows = _Rows(grammar, shortest)
    longest = {name: rows.longest(rule.body) for name, rule in grammar.rules.items()}
    return max(longest.items(), key=lambda pair: pair[1])


class _Rows:
    """Counts nullable parts in a row: parts that admit the empty text."""

    def __init__(self, grammar: Grammar, shortest: ShortestSentences) -> None:
        self._rules = grammar.rules
        self._shortest = shortest
        self._counts: dict[str, int] = {}

    def longest(self, expr: Expr) -> int:
        """The length of the longest row in any concatenation of an expression."""
        rows = [0]
        for part in subexpressions(expr):
            rows.append(0)
            for item in part.items if isinstance(part, Concatenation) else ():
                rows.append(0 if self._shortest.length(item) else rows[-1] + self._count(item))
        return max(rows)

    def _count(self, expr: Expr) -> int:
        """The number of nullable parts of a nullable expression."""
        match expr:
            case RuleRef(name):
                return self._count_rule(name)
            case Choice(options):
                return max(self._count(option) for option in options if not self._shortest.length(option))
            case Concatenation(items):
                return sum(map(self._count, items))
            case _:
                return int(expr != EMPTY)

    def _count_rule(self, name: str) -> int:
        if name not in self._counts:
            self._counts[name] = LOOP  # where it is recursive
            body = self._rules[name].body
            if RuleRef(name) not in subexpressions(body):
                self._counts[name] = max(1, self._count(body))
        return self._counts[name]


def _first(expr: Expr, shortest: ShortestSentences, direction: int) -> tuple[str, ...]:
    """The rules with which texts of an expression may begin, or (`direction` -1) end."""
    match expr:
        case RuleRef(name):
            return (name,)
        case Choice(options):
            return _joined(_first(option, shortest, direction) for option in options)
        case Concatenation(items):
            firsts = []
            for item in items[::direction]:
                firsts.append(_first(item, shortest, direction))
                if shortest.length(item):
                    break
            return _joined(firsts)
        case _:
            return ()


def _joined(parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in parts for name in part))


def _leads_back(start: str, graph: _Graph) -> bool:
    return start in reachable(graph[start], graph.__getitem__)
