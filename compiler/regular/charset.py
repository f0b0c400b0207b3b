r"""Sets of characters, as sorted, disjoint, inclusive ranges of code points.

Engines disagree on which characters `.`, `\d`, `\w`, `\s` and `\p{...}` stand for. So each of these has two
sets: the inner one holds the characters on which all engines agree, the outer one every character that some
engine takes. The complement of an inner set is an outer one, and the other way round.
"""

import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from typing import Any, TypeVar

Ranges = tuple[tuple[int, int], ...]
T = TypeVar("T")

LAST = 0x10FFFF
ALL: Ranges = ((0, 0xD7FF), (0xE000, LAST))
"""Every Unicode scalar value. Lone surrogates are left out: no JSON text that we write holds one."""
MAX_RANGES = 64
"""Most sets of real schemas have fewer; those of Unicode's properties have hundreds."""
_MAX_CACHED = 4096


def union(*sets: Iterable[tuple[int, int]]) -> Ranges:
    """The characters that are in any of the sets.

    >>> union(of("a"), of("bx"))
    ((97, 98), (120, 120))
    """
    merged: list[tuple[int, int]] = []
    for low, high in sorted(span for ranges in sets for span in ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(ranges: Ranges) -> Ranges:
    """The characters that are not in the set."""
    gaps = []
    start = 0
    for low, high in (*union(ranges), (LAST + 1, LAST + 1)):
        if start < low:
            gaps.append((start, low - 1))
        start = high + 1
    return intersection(tuple(gaps), ALL)


def intersection(first: Ranges, second: Ranges) -> Ranges:
    """The characters that are in both sets."""
    common = []
    i = j = 0
    while i < len(first) and j < len(second):
        low, high = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if low <= high:
            common.append((low, high))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return tuple(common)


def of(chars: Iterable[str]) -> Ranges:
    """The set of exactly these characters."""
    return union(*(((ord(c), ord(c)),) for c in chars))


def size(ranges: Ranges) -> int:
    """How many characters are in the set."""
    return sum(high - low + 1 for low, high in ranges)


def contains(ranges: Ranges, code: int) -> bool:
    """Whether a code point is in the set."""
    return any(low <= code <= high for low, high in ranges)


@lru_cache(maxsize=64)
def _of_category(prefix: str) -> Ranges:
    """The characters whose Unicode general category begins with `prefix`, such as `L` or `Lu`."""
    return _where(lambda char: unicodedata.category(char).startswith(prefix))


@lru_cache(maxsize=1)
def _of_word_outside_ascii() -> Ranges:
    r"""The characters that engines with a Unicode `\w` add to the ASCII ones, and unassigned ones.

    Python takes letters and numbers (`str.isalnum`). Rust, where a pattern has a lookaround, takes alphabetic
    characters, marks, decimal digits, connectors and joiners (UTS 18, annex C). A newer Unicode may have made
    a word character of one that is unassigned here.
    """
    return intersection(
        union(_where(str.isalnum), _where(_is_word), _CIRCLED_LETTERS, of("\u200c\u200d")), OUTSIDE_ASCII
    )


@lru_cache(maxsize=1)
def _room_for_digits() -> Ranges:
    """Unassigned characters among which a newer Unicode may have digits: ten of them in a row."""
    return tuple((low, high) for low, high in _of_category("Cn") if high - low >= 9)


def _is_word(char: str) -> bool:
    category = unicodedata.category(char)
    return category[0] in "LM" or category in {"Nd", "Nl", "Pc", "Cn"}


_CIRCLED_LETTERS = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))
"""Alphabetic, though they are symbols; all other alphabetic characters are letters, marks or numbers."""


def _where(test: Callable[[str], bool]) -> Ranges:
    ranges: list[tuple[int, int]] = []
    for low, high in _VARIED:
        for code in range(low, high + 1):
            if test(chr(code)):
                if ranges and ranges[-1][1] == code - 1:
                    ranges[-1] = (ranges[-1][0], code)
                else:
                    ranges.append((code, code))
    return union(ranges, (span for span in _UNIFORM if test(chr(span[0]))))


_VARIED = ((0, 0xD7FF), (0xE000, 0x3FFFF), (0xE0000, 0xE0FFF), (0xFFFFE, 0xFFFFF), (0x10FFFE, LAST))
_UNIFORM = ((0x40000, 0xDFFFF), (0xE1000, 0xEFFFF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))
"""Unassigned and private planes: all characters of such a range have the same category."""

DIGIT = of("0123456789")
WORD = union(of("_"), ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)))
ASCII_SPACE = of("\t\n\v\f\r ")
ANY_SPACE = union(
    ASCII_SPACE,
    of("\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff\u180e"),
    ((0x2000, 0x200B),),
)
"""Every character that some engine in use takes for white space."""
OUTSIDE_ASCII: Ranges = intersection(ALL, ((0x80, LAST),))
LINE_ENDS = of("\n\r\u2028\u2029")


_CATEGORIES = {
    "Letter": "L",
    "Lowercase_Letter": "Ll",
    "Uppercase_Letter": "Lu",
    "Mark": "M",
    "Number": "N",
    "Decimal_Number": "Nd",
    "Punctuation": "P",
    "Symbol": "S",
    "Separator": "Z",
    "digit": "Nd",
}


def any_char(*, is_outer: bool) -> Ranges:
    """The characters that `.` stands for."""
    return complement(of("\n") if is_outer else LINE_ENDS)


def shorthand(char: str, *, is_outer: bool) -> Ranges:
    r"""The characters that `\d`, `\w`, `\s`, or in capitals their complements, stand for."""
    if char.isupper():
        return complement(shorthand(char.lower(), is_outer=not is_outer))
    match char:
        case "d":
            return union(DIGIT, _of_category("Nd"), _room_for_digits()) if is_outer else DIGIT
        case "w":
            return union(WORD, _of_word_outside_ascii()) if is_outer else WORD
        case _:
            return ANY_SPACE if is_outer else ASCII_SPACE


def category(name: str, *, is_outer: bool) -> Ranges | None:
    r"""The characters that `\p{name}` stands for; None if there is no such category.

    An engine with a newer Unicode may have assigned a character that is unassigned here to any category, so
    unassigned characters are in every outer set and in no inner one.
    """
    prefix = _CATEGORIES.get(name, name)
    ranges = _of_category(prefix) if len(prefix) <= 2 and prefix[:1] in "LMNPSZ" else ()
    if not ranges:
        return None
    unassigned = _of_category("Cn")
    if is_outer:
        return union(ranges, unassigned)
    return intersection(ranges, complement(unassigned))


def cached_if_small(function: Callable[[Ranges], T]) -> Callable[[Ranges], T]:
    """Cache `_MAX_CACHED` results of a function, for sets of at most `MAX_RANGES` ranges.

    Grammars of strangers have sets of any size. A thousand sets of 30,000 characters would hold 15 GB for as
    long as the process lives.
    """
    cached: Any = lru_cache(_MAX_CACHED)(function)

    @wraps(function)
    def call(ranges: Ranges) -> T:
        result: T = cached(ranges) if len(ranges) <= MAX_RANGES else function(ranges)
        return result

    return call
