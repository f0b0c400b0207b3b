"""Lowering of strings without quotes and escapes: whole outputs, and values between tags.

A whole output is a text of a pattern, or any one of a list. Nothing follows it. A lookahead for a character
that no text contains tells the back end so. The back end can then precompute masks up to the end of the text:
5 us a mask instead of 150 us.

A value between tags is closed by a tag, and must not contain a text that reads as one. In a text of any
characters and any length the back end looks out for all tags. Rules that count characters or enforce a
pattern cannot look out for tags as well, so they leave out the character that every tag begins with.
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
from compiler.grammar.rules import RuleTable
from compiler.regular import charset
from compiler.regular.ecma import parse
from compiler.regular.pattern_tree import PatternError
from compiler.report import Verdict
from compiler.scalars.char_encoding import as_is
from compiler.scalars.counted_repetition import NOTHING, SHORT
from compiler.scalars.length_bounds import Suffix
from compiler.scalars.string_constraint import StringConstraint
from compiler.scalars.strings import LoweredString, StringLowering
from compiler.vocabulary import MARKER_START

_NOTHING_FOLLOWS = CharClass.of(NOTHING)


def pattern_grammar(pattern: str) -> Grammar:
    """The grammar of the texts that an ECMA-262 pattern matches from the first character to the last.

    Raises:
        UnsupportedSchema: the pattern cannot be read, is not regular, is too large, or matches nothing.
    """
    try:
        parse(pattern)  # alone: the parentheses added below must not close what the pattern leaves open
        rules = RuleTable()
        constraint = StringConstraint(patterns=(f"^(?:{pattern})$",))
        lowering = StringLowering(
            rules, _NOTHING_FOLLOWS, EMPTY, name="plain", encode=as_is, left_out=CONTROL_CHARACTERS
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
    """The grammar of exactly these texts.

    >>> print(choice_grammar(["yes", "no"]).ebnf.strip())
    root ::= "yes" | "no"

    Raises:
        UnsupportedSchema: `choices` is empty, or a text holds a character that cannot be written.
    """
    if not choices:
        raise UnsupportedSchema("/choices", "", "the list of choices is empty")
    for index, text in enumerate(choices):
        check_characters(text, f"/choices/{index}")
    return Grammar({"root": Rule(choice(*map(Literal, choices)))})


TAG_START = "<"
_LEFT_OUT = charset.union(CONTROL_CHARACTERS, charset.of(TAG_START))
_COUNTED = charset.complement(_LEFT_OUT)
_NOTE = f"without {TAG_START!r}"


def lower_raw_string(
    constraint: StringConstraint, rules: RuleTable, *, close: str, tags: tuple[str, ...]
) -> LoweredString | None:
    """The strings that a constraint admits and that hold none of `tags`, each followed by `close`.

    None if there are none.

    Raises:
        UnsupportedKeyword: a keyword cannot be enforced.
    """
    assert all(tag.startswith(TAG_START) for tag in tags), "tags begin alike"
    lowering = _RawLowering(
        rules, None, Literal(close), tags=tags, name="raw", encode=as_is, left_out=_LEFT_OUT
    )
    lowered = lowering.lower(constraint)
    if lowered is None:
        return None
    bounds = {"minLength": constraint.min_length, "maxLength": constraint.max_length}
    patterns = {"pattern": constraint.patterns or constraint.excluded_patterns, "format": constraint.formats}
    notes = [(keyword, Verdict.NARROWED, _NOTE) for keyword, value in (bounds | patterns).items() if value]
    return LoweredString(lowered.expr, (*lowered.notes, *notes))


def raw_texts(rules: RuleTable) -> StringLowering:
    """What writes texts between tags, with nothing after them."""
    return StringLowering(rules, None, EMPTY, name="raw", encode=as_is, left_out=_LEFT_OUT)


def lower_raw_literal(text: str, *, close: str, tags: tuple[str, ...]) -> Expr | None:
    """Exactly this text and then `close`; None if the text cannot stand between tags."""
    is_writable = not any(charset.contains(CONTROL_CHARACTERS, ord(char)) for char in text)
    return Literal(text + close) if is_writable and not any(tag in text for tag in tags) else None


@dataclass(frozen=True, kw_only=True)
class _RawLowering(StringLowering):
    """Looks out for the tags where a text may have any characters and any length."""

    tags: tuple[str, ...]

    def _lower_suffix(self, suffix: Suffix) -> Expr:
        if suffix.ranges != charset.ALL or suffix.high is not None or suffix.low >= SHORT:
            return super()._lower_suffix(suffix)
        body = concat(self.rules.shared("prose", self._prose), self.close)
        for _ in range(suffix.low):
            body = self.rules.define("text", Rule(concat(CharClass(_COUNTED), body)))
        return body

    def _prose(self, _: RuleRef) -> Rule:
        return Rule(Prose((*self.tags, MARKER_START)))
