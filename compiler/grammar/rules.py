"""The rules of a grammar while it is being written."""

import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

from compiler.grammar.grammar import Choice, Concatenation, Expr, Grammar, Rule, RuleRef
from compiler.guard.plan import GuardPlan

_MAX_HINT = 32
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]+")
_RESERVED = ("true", "false")  # in xgrammar's EBNF, with all names that begin with a capital


class RuleTable:
    """The rules of a grammar by name. A hint becomes a valid, unique name.

    Equal rules share one name.

    >>> table = RuleTable()
    >>> table.define("a part", Rule(RuleRef("b"))), table.define("other", Rule(RuleRef("b")))
    (RuleRef(name='a_part'), RuleRef(name='a_part'))
    """

    def __init__(self) -> None:
        self._rules: dict[str, Rule | None] = {}
        self._names: dict[Rule, RuleRef] = {}
        self._next: dict[str, int] = {}
        self._shared: dict[str, RuleRef] = {}
        self._inlinable: set[str] = set()

    @property
    def rules(self) -> Mapping[str, Rule]:
        """Every rule so far, in the order in which they were named."""
        assert all(rule is not None for rule in self._rules.values()), "a reserved rule was never filled"
        return {name: rule for name, rule in self._rules.items() if rule is not None}

    def define(self, hint: str, rule: Rule) -> RuleRef:
        """A reference to `rule`; equal rules share one name."""
        if (known := self._names.get(rule)) is not None:
            return known
        ref = self.reserve(hint)
        self.fill(ref, rule)
        self._names[rule] = ref
        return ref

    def inlinable(self, expr: Expr) -> Expr:
        """A reference to the rule of a member, if it is a choice or concatenation; else the expression.

        `inline_single_uses` inlines the rule again if nothing else refers to it.
        """
        if not isinstance(expr, Choice | Concatenation):
            return expr
        ref = self.define("member", Rule(expr))
        self._inlinable.add(ref.name)
        return ref

    def reserve(self, hint: str) -> RuleRef:
        """A reference to a rule that `fill` defines later, for rules that refer to themselves."""
        name = self._unique(hint)
        self._rules[name] = None
        return RuleRef(name)

    def fill(self, ref: RuleRef, rule: Rule) -> None:
        """Define a reserved rule, once."""
        assert self._rules.get(ref.name, rule) is None, f"{ref.name} is not a reserved rule"
        self._rules[ref.name] = rule

    def refill(self, ref: RuleRef, rule: Rule) -> None:
        """Define a rule anew that `reserve` named, so that all references to it lead to what it is now."""
        assert self._rules.get(ref.name) is not None, f"{ref.name} was not filled"
        self._rules[ref.name] = rule

    def shared(self, key: str, build: Callable[[RuleRef], Rule]) -> RuleRef:
        """The rule that all uses of `key` share; `build` gets a reference to it, for recursion."""
        if key not in self._shared:
            self._shared[key] = ref = self.reserve(key)
            self.fill(ref, build(ref))
        return self._shared[key]

    @property
    def inlinable_names(self) -> AbstractSet[str]:
        """The names of the rules that `inlinable` made."""
        return self._inlinable

    def grammar(self, root: Rule, plan: GuardPlan | None = None) -> Grammar:
        """The grammar of these rules with the root rule `root`; `plan` says what guards check."""
        return Grammar({"root": root, **self.rules}, plan=plan)

    def _unique(self, hint: str) -> str:
        stem = _NOT_IN_NAMES.sub("_", hint)[:_MAX_HINT].strip("_") or "rule"
        if stem in _RESERVED or not stem[0].islower():
            stem = f"r_{stem}"
        name = stem
        while name in self._rules or name == "root":
            self._next[stem] = self._next.get(stem, 1) + 1
            name = f"{stem}_{self._next[stem]}"
        return name
