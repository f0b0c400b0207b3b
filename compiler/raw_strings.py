"""Lowering of strings that stand as they are between tags: no quotes, no escapes.

What closes such a string is a tag, and nothing in it may read as one. A text of any length is watched for all
tags by the engine. Where characters are counted or a pattern is kept, and the tags would have to be watched
for beside that, the character that every tag begins with is left out instead.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from compiler.grammar import CharClass, Expr, Literal, Prose, Rule, RuleRef, sequence
from compiler.lengths import SHORT, Texts
from compiler.regular import charset
from compiler.regular.charset import Ranges
from compiler.regular.counted import Tail, Walk
from compiler.regular.encode import Spelling, encode
from compiler.report import Verdict
from compiler.rules import RuleSink
from compiler.string_constraint import StringConstraint
from compiler.strings import AllTexts, LoweredString
from compiler.vocabulary import MARKER_START

TAG_START = "<"
CONTROLS: Ranges = ((0x00, 0x08), (0x0B, 0x0C), (0x0E, 0x1F))
"""Never written: among them are the characters that stand for marker tokens."""
_LEFT_OUT = charset.union(CONTROLS, charset.of(TAG_START))
_COUNTED = charset.complement(_LEFT_OUT)
_NOTE = f"without {TAG_START!r}"


def lower_raw_string(
    constraint: StringConstraint, rules: RuleSink, *, close: str, tags: tuple[str, ...]
) -> LoweredString | None:
    """The strings admitted, each followed by `close`; None if there is none. No string holds one of `tags`.

    Raises:
        UnsupportedKeyword: a keyword cannot be upheld.
    """
    assert all(tag.startswith(TAG_START) for tag in tags), "tags begin alike"
    lowered = _RawTexts(None, rules, Spelling(rules), close, tags).lower(constraint)
    if lowered is None:
        return None
    bounds = {"minLength": constraint.min_length, "maxLength": constraint.max_length}
    parts = {"pattern": constraint.patterns or constraint.excluded_patterns, "format": constraint.formats}
    notes = [(keyword, Verdict.NARROWED, _NOTE) for keyword, value in (bounds | parts).items() if value]
    return LoweredString(lowered.expr, (*lowered.notes, *notes))


def lower_raw_literal(text: str, *, close: str, tags: tuple[str, ...]) -> Expr | None:
    """Exactly this text and `close`; None if it cannot stand between tags."""
    is_writable = not any(charset.contains(CONTROLS, ord(char)) for char in text)
    return Literal(text + close) if is_writable and not any(tag in text for tag in tags) else None


@dataclass(frozen=True)
class _RawTexts(AllTexts):
    close: str
    tags: tuple[str, ...]

    def of(self, ranges: Ranges) -> Texts:
        kept = charset.intersection(ranges, _COUNTED)
        key = "_".join(["raw", *(f"{low:x}_{high:x}" for low, high in kept)])
        return Texts(key, Raw().before(kept), None, self.rules, Literal(self.close))

    def of_tail(self, tail: Tail) -> Expr:
        if not charset.intersection(tail.ranges, _COUNTED):
            return Literal(self.close)
        if tail.ranges != charset.ALL or tail.high is not None or tail.low >= SHORT:
            return super().of_tail(tail)
        body = sequence(self.rules.shared("prose", self._prose), Literal(self.close))
        for _ in range(tail.low):
            body = self.rules.define("text", Rule(sequence(CharClass(_COUNTED), body)))
        return body

    def of_walk(self, walk: Walk | None) -> LoweredString | None:
        if walk is None:
            return None
        tails = {state: tail for state, tail in walk.tails.items() if _is_writable(tail)}
        walk = replace(walk, tails=tails).without(_LEFT_OUT)
        if walk is None:
            return None
        close = Literal(self.close)
        body = encode(walk, self.rules, ahead=None, tail=self.of_tail, spell=Raw(), close=close)
        return LoweredString(body)

    def _prose(self, _: RuleRef) -> Rule:
        return Rule(Prose((*self.tags, MARKER_START)))


def _is_writable(tail: Tail) -> bool:
    return tail.low == 0 or bool(charset.intersection(tail.ranges, _COUNTED))


class Raw:
    """Characters as they are."""

    def one_of(self, ranges: Ranges) -> list[Expr]:
        """One character of a set."""
        is_single = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
        return [Literal(chr(ranges[0][0])) if is_single else CharClass(ranges)]

    def before(self, ranges: Ranges) -> Callable[[Expr], Expr]:
        """One character of a set, then the rest."""
        (char,) = self.one_of(ranges)
        return lambda rest: sequence(char, rest)
