r"""Grammars rewritten so that xgrammar's cache never takes one rule for another. The language stays the same.

xgrammar keeps the masks of a rule for later grammars, by a hash of the rule and of all rules that it refers
to. Rules that refer to one another in more than one cycle have no hash, and neither have rules that refer to
these. With one exception, in xgrammar 0.2.8: if the only such reference stands at the start of an
alternative, it is hashed as an unknown one, whichever rule it names. That hash also stands for the rule where
it follows another one: masks of that other rule are then those of another grammar, too large and too small.

So such a rule gets another alternative, which no text fits and which has the reference elsewhere: the rule
then has no hash either. Of `value ::= "null" | node` it makes
`value ::= "null" | node | [^\u0000-\U0010ffff]{1000} node`.

tests/compiler/test_rule_cache.py shows the fault, and compares masks.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from compiler.digraph import coreachable, strongly_connected_components
from compiler.grammar.grammar import (
    NOTHING,
    Choice,
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

_Node = str | int
"""The name of a rule; or the number of a choice inside a concatenation, for which xgrammar makes a rule."""


def safe_to_cache(grammar: Grammar) -> Grammar:
    """The grammar without rules that xgrammar's cache would take for others."""
    unhashed = _unhashed(grammar.rules)
    rewriting = _Rewriting(unhashed)
    rewritten = {}
    for name, rule in grammar.rules.items():
        if name not in unhashed:
            continue
        if (body := rewriting.rewritten(rule.body, RuleRef(name))) != rule.body:
            rewritten[name] = Rule(body, rule.lookahead)
    return replace(grammar, rules={**grammar.rules, **rewritten}) if rewritten else grammar


class _Rewriting:
    def __init__(self, unhashed: AbstractSet[_Node]) -> None:
        self._unhashed = unhashed

    def rewritten(self, body: Expr, itself: RuleRef | None = None) -> Expr:
        """A body whose only reference to a rule without a hash is not at a start.

        References to the rule itself do not count.
        """
        options = list(map(self._option, options_of(body)))
        leading = [items_of(option)[0] for option in options if self._has_no_hash(items_of(option)[0])]
        inner = (item for option in options for item in items_of(option)[1:] if item != itself)
        if len(leading) == 1 and not any(map(self._has_no_hash, inner)):
            options.append(concat(NOTHING, leading[0]))
        return choice(*options)

    def _option(self, option: Expr) -> Expr:
        """An option with the choices inside it rewritten, since xgrammar makes rules of them."""
        items = items_of(option)
        if not any(isinstance(item, Choice) and self._has_no_hash(item) for item in items):
            return option
        return concat(*(self.rewritten(item) if isinstance(item, Choice) else item for item in items))

    def _has_no_hash(self, item: Expr) -> bool:
        """Whether an item refers to a rule without a hash, or is a choice that does."""
        match item:
            case RuleRef(name) | GuardedText(_, RuleRef(name)):
                return name in self._unhashed
            case Choice(options):
                return any(self._has_no_hash(inner) for option in options for inner in items_of(option))
        return False


def _unhashed(rules: Mapping[str, Rule]) -> set[_Node]:
    """The rules that xgrammar cannot hash as a whole, and those that refer to them.

    A rule has a hash if all rules that it refers to have one; it may refer to itself. The rules of a cycle
    have hashes too, if each refers to one rule of the cycle, and otherwise only to rules with a hash.
    """
    references = _references(rules)
    starts: set[_Node] = {name for name, rule in rules.items() if isinstance(rule.body, Prose)}
    for component in strongly_connected_components(references):
        if len(component) > 1 and any(len(component & references[node]) > 1 for node in component):
            starts |= component
    return coreachable(starts, references.items())


def _references(rules: Mapping[str, Rule]) -> dict[_Node, set[_Node]]:
    """What each rule, and each choice nested in one that refers to any, refers to."""
    references: dict[_Node, set[_Node]] = {}

    def targets(body: Expr) -> set[_Node]:
        found: set[_Node] = set()
        for option in options_of(body):
            for item in items_of(option):
                match item:
                    case RuleRef():
                        found.add(item.name)
                    case GuardedText():
                        found.add(item.widened.name)
                    case Choice() if inner := targets(item):
                        number = len(references)
                        references[number] = inner
                        found.add(number)
        return found

    for name, rule in rules.items():
        references[name] = targets(rule.body) if rule.references else set()
    return references
