"""Character classes as UTF-8: which bytes may follow one another."""

from functools import lru_cache

from compiler.grammar.grammar import CharClass

ByteRange = tuple[int, int]

_LAST_OF_LENGTH = (0x7F, 0x7FF, 0xFFFF, 0x10FFFF)


@lru_cache(maxsize=4096)
def byte_sequences(chars: CharClass) -> tuple[tuple[ByteRange, ...], ...]:
    """The characters of a class as sequences of one to four byte ranges; no character is in two of them."""
    return tuple(
        sequence
        for low, high in chars.ranges
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
