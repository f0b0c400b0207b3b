"""Joining: one rule for all texts that are equal, also where rules refer to themselves or to one another.

Two rules are equal if their expressions differ only in the names of rules, and these rules are equal in
turn. Then they have the same texts: what a rule derives in some steps, an equal one derives in as many. Of
`root ::= a b`, `a ::= "x" a | ""`, `b ::= "x" b | ""` it makes `root ::= a a`, `a ::= "x" a | ""`.

Rules get the numbers of their classes from the innermost ones outward, and a number stands for an expression
with the numbers of what it refers to. Rules that refer to one another have numbers only together: they are
divided by what they are without these references, then again and again by the classes of what they refer to,
until no class is divided any more (Moore's algorithm for automata, 1956). Two such cycles are equal if they
end with the same classes.

Only rules with a lookahead are joined. Of others xgrammar finds out what follows them if they stand at one
place; of a rule that stands at several places it would not know, and masks would take longer.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from compiler.digraph import strongly_connected_components
from compiler.grammar.grammar import (
    CharClass,
    Choice,
    Concatenation,
    Expr,
    Grammar,
    GuardedText,
    Rule,
    RuleRef,
)

_MAX_ROUNDS = 40
"""How often rules are divided into classes; rules that would need more rounds stay apart."""
_ExprT = TypeVar("_ExprT", Expr, CharClass | RuleRef)


def with_joined_rules(grammar: Grammar) -> Grammar:
    """The grammar with one rule for all with a lookahead that are equal."""
    classes = _Classes(grammar.rules).of_rules()
    first = {classes[grammar.root]: grammar.root}
    for name in grammar.rules:
        first.setdefault(classes[name], name)
    if len(first) == len(grammar.rules):
        return grammar
    names = {name: RuleRef(first[number]) for name, number in classes.items()}
    rules = {
        name: Rule(_renamed(rule.body, names), rule.lookahead and _renamed(rule.lookahead, names))
        for name, rule in grammar.rules.items()
        if names[name].name == name
    }
    return replace(grammar, rules=rules)


class _Classes:
    """The classes of equal rules of a grammar, by number."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._shapes: dict[str, int] = {}
        self._references: dict[str, list[str]] = {}
        for name, rule in rules.items():
            names: list[str] = []
            shape: Hashable = name
            if rule.lookahead is not None:
                shape = _shape(rule.body, names), _shape(rule.lookahead, names)
            self._shapes[name], self._references[name] = self._number(shape), names
        self._classes: dict[str, int] = {}

    def of_rules(self) -> Mapping[str, int]:
        """The number of the class of each rule."""
        for component in reversed(strongly_connected_components(self._references)):  # the innermost first
            if len(component) == 1:
                self._classes |= self._divided(component, {})
            else:
                self._classes |= self._of_cycle(component)
        return self._classes

    def _of_cycle(self, cycle: set[str]) -> Mapping[str, int]:
        """The classes of rules that refer to one another."""
        classes, num_classes = self._divided(cycle, {}), 0
        for _ in range(_MAX_ROUNDS):
            num_before, num_classes = num_classes, len(set(classes.values()))
            if num_before == num_classes:
                together = frozenset(classes.values())
                return {name: self._number((number, together)) for name, number in classes.items()}
            classes = self._divided(cycle, classes)
        return {name: self._number(name) for name in cycle}

    def _divided(self, component: Iterable[str], classes: Mapping[str, int]) -> dict[str, int]:
        """Rules divided by what they are and by the classes of what they refer to, -1 where not known."""
        return {
            name: self._number(
                (
                    self._shapes[name],
                    classes.get(name, -1),
                    *(self._classes.get(other, classes.get(other, -1)) for other in self._references[name]),
                )
            )
            for name in component
        }

    def _number(self, value: Hashable) -> int:
        return self._numbers.setdefault(value, len(self._numbers))


def _shape(expr: Expr, references: list[str]) -> Hashable:
    """An expression without the names of rules, which are added to `references` in their order."""
    match expr:
        case RuleRef(name):
            references.append(name)
            return RuleRef
        case GuardedText(automaton, RuleRef(name)):
            references.append(name)
            return GuardedText, automaton
        case Concatenation(items) | Choice(items):
            return (type(expr), *(_shape(item, references) for item in items))
        case _:
            return expr


def _renamed(expr: _ExprT, names: Mapping[str, RuleRef]) -> _ExprT:
    match expr:
        case RuleRef(name):
            return names[name]
        case GuardedText(automaton, RuleRef(name)):
            return GuardedText(automaton, names[name])
        case Concatenation(items):
            return Concatenation(tuple(_renamed(item, names) for item in items))
        case Choice(options):
            return Choice(tuple(_renamed(option, names) for option in options))
        case _:
            return expr
