"""Lowering of strings that stand as they are between tags: no quotes, no escapes.

What closes such a string is a tag, and nothing in it may read as one. A text of any length is watched for all
tags by the engine. Where characters are counted or a pattern is kept, and the tags would have to be watched
for beside that, the character that every tag begins with is left out instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.errors import UnsupportedKeyword, UnsupportedSchema
from compiler.grammar.grammar import (
    CONTROL_CHARACTERS,
    EMPTY,
    CharClass,
    Expr,
    Grammar,
    Literal,
    Prose,
    Rule,
    RuleRef,
    check_characters,
    choice,
    concat,
)
from compiler.grammar.rules import RuleSink, RuleTable
from compiler.regular import charset
from compiler.regular.ecma import PatternError, parse
from compiler.report import Verdict
from compiler.scalars.char_encoding import as_is
from compiler.scalars.counted_repetition import NOTHING, SHORT
from compiler.scalars.length_bounds import Suffix
from compiler.scalars.strings import LoweredString, StringConstraint, StringLowering
from compiler.vocabulary import MARKER_START

_NOTHING = CharClass.of(NOTHING)


def pattern_grammar(pattern: str) -> Grammar:
    """The texts that match an ECMA-262 pattern from their first character to their last.

    Raises:
        UnsupportedSchema: the pattern cannot be read, is not regular, too large, or matches nothing.
    """
    try:
        parse(pattern)  # by itself: what it leaves open must not be closed by what is put around it
        rules = RuleTable()
        constraint = StringConstraint(patterns=(f"^(?:{pattern})$",))
        lowering = StringLowering(
            rules, _NOTHING, EMPTY, name="plain", encode=as_is, left_out=CONTROL_CHARACTERS
        )
        lowered = lowering.lower(constraint)
    except PatternError as error:
        raise UnsupportedSchema("/pattern", "", str(error)) from error
    except UnsupportedKeyword as error:
        raise UnsupportedSchema("/pattern", "", error.reason, error.suggestion) from error
    if lowered is None:
        raise UnsupportedSchema("/pattern", "", "no text matches it")
    return rules.grammar(Rule(lowered.expr))


def choice_grammar(choices: Sequence[str]) -> Grammar:
    """Exactly these texts.

    Raises:
        UnsupportedSchema: there is none, or one holds what cannot be written.
    """
    if not choices:
        raise UnsupportedSchema("/choices", "", "there is nothing to choose from")
    for index, text in enumerate(choices):
        check_characters(text, f"/choices/{index}")
    return Grammar({"root": Rule(choice(*map(Literal, choices)))})


TAG_START = "<"
_LEFT_OUT = charset.union(CONTROL_CHARACTERS, charset.of(TAG_START))
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
        rules, None, Literal(close), tags=tags, name="raw", encode=as_is, left_out=_LEFT_OUT
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
    is_writable = not any(charset.contains(CONTROL_CHARACTERS, ord(char)) for char in text)
    return Literal(text + close) if is_writable and not any(tag in text for tag in tags) else None


@dataclass(frozen=True, kw_only=True)
class _RawLowering(StringLowering):
    """Watches for the tags only where a text is of any characters and length."""

    tags: tuple[str, ...]

    def _tail(self, tail: Suffix) -> Expr:
        if tail.ranges != charset.ALL or tail.high is not None or tail.low >= SHORT:
            return super()._tail(tail)
        body = concat(self.rules.shared("prose", self._prose), self.close)
        for _ in range(tail.low):
            body = self.rules.define("text", Rule(concat(CharClass(_COUNTED), body)))
        return body

    def _prose(self, _: RuleRef) -> Rule:
        return Rule(Prose((*self.tags, MARKER_START)))
