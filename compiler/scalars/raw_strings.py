"""Lowering of strings that stand as they are between tags: no quotes, no escapes.

What closes such a string is a tag, and nothing in it may read as one. A text of any length is watched for all
tags by the engine. Where characters are counted or a pattern is kept, and the tags would have to be watched
for beside that, the character that every tag begins with is left out instead.
"""

from dataclasses import dataclass

from compiler.grammar.grammar import CharClass, Expr, Literal, Prose, Rule, RuleRef, sequence
from compiler.grammar.rules import RuleSink
from compiler.grammar.writable import CONTROLS
from compiler.regular import charset
from compiler.report import Verdict
from compiler.scalars.bounded import Tail
from compiler.scalars.repetition import SHORT
from compiler.scalars.spelling import as_is
from compiler.scalars.string_constraint import StringConstraint
from compiler.scalars.strings import LoweredString, StringLowering
from compiler.vocabulary import MARKER_START

TAG_START = "<"
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
    lowering = _RawLowering(
        rules, None, Literal(close), tags=tags, name="raw", spell=as_is, left_out=_LEFT_OUT
    )
    lowered = lowering.lower(constraint)
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


@dataclass(frozen=True, kw_only=True)
class _RawLowering(StringLowering):
    """Watches for the tags only where a text is of any characters and length."""

    tags: tuple[str, ...]

    def _tail(self, tail: Tail) -> Expr:
        if tail.ranges != charset.ALL or tail.high is not None or tail.low >= SHORT:
            return super()._tail(tail)
        body = sequence(self.rules.shared("prose", self._prose), self.close)
        for _ in range(tail.low):
            body = self.rules.define("text", Rule(sequence(CharClass(_COUNTED), body)))
        return body

    def _prose(self, _: RuleRef) -> Rule:
        return Rule(Prose((*self.tags, MARKER_START)))
