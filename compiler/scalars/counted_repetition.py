"""Strings of a bounded number of characters, as rules, up to the text that closes them.

A rule for every count is exact and quick to mask, but each costs some 10 ms to compile for 150,000 tokens
and some 40 KB. So only the last `SHORT` characters are counted one by one. What comes before is counted in
blocks of `BLOCK` characters, and every bound shares the rules of these.

At the end of a block the engine cannot tell in advance which tokens fit across it, and tries them: 60 ms a
mask. Therefore the same strings are written in several ways, whose blocks end at different places: what one
cannot tell, another can, and only tokens longer than a third of a block are ever tried. Measured with
Qwen 3's vocabulary and a bound of 400 or 4,096: 230 ms to compile, 5.4 MB, masks of 0.25 ms, 0.7 ms at most.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from compiler.grammar.grammar import EMPTY, CharClass, Expr, Literal, Rule, RuleRef, choice, concat
from compiler.grammar.rules import RuleSink

BLOCK = 32
AHEAD = 16
SHORT = BLOCK + AHEAD
"""Bounds below are written out."""
PHASES = (0, BLOCK // 3, 2 * BLOCK // 3)
MAX_LENGTH = 1 << 15
"""Longer bounds are narrowed to this one."""

NOTHING = "\x00"
"""What follows a text that is a whole output: no token that may be written begins so."""


@dataclass(frozen=True)
class CountedRepetition:
    """Texts of characters of one set, of any bounds, and what closes them.

    `key` names the set and the close, `encode(rest)` is one of its characters and then `rest`, and `ahead` is
    what is known to follow the close. An empty close ends the whole output.
    """

    key: str
    encode: Callable[[Expr], Expr]
    ahead: CharClass | None
    rules: RuleSink
    close: Literal

    def between(self, low: int, high: int | None) -> Expr:
        """From `low` to `high` characters; None is without bound."""
        if self._is_short(low, high):
            return self._written_out(low, high)
        options = [
            concat(
                self._block(phase),
                self._in_blocks(max(0, low - phase), None if high is None else high - phase),
            )
            for phase in PHASES
        ]
        return self.rules.define("texts", Rule(choice(*options), self.ahead))

    def _is_short(self, low: int, high: int | None) -> bool:
        return (low if high is None else high) < SHORT

    def _written_out(self, low: int, high: int | None) -> Expr:
        """Right recursion, a rule for every count."""
        body: Expr
        if high is None:
            body = self._rule("any_number", lambda ref: choice(self.close, self.encode(ref)))
        else:
            body = self._rule("0_to_0", lambda _: self.close)
        slack = 0 if high is None else high - low
        for count in range(1, slack + 1):
            body = self._rule(f"0_to_{count}", self._character(body, may_end=True))
        for count in range(1, low + 1):
            name = f"{count}_or_more" if high is None else f"{count}_to_{count + slack}"
            body = self._rule(name, self._character(body))
        return body

    def _character(self, rest: Expr, *, may_end: bool = False) -> Callable[[RuleRef], Expr]:
        """One character and then the rest, whatever its rule is called."""
        return lambda _: choice(self.close, self.encode(rest)) if may_end else self.encode(rest)

    def _rule(self, name: str, build: Callable[[RuleRef], Expr]) -> RuleRef:
        """The rule that every string of these characters shares under a name; `build` gets its own."""
        follows = "" if self.ahead is None else f"_before_{len(self.ahead.ranges)}"
        return self.rules.shared(f"{self.key}{follows}_{name}", lambda ref: Rule(build(ref), self.ahead))

    def _in_blocks(self, low: int, high: int | None) -> Expr:
        """A block and the rest in blocks, or an end before the block is full."""
        bound = low if high is None else high
        num_blocks = max(0, (bound - SHORT) // BLOCK + 1)
        read = num_blocks * BLOCK
        body = self._written_out(max(0, low - read), None if high is None else high - read)
        block, within_block = self._block(BLOCK), self._written_out(0, BLOCK - 1)
        while read:
            read -= BLOCK
            options = [concat(block, body)]
            if low <= read:
                options.append(within_block)
            elif low - read < BLOCK:
                options.append(self._written_out(low - read, BLOCK - 1))
            body = self.rules.define("blocks", Rule(choice(*options), self.ahead))
        return body

    def _block(self, length: int) -> Expr:
        """Exactly `length` characters and no close."""
        follows = self._closed().between(0, AHEAD)
        assert isinstance(follows, RuleRef)
        body: Expr = EMPTY
        for count in range(1, length + 1):
            one = self._character(body)
            body = self.rules.shared(f"{follows.name}_after_{count}", lambda ref: Rule(one(ref), follows))  # noqa: B023 - called at once
        return body

    def _closed(self) -> "CountedRepetition":
        """The same for lookaheads, which must not be empty."""
        return self if self.close != EMPTY else replace(self, key=f"{self.key}_end", close=Literal(NOTHING))
