"""Character classes as UTF-8: which bytes may follow one another."""

import codecs
from functools import cache, lru_cache

from compiler.regular import charset

ByteRange = tuple[int, int]

_LAST_OF_LENGTH = (0x7F, 0x7FF, 0xFFFF, 0x10FFFF)


@lru_cache(maxsize=4096)
def byte_sequences(chars: charset.Ranges) -> tuple[tuple[ByteRange, ...], ...]:
    """The characters of a class as sequences of one to four byte ranges; no character is in two of them."""
    return tuple(
        sequence
        for low, high in chars
        for first, last in _by_length(low, high)
        for sequence in _split(chr(first).encode(), chr(last).encode())
    )


def _by_length(low: int, high: int) -> list[tuple[int, int]]:
    """A range of code points cut where UTF-8 takes one byte more."""
    starts = (0, *(last + 1 for last in _LAST_OF_LENGTH[:-1]))
    cuts = ((max(low, a), min(high, b)) for a, b in zip(starts, _LAST_OF_LENGTH, strict=True))
    return [(first, last) for first, last in cuts if first <= last]


def _split(first: bytes, last: bytes) -> list[tuple[ByteRange, ...]]:
    """All texts between two of equal length: on the first's head, between the heads, on the last's."""
    if len(first) == 1:
        return [((first[0], last[0]),)]
    tail = len(first) - 1
    lowest, highest = b"\x80" * tail, b"\xbf" * tail
    if first[0] == last[0]:
        return [((first[0], first[0]), *rest) for rest in _split(first[1:], last[1:])]
    found = []
    head, end = first[0], last[0]
    if first[1:] != lowest:
        found += [((head, head), *rest) for rest in _split(first[1:], highest)]
        head += 1
    if last[1:] != highest:
        end -= 1
    if head <= end:
        found.append(((head, end), *(((0x80, 0xBF),) * tail)))
    if last[1:] != highest:
        found += [((last[0], last[0]), *rest) for rest in _split(lowest, last[1:])]
    return found


_CONTINUATION = bytes(range(0x80, 0xC0))


def num_characters(text: bytes) -> int:
    """How many characters begin in some UTF-8."""
    return len(text.translate(None, _CONTINUATION))


def split(text: bytes) -> tuple[str, bytes]:
    """The whole characters of some UTF-8, and the bytes of one that has begun.

    Raises:
        UnicodeDecodeError: it is none.
    """
    whole, num_bytes = codecs.utf_8_decode(text, "strict", False)  # noqa: FBT003 - positional only
    return whole, text[num_bytes:]


@cache
def code_points(begun: bytes) -> tuple[int, int]:
    """The lowest and the highest character that begin with some bytes of UTF-8."""
    lead = begun[0]
    num_bytes, bits = (
        (2, lead & 0x1F) if lead < 0xE0 else (3, lead & 0x0F) if lead < 0xF0 else (4, lead & 0x07)
    )
    for byte in begun[1:]:
        bits = bits << 6 | byte & 0x3F
    shift = 6 * (num_bytes - len(begun))
    low, high = bits << shift, (bits + 1 << shift) - 1
    return max(low, (0x80, 0x800, 0x10000)[num_bytes - 2]), min(high, charset.LAST)
