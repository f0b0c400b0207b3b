"""How one character of a set is written: in a JSON string, where some characters are escaped, or as it is."""

from collections.abc import Callable, Sequence
from functools import lru_cache

from compiler.grammar.grammar import CharClass, Expr, Literal, choice, concat
from compiler.regular import charset
from compiler.regular.charset import Ranges, cached_if_small

CharEncoding = Callable[[Ranges], Sequence[Expr]]
"""From a set of characters to the encodings of one character of it: any one of the expressions."""

QUOTE = Literal('"')
UNESCAPED = charset.intersection(charset.complement(charset.of('"\\')), ((0x20, charset.LAST),))
"""The characters that may stand in a JSON string unescaped."""
ESCAPED = charset.complement(UNESCAPED)
_SHORT_ESCAPES = {'"': '"', "\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_SHORT_ESCAPE = CharClass.of(*'"\\/bfnrt')
_HEX = CharClass.of((0x30, 0x39), (0x41, 0x46), (0x61, 0x66))
_ZERO = CharClass.of("0")
_D = CharClass.of("D", "d")
_UNICODE_ESCAPES: tuple[tuple[Expr, ...], ...] = (
    (CharClass.of(*"0123456789ABCEFabcef"), _HEX, _HEX, _HEX),
    (_D, CharClass.of(*"01234567"), _HEX, _HEX),
    (_D, CharClass.of(*"89ABab"), _HEX, _HEX, Literal("\\u"), _D, CharClass.of(*"CDEFcdef"), _HEX, _HEX),
)
"""Four hexadecimal digits that are no surrogate, or a surrogate pair for one character outside the BMP."""


def as_is(ranges: Ranges) -> Sequence[Expr]:
    """The encoding of one character of a set without escapes."""
    is_single = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    return (Literal(chr(ranges[0][0])) if is_single else CharClass(ranges),)


@cached_if_small
def as_json(ranges: Ranges) -> Sequence[Expr]:
    r"""The encodings of one character of a set in a JSON string; only characters that must be are escaped.

    >>> as_json(charset.of('a"'))
    (Literal(text='a'), Literal(text='\\"'))
    """
    unescaped = charset.intersection(ranges, UNESCAPED)
    return (*(as_is(unescaped) if unescaped else ()), *_escapes(charset.intersection(ranges, ESCAPED)))


@lru_cache(maxsize=64)
def any_json_char(rest: Expr) -> Expr:
    """One character of a JSON string in any encoding, then `rest`.

    It is one rule, since after a separate rule of escapes xgrammar would try every token one by one.
    """
    return choice(
        concat(CharClass(UNESCAPED), rest),
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
    options += [escape for low, high in controls for escape in _control_escapes(low, high)]
    return tuple(options)


def _control_escapes(low: int, high: int) -> list[Expr]:
    """The escapes of the characters from `low` to `high`, all below 0x20, by their last two digits."""
    if low < 0x10 <= high and (low, high) != (0, 0x1F):
        return [*_control_escapes(low, 0x0F), *_control_escapes(0x10, high)]
    sixteens, ones = _hex_digit(low // 16, high // 16), _hex_digit(low % 16, high % 16)
    return [concat(Literal("\\u"), _ZERO, _ZERO, sixteens, ones)]


def _hex_digit(low: int, high: int) -> CharClass:
    digits = "0123456789abcdef"[low : high + 1]
    return CharClass.of(*dict.fromkeys(digits + digits.upper()))
