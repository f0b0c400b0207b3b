"""Sets of characters, as sorted disjoint inclusive ranges of code points."""

import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache

Ranges = tuple[tuple[int, int], ...]

LAST = 0x10FFFF
ALL: Ranges = ((0, 0xD7FF), (0xE000, LAST))
"""Every scalar value: a lone surrogate is no character of any JSON text we write."""


def union(*sets: Iterable[tuple[int, int]]) -> Ranges:
    """Characters of any of the sets."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(span for ranges in sets for span in ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(ranges: Ranges) -> Ranges:
    """Characters outside the set."""
    gaps = []
    start = 0
    for low, high in (*union(ranges), (LAST + 1, LAST + 1)):
        if start < low:
            gaps.append((start, low - 1))
        start = high + 1
    return intersection(tuple(gaps), ALL)


def intersection(first: Ranges, second: Ranges) -> Ranges:
    """Characters of both sets."""
    found = []
    i = j = 0
    while i < len(first) and j < len(second):
        low, high = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if low <= high:
            found.append((low, high))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def of(chars: Iterable[str]) -> Ranges:
    """Exactly these characters."""
    return union(*(((ord(c), ord(c)),) for c in chars))


def contains(ranges: Ranges, code: int) -> bool:
    """Whether a code point is in the set."""
    return any(low <= code <= high for low, high in ranges)


@lru_cache(maxsize=64)
def of_category(prefix: str) -> Ranges:
    """Characters whose Unicode general category begins with `prefix`."""
    return _where(lambda char: unicodedata.category(char).startswith(prefix))


@lru_cache(maxsize=1)
def of_word_outside_ascii() -> Ranges:
    """What engines that read the word class as Unicode add to its ASCII meaning."""
    return intersection(_where(str.isalnum), ((0x80, LAST),))


def _where(test: Callable[[str], bool]) -> Ranges:
    found: list[tuple[int, int]] = []
    for low, high in _VARIED:
        for code in range(low, high + 1):
            if test(chr(code)):
                if found and found[-1][1] == code - 1:
                    found[-1] = (found[-1][0], code)
                else:
                    found.append((code, code))
    return union(found, (span for span in _UNIFORM if test(chr(span[0]))))


_VARIED = ((0, 0xD7FF), (0xE000, 0x3FFFF), (0xE0000, 0xE0FFF), (0xFFFFE, 0xFFFFF), (0x10FFFE, LAST))
_UNIFORM = ((0x40000, 0xDFFFF), (0xE1000, 0xEFFFF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))
"""Unassigned planes, and private ones: their characters are all of one category."""

DIGIT = of("0123456789")
WORD = union(of("_"), ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)))
ASCII_SPACE = of("\t\n\v\f\r ")
ANY_SPACE = union(
    ASCII_SPACE,
    of("\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff\u180e"),
    ((0x2000, 0x200B),),
)
"""What any of the engines in use takes for white space."""
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
    """What `.` means."""
    return complement(of("\n") if is_outer else LINE_ENDS)


def shorthand(char: str, *, is_outer: bool) -> Ranges:
    r"""What `\d`, `\w` or `\s` mean, or one of their complements in capitals."""
    if char.isupper():
        return complement(shorthand(char.lower(), is_outer=not is_outer))
    match char:
        case "d":
            return union(DIGIT, of_category("Nd")) if is_outer else DIGIT
        case "w":
            return union(WORD, of_word_outside_ascii()) if is_outer else WORD
        case _:
            return ANY_SPACE if is_outer else ASCII_SPACE


def category(name: str, *, is_outer: bool) -> Ranges | None:
    r"""What `\p{name}` means; None if there is no such category.

    A character that is not assigned here may be so, in any category, in an engine's Unicode.
    """
    prefix = _CATEGORIES.get(name, name)
    ranges = of_category(prefix) if len(prefix) <= 2 and prefix[:1] in "LMNPSZ" else ()
    if not ranges:
        return None
    unassigned = of_category("Cn")
    if is_outer:
        return union(ranges, unassigned)
    return intersection(ranges, complement(unassigned))
