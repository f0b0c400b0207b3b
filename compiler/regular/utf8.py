"""UTF-8 byte by byte: the bytes of sets of characters, and texts that end inside a character."""

import codecs
from functools import cache

from compiler.regular import charset
from compiler.regular.charset import cached_if_small

ByteRange = tuple[int, int]

_LAST_OF_LENGTH = (0x7F, 0x7FF, 0xFFFF, charset.LAST)
_CONTINUATION = bytes(range(0x80, 0xC0))


@cached_if_small
def byte_sequences(chars: charset.Ranges) -> tuple[tuple[ByteRange, ...], ...]:
    """A set of characters as sequences of one to four byte ranges; each character is in one sequence.

    `byte_sequences(((0x61, 0x7A), (0xE9, 0xE9)))` is `(((0x61, 0x7A),), ((0xC3, 0xC3), (0xA9, 0xA9)))`.
    """
    return tuple(
        sequence
        for low, high in chars
        for first, last in _by_length(low, high)
        for sequence in _split(chr(first).encode(), chr(last).encode())
    )


def _by_length(low: int, high: int) -> list[tuple[int, int]]:
    """A range of code points, cut where UTF-8 takes one byte more."""
    starts = (0, *(last + 1 for last in _LAST_OF_LENGTH[:-1]))
    cuts = ((max(low, a), min(high, b)) for a, b in zip(starts, _LAST_OF_LENGTH, strict=True))
    return [(first, last) for first, last in cuts if first <= last]


def _split(first: bytes, last: bytes) -> list[tuple[ByteRange, ...]]:
    """All texts from `first` to `last`, which are of equal length, as sequences of byte ranges.

    Three parts: those that begin with the first byte of `first`, those between, those that begin with the
    first byte of `last`.
    """
    if len(first) == 1:
        return [((first[0], last[0]),)]
    num_more = len(first) - 1
    lowest, highest = b"\x80" * num_more, b"\xbf" * num_more
    if first[0] == last[0]:
        return [((first[0], first[0]), *rest) for rest in _split(first[1:], last[1:])]
    parts = []
    low, high = first[0], last[0]
    if first[1:] != lowest:
        parts += [((low, low), *rest) for rest in _split(first[1:], highest)]
        low += 1
    if last[1:] != highest:
        high -= 1
    if low <= high:
        parts.append(((low, high), *(((0x80, 0xBF),) * num_more)))
    if last[1:] != highest:
        parts += [((last[0], last[0]), *rest) for rest in _split(lowest, last[1:])]
    return parts


def num_characters(text: bytes) -> int:
    r"""How many characters begin in some UTF-8: `num_characters(b"a\xc3")` is 2."""
    return len(text.translate(None, _CONTINUATION))


def decode_prefix(text: bytes) -> tuple[str, bytes]:
    r"""The complete characters of some UTF-8, and the bytes of a last one that is incomplete.

    `decode_prefix(b"a\xc3")` is `("a", b"\xc3")`.

    Raises:
        UnicodeDecodeError: it is not UTF-8.
    """
    chars, num_bytes = codecs.utf_8_decode(text, "strict", False)  # noqa: FBT003 - positional only
    return chars, text[num_bytes:]


def chars_of_escape(partial: bytes) -> charset.Ranges:
    r"""The characters whose escape in JSON begins with `partial`, a backslash at least.

    `chars_of_escape(rb"\u00e")` is `((0xE0, 0xEF),)`; of a half of a surrogate pair, all that it begins.
    """
    if len(partial) < 3:
        return charset.ALL
    low, high = _with_digits(partial[2:6])
    if len(partial) <= 6:
        basic = charset.intersection(((low, high),), charset.ALL)
        first, last = max(low, 0xD800), min(high, 0xDBFF)
        astral = ((_astral(first, 0xDC00), _astral(last, 0xDFFF)),) if first <= last else ()
        return charset.union(basic, astral)
    second_low, second_high = _with_digits(partial[8:12])
    return ((_astral(low, max(second_low, 0xDC00)), _astral(low, min(second_high, 0xDFFF))),)


def _with_digits(digits: bytes) -> tuple[int, int]:
    """The least and the greatest number of four hexadecimal digits that begins with some."""
    return int(digits.ljust(4, b"0"), 16), int(digits.ljust(4, b"f"), 16)


def _astral(high: int, low: int) -> int:
    """The character of a surrogate pair."""
    return 0x10000 + (high - 0xD800) * 0x400 + (low - 0xDC00)


@cache
def char_range(partial: bytes) -> tuple[int, int]:
    r"""The first and the last code point whose UTF-8 begins with `partial`, one to three bytes.

    `char_range(b"\xc3")` is `(0xC0, 0xFF)`.
    """
    lead = partial[0]
    num_bytes, bits = (
        (2, lead & 0x1F) if lead < 0xE0 else (3, lead & 0x0F) if lead < 0xF0 else (4, lead & 0x07)
    )
    for byte in partial[1:]:
        bits = bits << 6 | byte & 0x3F
    shift = 6 * (num_bytes - len(partial))
    low, high = bits << shift, (bits + 1 << shift) - 1
    return max(low, (0x80, 0x800, 0x10000)[num_bytes - 2]), min(high, charset.LAST)
