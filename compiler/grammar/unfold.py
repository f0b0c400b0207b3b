"""Unfolding: what a loop repeats, written out in the loop itself.

Where a loop calls a rule for every round, the engine cannot tell in advance which tokens fit across its end
and tries most of the vocabulary: 100 ms a mask for the characters of a string, 0.1 ms written out.
"""

from collections.abc import Iterator, Mapping
from itertools import islice

from compiler.grammar.grammar import Choice, Concatenation, Expr, Grammar, Rule, RuleRef, choice, concat

_MAX_DEPTH = 4
_MAX_OPTIONS = 64


def unfolded(grammar: Grammar) -> Grammar:
    """The same language; rules that nothing refers to any more are still there."""
    rules = {name: Rule(_unfold(name, rule.body, grammar.rules)) for name, rule in grammar.rules.items()}
    return Grammar(rules, grammar.root, grammar.plan)


def _unfold(name: str, body: Expr, rules: Mapping[str, Rule]) -> Expr:
    again = RuleRef(name)
    found: list[Expr] = []
    for option in body.options if isinstance(body, Choice) else (body,):
        match option:
            case Concatenation((RuleRef() as item, RuleRef() as last)) if last == again != item:
                parts = islice(_alternatives(item, rules, _MAX_DEPTH), _MAX_OPTIONS + 1)
                found += [concat(part, again) for part in parts]
            case _:
                found.append(option)
    return choice(*found) if len(found) <= _MAX_OPTIONS else body


def _alternatives(expr: Expr, rules: Mapping[str, Rule], depth: int) -> Iterator[Expr]:
    match expr:
        case RuleRef(name) if depth:
            yield from _alternatives(rules[name].body, rules, depth - 1)
        case Choice(options):
            for option in options:
                yield from _alternatives(option, rules, depth)
        case _:
            yield expr
