"""Pruning: what no finite text can complete, and what nothing refers to, leaves the grammar."""

from collections.abc import Callable, Iterator, Mapping

from compiler.grammar import Choice, Expr, Grammar, Repeat, Rule, RuleRef, Sequence, choice, sequence


def prune(grammar: Grammar) -> Grammar | None:
    """The same language without dead rules; None if it is empty."""
    productive: set[str] = set()
    waiting = dict(grammar.rules)
    while True:
        found = {name for name, rule in waiting.items() if _is_productive(rule.body, productive.__contains__)}
        if not found:
            break
        productive |= found
        for name in found:
            del waiting[name]
    if grammar.root not in productive:
        return None
    live = {
        name: Rule(_without_dead(rule.body, productive), rule.lookahead)
        for name, rule in grammar.rules.items()
        if name in productive
    }
    return Grammar({name: live[name] for name in _reachable(live, grammar.root)}, grammar.root)


def _is_productive(expr: Expr, known: Callable[[str], bool]) -> bool:
    match expr:
        case RuleRef(name):
            return known(name)
        case Sequence(items):
            return all(_is_productive(item, known) for item in items)
        case Choice(options):
            return any(_is_productive(option, known) for option in options)
        case _:
            return True


def _without_dead(expr: Expr, productive: set[str]) -> Expr:
    match expr:
        case Choice(options):
            live = [o for o in options if _is_productive(o, productive.__contains__)]
            return choice(*(_without_dead(option, productive) for option in live))
        case Sequence(items):
            return sequence(*(_without_dead(item, productive) for item in items))
        case _:
            return expr


def _reachable(rules: Mapping[str, Rule], root: str) -> list[str]:
    """Rule names in the order in which a reader meets them."""
    found: dict[str, None] = {}
    stack = [root]
    while stack:
        name = stack.pop()
        if name not in found:
            found[name] = None
            rule = rules[name]
            stack += reversed(list(_references(rule.body)))
            if isinstance(rule.lookahead, RuleRef):
                stack.append(rule.lookahead.name)
    return list(found)


def _references(expr: Expr) -> Iterator[str]:
    match expr:
        case RuleRef(name):
            yield name
        case Sequence(items):
            for item in items:
                yield from _references(item)
        case Choice(options):
            for option in options:
                yield from _references(option)
        case Repeat():
            return
