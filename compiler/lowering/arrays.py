"""Lowering of arrays.

Without `contains`, a quantifier counts the items. With `contains`, a finite automaton does: its states are
the number of items so far and, for each `contains`, how many of these satisfied it; every state becomes a
rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod

from jsonschema_rs import CanonicalSchema, canonical

from compiler.grammar.grammar import CharClass, Expr, Literal, Rule, concat, union
from compiler.guard.path_state_builder import ItemStep
from compiler.lowering.cardinality import MOST_DISTINCT, is_roomy
from compiler.lowering.constraints import ArrayConstraint, ContainsConstraint, Context, intersection
from compiler.lowering.lowering import Lowering
from compiler.lowering.quantifier import Quantifier
from compiler.report import Verdict

MAX_STATES = 600
MAX_LEAST = 2_000
"""The largest `minItems`: the budget closer may have to write that many items, which takes it 70 ms."""
_FEWER = f"Lower minItems (to {MOST_DISTINCT} at most), or admit more values of items."
_FEWER_CONTAINED = "Keep one `contains`, without maxContains, or leave uniqueItems out."
_CLOSE = Literal("]")
_AHEAD = CharClass.of(",", "]")


@dataclass(frozen=True)
class _State:
    """`index` items were written, `counts[j]` of them satisfy the j-th `contains`.

    Both stop at a cap from which on a higher number makes no difference.
    """

    index: int
    counts: tuple[int, ...]


def lower_array(lowering: Lowering, constraint: ArrayConstraint, context: Context) -> Expr | None:
    """The JSON texts of the admitted arrays; None if there is none.

    Raises:
        UnsupportedSchema: a constraint needs more than a context-free grammar of bounded size.
    """
    if constraint.distinctness == canonical.Distinctness.SOME_REPEATED:
        raise lowering.reporter.refusal(
            context.location, "not", "demands a repeated item", "Say what is allowed instead."
        )
    all_distinct = constraint.distinctness == canonical.Distinctness.ALL_DISTINCT
    can_repeat = constraint.max_items not in (0, 1)
    is_distinct = all_distinct and can_repeat
    least = max(constraint.min_items, sum(contains.low for contains in constraint.contains))
    lowering.planner.note_array(context.state, least, is_distinct=is_distinct)
    if is_distinct:
        return _lower_distinct(lowering, constraint, context)
    if can_repeat:
        lowering.note_repeating(context.state, context.location)
    return _ItemRules(lowering, constraint, context).lower()


def _lower_distinct(lowering: Lowering, constraint: ArrayConstraint, context: Context) -> Expr | None:
    """An array whose items a guard keeps distinct; there must be enough distinct values for it."""
    has_room = is_roomy(constraint.items, guards_lengths=lowering.guards_lengths)
    if constraint.prefix_items or constraint.contains or not has_room:
        lowering.planner.note_can_run_out(context.state)
    lowering.reporter.note(context.location, "uniqueItems", Verdict.GUARDED, "an item is never repeated")
    items = _ItemRules(lowering, constraint, replace(context, is_distinct=True))
    if not items.has_enough():
        raise lowering.reporter.refusal(
            context.location,
            "uniqueItems",
            f"demands more distinct items than its schema is known to admit, or more than {MOST_DISTINCT}",
            _FEWER_CONTAINED if constraint.contains else _FEWER,
        )
    return items.lower()


class _ItemRules:
    """The rules of one array."""

    def __init__(self, lowering: Lowering, constraint: ArrayConstraint, context: Context) -> None:
        self.lowering = lowering
        self.constraint = constraint
        self.context = context
        self.caps = tuple(c.low if c.high is None else max(c.low, c.high + 1) for c in constraint.contains)
        self.num_counts = prod(cap + 1 for cap in self.caps)

    @cached_property
    def fewest(self) -> int:
        """From this number of items on, one schema applies to all that follow."""
        return max(len(self.constraint.prefix_items), self.constraint.min_items)

    @cached_property
    def top(self) -> int:
        """The cap of `_State.index`."""
        return max(self.fewest, self.most or 0)

    @cached_property
    def most(self) -> int | None:
        """`maxItems`, lowered to what `MAX_STATES` can count unless the array needs more items than that."""
        most, countable = self.constraint.max_items, self.most_countable
        if most is None or most <= countable or countable < self.fewest:
            return most
        self.lowering.reporter.note_narrowed(self.context.location, "maxItems", f"at most {countable} items")
        return countable

    @property
    def most_countable(self) -> int:
        """The most items that `MAX_STATES` can count beside `contains`."""
        return MAX_STATES // self.num_counts - 1

    def has_enough(self) -> bool:
        """Whether there are known to be enough distinct values for all items that the array must have."""
        constraint = self.constraint
        if constraint.min_items > MOST_DISTINCT:
            return False
        sought = [contains for contains in constraint.contains if contains.low]
        if not constraint.prefix_items and constraint.min_items <= 1 and [c.low for c in sought] in ([], [1]):
            return True  # one item is enough, which repeats nothing
        return self._has_enough_for_places() and self._has_enough_sought(sought)

    def _has_enough_for_places(self) -> bool:
        """Whether each place that must have an item admits more values than there are items before it."""
        constraint, count = self.constraint, self.lowering.cardinality.at_least
        if constraint.min_items and any(contains.high is not None for contains in constraint.contains):
            return False  # not each value that a place admits may stand there
        num_first = min(len(constraint.prefix_items), constraint.min_items)
        first = constraint.prefix_items[:num_first]
        has_enough = all(count(schema) > index for index, schema in enumerate(first) if index)
        return has_enough and (
            constraint.min_items in (num_first, 1) or count(constraint.items) >= constraint.min_items
        )

    def _has_enough_sought(self, sought: Sequence[ContainsConstraint]) -> bool:
        """Whether among the values of items, each `contains` finds as many as it demands."""
        constraint, count = self.constraint, self.lowering.cardinality.at_least
        if len(sought) > 1 and constraint.max_items is not None:
            return False  # one item may have to serve several
        return all(
            not constraint.prefix_items and count(intersection(one.schema, constraint.items)) >= one.low
            for one in sought
        )

    def lower(self) -> Expr | None:
        """The whole array; None if no number of items is admitted."""
        return self._counted_beside_contains() if self.caps else self._counted()

    def _counted(self) -> Expr | None:
        low, high = self.constraint.min_items, self.constraint.max_items
        if low > MAX_LEAST:
            raise self.lowering.reporter.refusal(
                self.context.location, "minItems", f"demands more than {MAX_LEAST} items", "Lower it."
            )
        num_first = len(self.constraint.prefix_items)
        num_first = num_first if high is None else min(num_first, high)
        further = self._item(num_first, ()) if high is None or high > num_first else None
        after = self._more(further, max(num_first, 1))
        item = further
        for index in reversed(range(num_first)):
            item = self._item(index, ())
            if index:
                end = _CLOSE if index >= low else None
                body = union((end, concat(self.lowering.formatting.item_separator, item, after)))
                after = body and self.lowering.rules.define("items", Rule(body))
        return concat(Literal("["), union((concat(item, after), None if low else _CLOSE)))

    def _more(self, item: Expr | None, index: int) -> Expr | None:
        """What follows `index` items where `item` is the text of every further one."""
        low, high = max(0, self.constraint.min_items - index), self.constraint.max_items
        if item is None or (high is not None and high <= index):
            return None if low else _CLOSE
        member = concat(self.lowering.formatting.item_separator, item)
        members = Quantifier(member, _CLOSE, _AHEAD, self.lowering.rules, "items")
        return members.between(low, None if high is None else high - index)

    def _counted_beside_contains(self) -> Expr | None:
        if self.top > self.most_countable:
            keyword, suggestion = "contains", "Lower `minContains` and `maxContains`."
            if self.most_countable > 0:
                keyword = "maxItems" if self.most == self.top else "minItems"
                suggestion = f"Bound the array to at most {self.most_countable} items."
            reason = "counts too many items for an array with `contains`"
            raise self.lowering.reporter.refusal(self.context.location, keyword, reason, suggestion)
        pick: dict[_State, Expr | None] = {}
        after: dict[_State, Expr | None] = {}
        states = product(range(self.top + 1), product(*(range(cap + 1) for cap in self.caps)))
        for index, counts in reversed(list(states)):
            self._lower_state(_State(index, counts), pick, after)
        start = _State(0, (0,) * len(self.caps))
        empty = _CLOSE if self._can_end(start) else None
        return concat(Literal("["), union((pick[start], empty)))

    def _lower_state(
        self, state: _State, pick: dict[_State, Expr | None], after: dict[_State, Expr | None]
    ) -> None:
        """Define the rules of a state, those of later states being defined already.

        `pick[state]` starts with the next item, `after[state]` with what follows an item: `,` or `]`.
        """
        rules = self.lowering.rules
        loop = rules.reserve("items") if state.index == self.top else None
        pick[state] = union(
            concat(item, loop if following == state else after[following])
            for following, item in self._steps(state)
        )
        end = _CLOSE if self._can_end(state) else None
        body = union((end, concat(self.lowering.formatting.item_separator, pick[state])))
        after[state] = rules.define("items", Rule(body)) if body is not None and loop is None else loop
        if loop is not None:
            rules.fill(loop, Rule(loop if body is None else body))

    def _can_end(self, state: _State) -> bool:
        return state.index >= self.constraint.min_items and all(
            count >= contains.low
            for count, contains in zip(state.counts, self.constraint.contains, strict=True)
        )

    def _steps(self, state: _State) -> list[tuple[_State, Expr]]:
        """The states that one more item leads to, each with that item."""
        if self.most is not None and state.index >= self.most:
            return []
        steps = []
        for matched in product((True, False), repeat=len(self.caps)):
            counts = tuple(
                min(count + is_match, cap)
                for count, is_match, cap in zip(state.counts, matched, self.caps, strict=True)
            )
            item = None if self._is_over(counts) else self._item(state.index, matched)
            if item is not None:
                steps.append((_State(min(state.index + 1, self.top), counts), item))
        return steps

    def _is_over(self, counts: tuple[int, ...]) -> bool:
        return any(
            contains.high is not None and count > contains.high
            for count, contains in zip(counts, self.constraint.contains, strict=True)
        )

    def _item(self, index: int, matched: tuple[bool, ...]) -> Expr | None:
        """An item that satisfies every matched `contains`, and no other one that has an upper bound."""
        prefix = self.constraint.prefix_items
        schema = prefix[index] if index < len(prefix) else self.constraint.items
        parts = [schema]
        for contains, is_match in zip(self.constraint.contains, matched, strict=True):
            if is_match:
                parts.append(contains.schema)
            elif contains.high is not None:
                parts.append(self._negated(contains.schema))
        location = self.lowering.source_map.item(self.context.location, index)
        return self.lowering.inner_value(intersection(*parts), self.context, location, ItemStep(index))

    def _negated(self, schema: CanonicalSchema) -> CanonicalSchema:
        try:
            return schema.negate()
        except canonical.CanonicalizationError as error:
            raise self.lowering.reporter.refusal(
                self.context.location, "contains", f"cannot be negated, which `maxContains` needs: {error}"
            ) from error
