"""Lowering of JSON strings: constraints in, an expression over their JSON encodings out."""

import json
from dataclasses import dataclass

from compiler.grammar import CharClass, Expr, Literal, Rule, choice, sequence
from compiler.regular import charset
from compiler.regular.dfa import Dfa, TooManyStates, explored
from compiler.regular.ecma import PatternError
from compiler.regular.encode import QUOTE, any_escape_outside_ascii, encode
from compiler.regular.formats import BASE64, FORMATS
from compiler.regular.language import Part, language
from compiler.report import Verdict
from compiler.rules import RuleSink

MAX_UNROLLED = 64
"""Longest bound written out, one rule a character: a rule costs some 15 ms to compile for 150,000 tokens."""
MAX_RULES = 1_500

Note = tuple[str, Verdict, str]


class UnsupportedString(ValueError):
    """`keyword` cannot be upheld, for `reason`; `suggestion` is the way out."""

    def __init__(self, keyword: str, reason: str, suggestion: str = "") -> None:
        self.keyword = keyword
        self.reason = reason
        self.suggestion = suggestion
        super().__init__(f"{keyword}: {reason}" + (f" {suggestion}" if suggestion else ""))


@dataclass(frozen=True)
class StringConstraint:
    """Which strings are admitted; lengths count code points."""

    min_length: int = 0
    max_length: int | None = None
    patterns: tuple[str, ...] = ()
    excluded_patterns: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    excluded_formats: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    content_media_types: tuple[str, ...] = ()
    content_encodings: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoweredString:
    """An expression of the encodings, quotes included, and what became of each keyword."""

    expr: Expr
    notes: tuple[Note, ...] = ()


_SAFE = CharClass.of((0x20, 0x21), (0x23, 0x5B), (0x5D, charset.LAST))
_SHORT_ESCAPE = CharClass.of(*'"\\/bfnrt')
_HEX = CharClass.of((0x30, 0x39), (0x41, 0x46), (0x61, 0x66))
_VALUE_END = CharClass.of(",", "}", "]")
_KEY_END = CharClass.of(":")


def lower_string(
    constraint: StringConstraint,
    rules: RuleSink,
    *,
    in_container: bool = True,
    is_key: bool = False,
    ascii_escapes: bool = False,
) -> LoweredString | None:
    """The JSON encodings, quotes included, of the strings admitted; None if there is none.

    In a container a value is followed by `,`, `}` or `]`, and a key by `:`.

    Raises:
        UnsupportedString: a keyword cannot be upheld.
    """
    ahead = (_KEY_END if is_key else _VALUE_END) if in_container else None
    parts, notes = _parts(constraint)
    if not parts and not constraint.excluded:
        body, narrowed = _plain(constraint, rules, ahead)
        return LoweredString(sequence(QUOTE, body), (*notes, *narrowed))
    try:
        dfa = language(parts, constraint.excluded)
        dfa, more = _bounded(dfa, constraint)
    except PatternError as error:
        raise UnsupportedString(_keyword(constraint), str(error), "Write it without.") from error
    except TooManyStates as error:
        raise UnsupportedString(_keyword(constraint), str(error), "Simplify it.") from error
    if dfa.is_empty:
        return None
    body = encode(dfa, rules, ahead=ahead, ascii_escapes=ascii_escapes)
    return LoweredString(sequence(QUOTE, body), (*notes, *more))


def lower_literal(text: str, *, ascii_escapes: bool = False) -> Expr:
    """The JSON spelling of exactly this text; outside ASCII, escaped or not with `ascii_escapes`.

    Raises:
        UnsupportedString: the text has a lone surrogate, which no decoder takes back.
    """
    if any(0xD800 <= ord(char) <= 0xDFFF for char in text):
        raise UnsupportedString("const", "has a lone surrogate", "Remove it.")
    plain = json.dumps(text, ensure_ascii=False)
    if not ascii_escapes or plain.isascii():
        return Literal(plain)
    return sequence(QUOTE, *map(_either_spelling, text), QUOTE)


def _either_spelling(char: str) -> Expr:
    spellings = {json.dumps(char, ensure_ascii=is_ascii)[1:-1]: None for is_ascii in (False, True)}
    return choice(*map(Literal, spellings))


def _parts(constraint: StringConstraint) -> tuple[list[Part], list[Note]]:
    """Everything but lengths and single values as patterns."""
    parts = [Part(pattern) for pattern in constraint.patterns]
    parts += [Part(pattern, is_excluded=True) for pattern in constraint.excluded_patterns]
    notes: list[Note] = []
    for name in constraint.formats:
        known = FORMATS.get(name)
        if known is None:
            continue  # the specification gives an unknown format no force; the report says so
        parts.append(Part(known.pattern))
        if known.excluded:
            parts.append(Part(known.excluded, is_excluded=True))
        if known.note:
            notes.append(("format", Verdict.NARROWED, known.note))
    if constraint.excluded_formats:
        raise UnsupportedString("format", "cannot be negated", "Use a pattern instead.")
    if constraint.content_media_types or any(name != "base64" for name in constraint.content_encodings):
        raise UnsupportedString("contentMediaType", "asserts what is inside a string", "Leave it out.")
    parts += [Part(BASE64) for _ in constraint.content_encodings]
    return parts, notes


def _keyword(constraint: StringConstraint) -> str:
    return "pattern" if constraint.patterns or constraint.excluded_patterns else "format"


def _bounded(dfa: Dfa, constraint: StringConstraint) -> tuple[Dfa, list[Note]]:
    """The texts within the length bounds; a bound too large to count is narrowed."""
    low, high = constraint.min_length, constraint.max_length
    longest = dfa.longest
    if high is not None and longest is not None and longest <= high:
        high = None
    if low == 0 and high is None:
        return dfa, []
    most = MAX_RULES // len(dfa.table)
    notes: list[Note] = []
    if high is not None and high > most:
        high = most
        notes.append(("maxLength", Verdict.NARROWED, f"at most {most} characters beside the pattern"))
    if low > (most if high is None else high):
        raise UnsupportedString("minLength", "is too large to be counted beside a pattern", "Lower it.")
    return _counted(dfa, low, high), notes


def _counted(dfa: Dfa, low: int, high: int | None) -> Dfa:
    cap = low if high is None else high

    def step(state: tuple[int, int], symbol: int) -> tuple[int, int] | None:
        number, count = state
        target = dfa.table[number][symbol]
        if target < 0 or (high is not None and count >= high):
            return None
        return target, min(count + 1, cap)

    return explored(dfa.alphabet, (0, 0), step, lambda s: s[0] in dfa.accepting and s[1] >= low)


def _plain(
    constraint: StringConstraint, rules: RuleSink, ahead: CharClass | None
) -> tuple[Expr, tuple[Note, ...]]:
    """Any characters within the length bounds and the closing quote: right recursion, escapes inlined."""
    low, high = constraint.min_length, constraint.max_length
    if low > MAX_UNROLLED:
        raise UnsupportedString("minLength", f"is more than {MAX_UNROLLED}", f"Use at most {MAX_UNROLLED}.")
    notes: tuple[Note, ...] = ()
    if high is not None and high > MAX_UNROLLED:
        high = MAX_UNROLLED
        notes = (("maxLength", Verdict.NARROWED, f"at most {MAX_UNROLLED} characters"),)
    body: Expr
    if high is None:
        body = rules.shared(
            "any_chars" if ahead is None else f"chars_before_{len(ahead.ranges)}",
            lambda ref: Rule(choice(QUOTE, _character(ref, rules)), ahead),
        )
    else:
        body = rules.define("end", Rule(QUOTE, ahead))
        for _ in range(high - low):
            body = rules.define("chars", Rule(choice(QUOTE, _character(body, rules)), ahead))
    for _ in range(low):
        body = rules.define("chars", Rule(_character(body, rules), ahead))
    return body, notes


def _character(rest: Expr, rules: RuleSink) -> Expr:
    """One character in any spelling, then `rest`."""
    return choice(
        sequence(_SAFE, rest),
        sequence(Literal("\\"), _SHORT_ESCAPE, rest),
        sequence(rules.shared("unicode", lambda _: Rule(_unicode_escape(rules))), rest),
    )


def _unicode_escape(rules: RuleSink) -> Expr:
    """An escape of four digits, or a pair of them for one character outside the basic plane."""
    d, high, low = (CharClass.of(*chars) for chars in ("Dd", "89ABab", "CDEFcdef"))
    pair = sequence(Literal("\\u"), d, high, _HEX, _HEX, Literal("\\u"), d, low, _HEX, _HEX)
    inside_ascii = sequence(Literal("\\u00"), CharClass.of((0x30, 0x37)), _HEX)
    return choice(inside_ascii, any_escape_outside_ascii(rules), pair)
