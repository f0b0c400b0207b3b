"""Strings with bounds on their length, as rules, up to the text that closes them.

One rule for each number of characters left is exact and quick to mask, but each rule costs some 10 ms to
compile for 150,000 tokens and some 40 KB. So only the last `SHORT` characters are counted one by one. The
characters before are counted in blocks of `BLOCK`, and all bounds share the rules of a block. A row of blocks
is two rows of half as many, so that a bound of 32,768 takes some forty rules.

At the end of a block the engine cannot tell in advance which tokens fit across it, and tries them one by one:
60 ms for a mask. So the same strings are written in several alternatives (`PHASES`), whose blocks end after
different numbers of characters. Where one alternative cannot tell, another one can, and only tokens longer
than a third of a block are ever tried. Measured with Qwen 3's vocabulary and a bound of 400 or 8,192: 230 ms
to compile if nothing is compiled ahead, 5.4 MB, masks of 0.35 ms, 0.9 ms at most.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from compiler.grammar.grammar import EMPTY, CharClass, Expr, Literal, Rule, RuleRef, choice, concat
from compiler.grammar.rules import RuleTable

BLOCK = 32
AHEAD = 16
SHORT = BLOCK + AHEAD
"""Bounds below this one are counted one by one."""
PHASES = (0, BLOCK // 3, 2 * BLOCK // 3)
MAX_LENGTH = 1 << 15
"""Upper bounds above this one are narrowed to it."""

NOTHING = "\x00"
"""A lookahead for what follows a text that is a whole output: no token that may be written begins with it."""


@dataclass(frozen=True)
class CountedRepetition:
    """Texts of characters of one set within any bounds on their length, each followed by `close`.

    `key` names the set and `close` in the names of rules. `encode(rest)` is one character of the set and then
    `rest`. `ahead` is what is known to follow `close`. An empty `close` ends the whole output.
    """

    key: str
    encode: Callable[[Expr], Expr]
    ahead: CharClass | None
    rules: RuleTable
    close: Literal

    def between(self, low: int, high: int | None) -> Expr:
        """The texts of `low` to `high` characters, None for no upper bound."""
        if (low if high is None else high) < SHORT:
            return self._one_by_one(low, high)
        if high is None:
            options = [self._at_least(low, phase) for phase in PHASES]
        else:
            options = [
                concat(self._block(phase), self._in_blocks(max(0, low - phase), high - phase))
                for phase in PHASES
            ]
        return self._named("texts", choice(*options))

    def _at_least(self, low: int, num_single: int) -> Expr:
        """Texts of `low` or more characters, of which so many are counted one by one after all blocks."""
        num_blocks, num_before = divmod(low - num_single, BLOCK)
        return concat(self._block(num_before), *self._exactly(num_blocks), self._one_by_one(num_single, None))

    def _one_by_one(self, low: int, high: int | None) -> Expr:
        """Right recursion with a rule for every number of characters left."""
        body: Expr
        if high is None:
            body = self._rule("any_number", lambda ref: choice(self.close, self.encode(ref)))
        else:
            body = self._rule("0_to_0", lambda _: self.close)
        num_optional = 0 if high is None else high - low
        for count in range(1, num_optional + 1):
            body = self._rule(f"0_to_{count}", self._character(body, may_end=True))
        for count in range(1, low + 1):
            name = f"{count}_or_more" if high is None else f"{count}_to_{count + num_optional}"
            body = self._rule(name, self._character(body))
        return body

    def _character(self, rest: Expr, *, may_end: bool = False) -> Callable[[RuleRef], Expr]:
        """Builds a rule of one character and then the rest; it does not refer to itself."""
        return lambda _: choice(self.close, self.encode(rest)) if may_end else self.encode(rest)

    def _rule(self, name: str, build: Callable[[RuleRef], Expr]) -> RuleRef:
        """The rule of this name for these characters, shared by all grammars; `build` gets its reference."""
        follows = "" if self.ahead is None else f"_before_{len(self.ahead.ranges)}"
        return self.rules.shared(f"{self.key}{follows}_{name}", lambda ref: Rule(build(ref), self.ahead))

    def _in_blocks(self, low: int, high: int) -> Expr:
        """Texts counted in blocks: as many full blocks as `low` needs, then more of them or the end."""
        num_blocks = max(0, (high - SHORT) // BLOCK + 1)
        num_needed = min(num_blocks, low // BLOCK)
        before = num_blocks * BLOCK
        body = self._one_by_one(max(0, low - before), high - before)
        if num_blocks > num_needed:
            more = concat(self._block(BLOCK), self._at_most(num_blocks - num_needed - 1, body))
            body = self._named("blocks", choice(more, self._one_by_one(low - num_needed * BLOCK, BLOCK - 1)))
        return concat(*self._exactly(num_needed), body)

    def _exactly(self, num_blocks: int) -> list[Expr]:
        """Full blocks, the largest powers of two first."""
        powers = (power for power in reversed(range(num_blocks.bit_length())) if num_blocks >> power & 1)
        return [self._power(power) for power in powers]

    def _power(self, power: int) -> Expr:
        """`2**power` full blocks."""
        if not power:
            return self._block(BLOCK)
        half = self._power(power - 1)
        return self.rules.define("blocks", Rule(concat(half, half), self._following()))

    def _fewer(self, power: int) -> Expr:
        """Fewer than `2**power` full blocks, then the characters of a part of one."""
        if not power:
            return self._one_by_one(0, BLOCK - 1)
        fewer = self._fewer(power - 1)
        return self._named("blocks", choice(concat(self._power(power - 1), fewer), fewer))

    def _at_most(self, num_blocks: int, rest: Expr) -> Expr:
        """At most `num_blocks` full blocks: after all of them `rest`, after fewer a part of one."""
        if not num_blocks:
            return rest
        power = num_blocks.bit_length() - 1
        all_of_them = concat(self._power(power), self._at_most(num_blocks - (1 << power), rest))
        return self._named("blocks", choice(all_of_them, self._fewer(power)))

    def _named(self, hint: str, body: Expr) -> RuleRef:
        return self.rules.define(hint, Rule(body, self.ahead))

    def _block(self, length: int) -> Expr:
        """Exactly `length` characters; a lookahead sees more characters, or `close`, after them."""
        follows = self._following()
        body: Expr = EMPTY
        for count in range(1, length + 1):
            longer = self._character(body)
            body = self.rules.shared(f"{follows.name}_after_{count}", lambda ref: Rule(longer(ref), follows))  # noqa: B023 - called at once
        return body

    def _following(self) -> RuleRef:
        """A lookahead after a full block: more characters, or a `close` that is not empty."""
        has_close = self.close != EMPTY
        texts = self if has_close else replace(self, key=f"{self.key}_end", close=Literal(NOTHING))
        follows = texts.between(0, AHEAD)
        assert isinstance(follows, RuleRef)
        return follows
