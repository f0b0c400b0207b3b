"""Grammars rewritten so that xgrammar's cache never takes one rule for another. The language stays the same.

xgrammar keeps the masks of a rule for later grammars, by a hash of the rule and of all rules that it refers
to. Rules that refer to one another in more than one cycle have no hash, and neither have rules that refer to
these. With one exception, in xgrammar 0.2.8: if the only such reference stands at the start of an
alternative, it is hashed as an unknown one, whichever rule it names. That hash also stands for the rule where
it follows another one: masks of that other rule are then those of another grammar, too large and too small.

So such a reference is replaced by what it refers to. Then the reference to a rule without a hash no longer
stands at the start, or there are several of them, and the rule has no hash either. Of
`value ::= "null" | node`, `node ::= "[" (node | other) "]"` it makes
`value ::= "null" | "[" (node | other) "]"`.

tests/compiler/test_rule_cache.py shows the fault, and compares masks.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import count

from compiler.digraph import coreachable, strongly_connected_components
from compiler.grammar.grammar import (
    Choice,
    Concatenation,
    Expr,
    Grammar,
    GuardedText,
    Prose,
    Rule,
    RuleRef,
    choice,
    concat,
    items_of,
    options_of,
)

_MAX_DEPTH = 30
"""The most references in a row that are replaced. Without left recursion hardly any grammar has more."""

_Node = str | int
"""The name of a rule; or the number of a choice inside a concatenation, for which xgrammar makes a rule."""


def safe_to_cache(grammar: Grammar) -> Grammar:
    """The grammar without rules that xgrammar's cache would take for others."""
    references = _References(grammar.rules)
    unhashed = references.unhashed()
    if not any(references.is_mistaken(node, unhashed) for node in unhashed):
        return grammar
    named = _NamedChoices(grammar.rules, unhashed)
    rewriting = _Rewriting(named.rules, named.unhashed)
    rewritten = {
        name: Rule(rewriting.rewritten(named.rules[name].body, RuleRef(name)), named.rules[name].lookahead)
        for name in named.unhashed
    }
    return replace(grammar, rules={**named.rules, **rewritten})


class _References:
    """What rules, and the choices nested in them, refer to.

    `options` has, for each option of a rule or choice, the node that each item refers to, None for those that
    refer to none. A nested choice without references is no node.
    """

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self._prose = {name for name, rule in rules.items() if isinstance(rule.body, Prose)}
        self._options: dict[_Node, list[list[_Node | None]]] = {}
        for name, rule in rules.items():
            self._options[name] = self._options_of(rule.body) if rule.references else []
        self._targets = {
            node: {target for option in options for target in option if target is not None}
            for node, options in self._options.items()
        }

    def _options_of(self, body: Expr) -> list[list[_Node | None]]:
        return [[self._node(item) for item in items_of(option)] for option in options_of(body)]

    def _node(self, item: Expr) -> _Node | None:
        match item:
            case RuleRef():
                return item.name
            case GuardedText():
                return item.widened.name
            case Choice():
                options = self._options_of(item)
                if any(target is not None for option in options for target in option):
                    number = len(self._options)
                    self._options[number] = options
                    return number
        return None

    def unhashed(self) -> set[_Node]:
        """The rules that xgrammar cannot hash as a whole, and those that refer to them.

        A rule has a hash if all rules that it refers to have one; it may refer to itself. The rules of a
        cycle have hashes too, if each refers to one rule of the cycle, and otherwise only to rules with a
        hash.
        """
        starts: set[_Node] = {*self._prose}
        for component in strongly_connected_components(self._targets):
            if len(component) > 1 and any(len(component & self._targets[node]) > 1 for node in component):
                starts |= component
        return coreachable(starts, self._targets.items())

    def is_mistaken(self, node: _Node, unhashed: AbstractSet[_Node]) -> bool:
        """Whether the only reference of a rule to one without a hash, itself apart, begins an option."""
        options = self._options[node]
        num_leading = sum(option[0] in unhashed for option in options)
        return num_leading == 1 and not any(
            target in unhashed and target != node for option in options for target in option[1:]
        )


class _NamedChoices:
    """Rules in which the choices inside of concatenations are rules too, as xgrammar makes them.

    Only those are that refer to a rule without a hash. With a name, one that leads back to itself is
    rewritten once. `unhashed` are the names of all rules without a hash, these new ones included.
    """

    def __init__(self, rules: Mapping[str, Rule], unhashed: set[_Node]) -> None:
        self.rules = dict(rules)
        self.unhashed = {name for name in rules if name in unhashed}
        for name, rule in rules.items():
            if name in unhashed:
                self.rules[name] = Rule(self._named(rule.body, name), rule.lookahead)

    def _named(self, body: Expr, name: str) -> Expr:
        """The body of a rule with references to the choices inside it."""
        return choice(*(self._option(option, name) for option in options_of(body)))

    def _option(self, option: Expr, name: str) -> Expr:
        if not isinstance(option, Concatenation):
            return option
        return concat(
            *(
                self._rule(item, name) if isinstance(item, Choice) and self._has_no_hash(item) else item
                for item in option.items
            )
        )

    def _rule(self, inner: Choice, name: str) -> RuleRef:
        inner_name = next(other for n in count(1) if (other := f"{name}_{n}") not in self.rules)
        self.rules[inner_name] = Rule(inner)  # so that the name is taken
        self.rules[inner_name] = Rule(self._named(inner, inner_name))
        self.unhashed.add(inner_name)
        return RuleRef(inner_name)

    def _has_no_hash(self, expr: Expr) -> bool:
        """Whether an item refers to a rule without a hash, or is a choice that does."""
        match expr:
            case RuleRef(name) | GuardedText(_, RuleRef(name)):
                return name in self.unhashed
            case Choice(inner) | Concatenation(inner):
                return any(map(self._has_no_hash, inner))
        return False


class _Rewriting:
    def __init__(self, rules: Mapping[str, Rule], unhashed: AbstractSet[str]) -> None:
        self._rules = rules
        self._unhashed = unhashed

    def rewritten(self, body: Expr, itself: RuleRef) -> Expr:
        """A body whose only reference to a rule without a hash is not at a start.

        References to the rule itself do not count.
        """
        options = list(options_of(body))
        for _ in range(_MAX_DEPTH):
            leading = [i for i, option in enumerate(options) if self._is_unhashed(items_of(option)[0])]
            inner = (item for option in options for item in items_of(option)[1:] if item != itself)
            if len(leading) != 1 or any(map(self._is_unhashed, inner)):
                break
            first, *rest = items_of(options[leading[0]])
            options[leading[0] : leading[0] + 1] = [
                concat(part, *rest) for part in options_of(self._body(first))
            ]
        return choice(*options)

    def _body(self, expr: Expr) -> Expr:
        return self._rules[expr.name].body if isinstance(expr, RuleRef) else expr

    def _is_unhashed(self, expr: Expr) -> bool:
        """Whether an item refers to a rule without a hash."""
        match expr:
            case RuleRef(name) | GuardedText(_, RuleRef(name)):
                return name in self._unhashed
        return False
