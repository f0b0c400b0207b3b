"""Spelling: how a character is written, inside a string of JSON or as it is."""

from collections.abc import Callable, Sequence
from functools import lru_cache

from compiler.grammar.grammar import CharClass, Expr, Literal, choice, concat
from compiler.regular import charset
from compiler.regular.charset import Ranges

CharEncoding = Callable[[Ranges], Sequence[Expr]]
"""The spellings of one character of a set."""

QUOTE = Literal('"')
RAW = charset.intersection(charset.complement(charset.of('"\\')), ((0x20, charset.LAST),))
"""What may stand in a string of JSON as it is."""
NEVER_RAW = charset.complement(RAW)
_SHORT_ESCAPES = {'"': '"', "\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_SHORT_ESCAPE = CharClass.of(*'"\\/bfnrt')
_HEX = CharClass.of((0x30, 0x39), (0x41, 0x46), (0x61, 0x66))
_D = CharClass.of("D", "d")
_UNICODE_ESCAPES: tuple[tuple[Expr, ...], ...] = (
    (CharClass.of(*"0123456789ABCEFabcef"), _HEX, _HEX, _HEX),
    (_D, CharClass.of(*"01234567"), _HEX, _HEX),
    (_D, CharClass.of(*"89ABab"), _HEX, _HEX, Literal("\\u"), _D, CharClass.of(*"CDEFcdef"), _HEX, _HEX),
)
"""Four digits, but for surrogates; and a pair of these for one character outside the basic plane."""


def as_is(ranges: Ranges) -> Sequence[Expr]:
    """One character of a set, unescaped."""
    is_single = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    return (Literal(chr(ranges[0][0])) if is_single else CharClass(ranges),)


@lru_cache(maxsize=4096)
def as_json(ranges: Ranges) -> Sequence[Expr]:
    """The spellings of one character of a set in a string of JSON: an escape only where it needs one."""
    raw = charset.intersection(ranges, RAW)
    return (*(as_is(raw) if raw else ()), *_escapes(charset.intersection(ranges, NEVER_RAW)))


def any_character(rest: Expr) -> Expr:
    """One character of a string of JSON in any spelling, then `rest`.

    All in one rule: behind a rule of escapes, xgrammar would look at each token that goes on by itself.
    """
    return choice(
        concat(CharClass(RAW), rest),
        concat(Literal("\\"), _SHORT_ESCAPE, rest),
        *(concat(Literal("\\u"), *digits, rest) for digits in _UNICODE_ESCAPES),
    )


@lru_cache(maxsize=256)
def _escapes(ranges: Ranges) -> tuple[Expr, ...]:
    """Quotes, backslashes and control characters, as JSON escapes them."""
    letters = [letter for char, letter in _SHORT_ESCAPES.items() if charset.contains(ranges, ord(char))]
    controls = charset.intersection(ranges, ((0, 0x1F),))
    options: list[Expr] = []
    if letters:
        single = Literal("\\" + letters[0]) if len(letters) == 1 else None
        options.append(single or concat(Literal("\\"), CharClass.of(*letters)))
    spans = [span for low, high in controls for span in _aligned(low, high, 4)]
    options += [concat(Literal("\\u"), _hexadecimal(span)) for span in spans]
    return tuple(options)


HexRanges = tuple[tuple[int, int], ...]
"""A range per hexadecimal digit."""


def _aligned(low: int, high: int, places: int) -> list[HexRanges]:
    """The numbers from `low` to `high` as products of ranges of `places` hexadecimal digits."""
    if places == 0:
        return [()]
    unit = 16 ** (places - 1)
    first, last = low // unit, high // unit
    if low % unit == 0 and high % unit == unit - 1:
        return [((first, last), *(((0, 15),) * (places - 1)))]
    if first == last:
        return [((first, first), *rest) for rest in _aligned(low % unit, high % unit, places - 1)]
    spans = [((first, first), *rest) for rest in _aligned(low % unit, unit - 1, places - 1)]
    if last - first > 1:
        spans.append(((first + 1, last - 1), *(((0, 15),) * (places - 1))))
    return spans + [((last, last), *rest) for rest in _aligned(0, high % unit, places - 1)]


def _hexadecimal(span: HexRanges) -> Expr:
    return concat(*(_hexadecimal_digit(low, high) for low, high in span))


def _hexadecimal_digit(low: int, high: int) -> CharClass:
    digits = "0123456789abcdef"[low : high + 1]
    return CharClass.of(*dict.fromkeys(digits + digits.upper()))
