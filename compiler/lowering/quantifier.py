"""Quantifiers: from `low` to `high` items or members, in about as many rules as the bound has binary digits.

One rule per count would take 0.03 ms to compile and 1.6 KB each. Instead there are rules for 16, 32, 64, ...
members. They are unambiguous: a text has fewer members than the largest power of two, or that many and then
the rest.
"""

from dataclasses import dataclass

from compiler.grammar.grammar import CharClass, Expr, Rule, choice, concat
from compiler.grammar.rules import RuleTable

_WRITTEN_OUT_BITS = 4
"""Up to 2 ** 4 members are written out: xgrammar then knows what follows a member and masks are faster."""


@dataclass(frozen=True)
class Quantifier:
    """A number of `member`s, then `close`; each of the two begins with a character of `ahead`.

    `name` is the hint for the names of the rules.
    """

    member: Expr
    close: Expr
    ahead: CharClass
    rules: RuleTable
    name: str

    def between(self, low: int, high: int | None) -> Expr:
        """From `low` to `high` members (None: any number), and the close."""
        if high is not None:
            return concat(self.exactly(low), self._at_most(high - low))
        loop = self.rules.reserve(self.name)
        self.rules.fill(loop, Rule(choice(self.close, concat(self.member, loop))))
        return concat(self.exactly(low), loop)

    def exactly(self, number: int) -> Expr:
        """Exactly so many members, without the close."""
        powers = [power for power in range(_WRITTEN_OUT_BITS, number.bit_length()) if number >> power & 1]
        return concat(*[self.member] * (number % (1 << _WRITTEN_OUT_BITS)), *map(self._block, powers))

    def _block(self, power: int) -> Expr:
        """Exactly 2 ** `power` members, without the close."""
        if not power:
            return self.rules.define(self.name, Rule(self.member, self.ahead))
        half = self._block(power - 1)
        return self.rules.define(self.name, Rule(concat(half, half), self.ahead))

    def _at_most(self, number: int) -> Expr:
        if not number:
            return self.close
        if number < 1 << _WRITTEN_OUT_BITS:
            return self._rule(choice(self.close, concat(self.member, self._at_most(number - 1))))
        power = number.bit_length() - 1
        more = concat(self._block(power), self._at_most(number - (1 << power)))
        return self._rule(choice(self._fewer(power), more))

    def _fewer(self, power: int) -> Expr:
        """Fewer than 2 ** `power` members, and the close."""
        if power == _WRITTEN_OUT_BITS:
            return self._at_most((1 << power) - 1)
        half = self._fewer(power - 1)
        return self._rule(choice(half, concat(self._block(power - 1), half)))

    def _rule(self, body: Expr) -> Expr:
        return self.rules.define(self.name, Rule(body))
