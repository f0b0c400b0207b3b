"""Recursion at both ends of a rule, which makes a grammar ambiguous and reading by it slow.

A rule whose texts may begin with one of its own and end with one (`e ::= e "+" e`) splits a text in as many
ways as it has places to: reading a byte then takes time that grows with the square of what was read.
"""

from collections.abc import Iterable, Mapping

from compiler.grammar import Choice, Expr, Grammar, RuleRef, Sequence
from compiler.shortest import Shortest

_Graph = Mapping[str, tuple[str, ...]]


def doubly_recursive(grammar: Grammar, shortest: Shortest) -> str | None:
    """A rule whose texts may both begin and end with one of its own, parts that may be empty aside."""
    at_start = {name: _first(rule.body, shortest, 1) for name, rule in grammar.rules.items()}
    at_end = {name: _first(rule.body, shortest, -1) for name, rule in grammar.rules.items()}
    both = (name for name in grammar.rules if _leads_back(name, at_end) and _leads_back(name, at_start))
    return next(both, None)


def _first(expr: Expr, shortest: Shortest, direction: int) -> tuple[str, ...]:
    """The rules that may stand first in an expression, or (`direction` -1) last."""
    match expr:
        case RuleRef(name):
            return (name,)
        case Choice(options):
            return _joined(_first(option, shortest, direction) for option in options)
        case Sequence(items):
            found = []
            for item in items[::direction]:
                found.append(_first(item, shortest, direction))
                if shortest.length(item):
                    break
            return _joined(found)
        case _:
            return ()


def _joined(parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in parts for name in part))


def _leads_back(start: str, graph: _Graph) -> bool:
    pending, seen = [start], set[str]()
    while pending:
        for name in graph[pending.pop()]:
            if name == start:
                return True
            if name not in seen:
                seen.add(name)
                pending.append(name)
    return False
