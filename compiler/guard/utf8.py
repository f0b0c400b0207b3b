"""UTF-8 that may end inside a character."""

import codecs
from functools import cache

from compiler.regular import charset

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
