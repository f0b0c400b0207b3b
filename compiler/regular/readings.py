"""The sets of characters that engines read differently, in either reading.

Inner holds the characters on which all agree, outer every one that some engine takes. A complement is that of
the set in the other reading.
"""

from compiler.regular import charset
from compiler.regular.charset import Ranges

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
    return charset.complement(charset.of("\n") if is_outer else charset.LINE_ENDS)


def shorthand(char: str, *, is_outer: bool) -> Ranges:
    r"""What `\d`, `\w` or `\s` mean, or one of their complements in capitals."""
    if char.isupper():
        return charset.complement(shorthand(char.lower(), is_outer=not is_outer))
    match char:
        case "d":
            return charset.union(charset.DIGIT, charset.of_category("Nd")) if is_outer else charset.DIGIT
        case "w":
            return charset.union(charset.WORD, charset.of_word_outside_ascii()) if is_outer else charset.WORD
        case _:
            return charset.ANY_SPACE if is_outer else charset.ASCII_SPACE


def category(name: str, *, is_outer: bool) -> Ranges | None:
    r"""What `\p{name}` means; None if there is no such category.

    A character that is not assigned here may be so, in any category, in an engine's Unicode.
    """
    prefix = _CATEGORIES.get(name, name)
    ranges = charset.of_category(prefix) if len(prefix) <= 2 and prefix[:1] in "LMNPSZ" else ()
    if not ranges:
        return None
    unassigned = charset.of_category("Cn")
    if is_outer:
        return charset.union(ranges, unassigned)
    return charset.intersection(ranges, charset.complement(unassigned))
