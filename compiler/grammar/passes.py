"""Passes over a grammar: pruning and inlining. They do not change its language.

Pruning removes unproductive rules, which no finite text completes, and unreachable ones. Inlining writes the
alternatives of a rule that a loop repeats into the loop itself: where a loop refers to a rule in every round,
xgrammar cannot know in advance which tokens fit across the end of the rule and tries most of the vocabulary.
For the characters of a string a mask takes 100 ms with the reference and 0.1 ms without.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import chain, islice

from compiler.grammar.grammar import (
    Choice,
    Concatenation,
    Expr,
    Grammar,
    Rule,
    RuleRef,
    choice,
    concat,
    options_of,
)

_MAX_DEPTH = 4
"""The most rules inside one another that are inlined."""
_MAX_OPTIONS = 64


def prune(grammar: Grammar) -> Grammar | None:
    """The grammar without unproductive and unreachable rules; None if its language is empty.

    Of `root ::= "a" | x`, `x ::= "b" x` it keeps `root ::= "a"`.
    """
    reached, innermost_first = _orders(grammar.rules, grammar.root)
    productive = _productive(grammar.rules, innermost_first)
    if grammar.root not in productive:
        return None
    if len(productive) == len(reached):
        return replace(grammar, rules={name: grammar.rules[name] for name in reached})
    live = {
        name: Rule(_without_unproductive(grammar.rules[name].body, productive), grammar.rules[name].lookahead)
        for name in productive
    }
    return replace(grammar, rules={name: live[name] for name in _orders(live, grammar.root)[0]})


def _productive(rules: Mapping[str, Rule], innermost_first: list[str]) -> set[str]:
    """The rules that some text completes; only recursive rules are visited more than once."""
    productive: set[str] = set()
    waiting = innermost_first
    while True:
        remaining = []
        for name in waiting:
            rule = rules[name]
            if productive.issuperset(rule.references) or _is_productive(rule.body, productive):
                productive.add(name)
            else:
                remaining.append(name)
        if len(remaining) in (0, len(waiting)):
            return productive
        waiting = remaining


def _is_productive(expr: Expr, productive: AbstractSet[str]) -> bool:
    match expr:
        case RuleRef(name):
            return name in productive
        case Concatenation(items):
            return all(_is_productive(item, productive) for item in items)
        case Choice(options):
            return any(_is_productive(option, productive) for option in options)
        case _:
            return True


def _without_unproductive(expr: Expr, productive: AbstractSet[str]) -> Expr:
    match expr:
        case Choice(options):
            live = [o for o in options if _is_productive(o, productive)]
            return choice(*(_without_unproductive(option, productive) for option in live))
        case Concatenation(items):
            return concat(*(_without_unproductive(item, productive) for item in items))
        case _:
            return expr


def _orders(rules: Mapping[str, Rule], root: str) -> tuple[list[str], list[str]]:
    """The reachable rules in reading order, and in an order that has each rule after those it refers to."""
    met: dict[str, None] = {}
    innermost_first: list[str] = []
    stack = [(root, False)]
    while stack:
        name, is_done = stack.pop()
        if is_done:
            innermost_first.append(name)
        elif name not in met:
            met[name] = None
            stack.append((name, True))
            stack += [(other, False) for other in reversed(rules[name].references) if other not in met]
    return list(met), innermost_first


def inline_single_uses(grammar: Grammar, inlinable: AbstractSet[str]) -> Grammar:
    """The grammar with those of the rules `inlinable` inlined that are referred to once.

    A rule that several others refer to is compiled once. One that is written out where it is used compiles to
    faster masks, because xgrammar knows what follows it.
    """
    counts = Counter(chain.from_iterable([rule.references for rule in grammar.rules.values()]))
    single = {name: grammar.rules[name].body for name in inlinable if counts[name] == 1}
    rules = {
        name: rule
        if single.keys().isdisjoint(rule.references)
        else Rule(_written_out(rule.body, single), rule.lookahead)
        for name, rule in grammar.rules.items()
        if name not in single
    }
    return replace(grammar, rules=rules)


def _written_out(expr: Expr, bodies: Mapping[str, Expr]) -> Expr:
    match expr:
        case RuleRef(name) if name in bodies:
            return _written_out(bodies[name], bodies)
        case Choice(options):
            return choice(*(_written_out(option, bodies) for option in options))
        case Concatenation(items):
            return concat(*(_written_out(item, bodies) for item in items))
        case _:
            return expr


def inline_loops(grammar: Grammar) -> Grammar:
    """The grammar with the rules that loops repeat written into the loops; unreachable rules stay in it.

    Of `root ::= char root | ""`, `char ::= [a-z] | "-"` it makes `root ::= [a-z] root | "-" root | ""`.
    """
    rules = {
        name: Rule(_loop_inlined(name, rule.body, grammar.rules)) for name, rule in grammar.rules.items()
    }
    return replace(grammar, rules=rules)


def _loop_inlined(name: str, body: Expr, rules: Mapping[str, Rule]) -> Expr:
    again = RuleRef(name)
    options: list[Expr] = []
    for option in options_of(body):
        match option:
            case Concatenation((RuleRef() as item, RuleRef() as last)) if last == again != item:
                parts = islice(_alternatives(item, rules, _MAX_DEPTH), _MAX_OPTIONS + 1)
                options += [concat(part, again) for part in parts]
            case _:
                options.append(option)
    return choice(*options) if len(options) <= _MAX_OPTIONS else body


def _alternatives(expr: Expr, rules: Mapping[str, Rule], depth: int) -> Iterator[Expr]:
    match expr:
        case RuleRef(name) if depth:
            yield from _alternatives(rules[name].body, rules, depth - 1)
        case Choice(options):
            for option in options:
                yield from _alternatives(option, rules, depth)
        case _:
            yield expr
