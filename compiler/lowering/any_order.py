"""Members in any order: what may follow depends on which of them were written.

There is one rule for each set of written members, so `n` members take `2 ** n` rules. The rules express
everything: distinct keys, required keys, keys that need others, and bounds of their number. So masks, the
budget closer and forced text are exact without a guard. The rules are small, because they share one rule for
each member. An object that would take too many rules has its keys in their declared order.
"""

from typing import NamedTuple, Protocol

from compiler.grammar.grammar import Expr, Rule, concat, union
from compiler.grammar.rules import RuleTable
from compiler.lowering.member_choices import MemberChoices
from toolspecs.tool import KeyOrder

MAX_KEYS = 10
"""The most keys of an object whose keys come in any order; they take 1,024 rules."""
MAX_RULES = 4_096
"""The most rules of all such objects of one schema together."""


class ChosenOrder(NamedTuple):
    """The order of an object's keys; `because` tells in a note why the wanted order is not possible."""

    is_any: bool = False
    because: str = ""


class KeyOrders:
    """Chooses the order of keys for each object of one schema, outer objects before those inside them."""

    def __init__(self, wanted: KeyOrder) -> None:
        self._wanted = wanted
        self._num_left = MAX_RULES

    @property
    def is_any_wanted(self) -> bool:
        """Whether keys come in any order where they can."""
        return self._wanted == "any"

    def declared(self, reason: str) -> ChosenOrder:
        """The declared order; the reason is reported if any order was wanted."""
        return ChosenOrder(because=f": {reason}" if self.is_any_wanted else "")

    def choose(self, num_keys: int) -> ChosenOrder:
        """The order that is wanted, unless it takes too many rules for so many keys."""
        if not self.is_any_wanted or num_keys < 2:
            return ChosenOrder()
        if num_keys > MAX_KEYS:
            return self.declared(f"any order is for {MAX_KEYS} keys at most")
        if 1 << num_keys > self._num_left:
            return self.declared("too many objects of this schema have their keys in any order")
        self._num_left -= 1 << num_keys
        return ChosenOrder(is_any=True)


class Following(Protocol):
    """Makes what may stand after some members."""

    def __call__(self, num_written: int, following: Expr | None, *, is_complete: bool) -> Expr | None:
        """The text after `num_written` members.

        `following` begins with the next member, None if there is none; `is_complete`: none has to be written.
        """


def lower_in_any_order(choices: MemberChoices, rules: RuleTable, after: Following) -> Expr | None:
    """The members in any order, each at most once; `after` makes what stands after those that are written."""
    texts = [rules.define("member", Rule(member.text)) for member in choices.members]
    rest: dict[int, Expr | None] = {}
    for written in range((1 << len(texts)) - 1, -1, -1):  # after every set that contains it
        indices = {index for index in range(len(texts)) if written >> index & 1}
        following = union(
            concat(text, rest[written | 1 << index])
            for index, text in enumerate(texts)
            if index not in indices
        )
        rest[written] = after(len(indices), following, is_complete=choices.are_complete(indices))
    return rest[0]
