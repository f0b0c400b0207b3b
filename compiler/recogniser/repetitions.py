"""Where a text repeats an element: the first one that a guard would not allow."""

import re
from itertools import islice
from typing import NamedTuple

from compiler.guard.cursor import JsonCursor
from compiler.guard.key_marks import has_mark
from compiler.guard.open_containers import OpenContainer
from compiler.guard.tagged_cursor import Cursor
from compiler.tagged_values import JSON_BLANKS

PIECES = re.compile(rb'[^",:\[\]{}\\]+|.', re.DOTALL)
"""Pieces of a JSON text: each completes at most one element, and begins an element only at its own start."""
BLANKS = JSON_BLANKS.encode()
_MOST_CHANGED = 3
"""The containers that a piece may change: one is closed, or gets an element, and the one around it."""


class RepeatedElement(NamedTuple):
    """An element of a text that would repeat one."""

    start: int
    """The index of its first byte; 0 also if it began before the text."""
    end: int
    """The index of its last byte, or of the one behind it that shows that it repeats."""
    holder: OpenContainer | None
    """The container that it stands in, as it is before the element."""
    num_pieces: int
    """How many pieces of the text were read to find it."""


def first_repetition(cursor: Cursor, rest: bytes) -> RepeatedElement | None:
    """The first element in `rest` that would repeat one; None if none does.

    A marked key counts as one: it stands only where another one must be, or is shorter.
    """
    if not _repeats(cursor, cursor.advance(rest)):
        return None
    passed: list[tuple[int, JsonCursor]] = []
    for piece in PIECES.finditer(rest):
        passed.append((piece.start(), cursor.json))
        following = cursor.advance(piece.group())
        if following is None or _repeats(cursor, following):
            last, end = _before_repetition(cursor, piece.group())
            end += piece.start()
            return _repetition(passed, last, rest, end)
        cursor = following
    raise AssertionError("what repeats as a whole repeats piece by piece")


def _repeats(before: Cursor, after: Cursor | None) -> bool:
    """Whether what leads from one cursor to another repeats an element, or has a marked key."""
    return after is None or has_mark(before, after)


def _before_repetition(cursor: Cursor, text: bytes) -> tuple[JsonCursor, int]:
    """The cursor before the first byte that repeats an element, and the index of that byte."""
    for at in range(len(text)):
        following = cursor.advance(text[at : at + 1])
        if following is None or _repeats(cursor, following):
            return cursor.json, at
        cursor = following
    raise AssertionError("what repeats as a whole repeats byte by byte")


def _repetition(
    passed: list[tuple[int, JsonCursor]], last: JsonCursor, rest: bytes, end: int
) -> RepeatedElement:
    """The element that the byte at `end`, read after `last`, would complete; it began at one of `passed`."""
    assert last.container is not None, "only what stands in a container can repeat"
    # A closing bracket completes a container, unless the number or literal before it repeats already.
    is_container = not last.in_string and rest[end] in b"]}" and last.advance(b" ") is not None
    holder = last.container.parent if is_container else last.container
    starts = (at for at, cursor in reversed(passed) if cursor.expects_element and cursor.container is holder)
    return RepeatedElement(next(starts, 0), end, holder, len(passed))


def has_more_elements(before: JsonCursor, after: JsonCursor) -> bool:
    """Whether the open containers of one cursor hold more elements than those of another.

    Those that both have are not counted. A piece leaves all but the innermost as they are, and where a text
    is deeply nested, counting all at each piece takes quadratic time.
    """
    innermost = tuple(islice(before.containers, _MOST_CHANGED))
    num_more = 0
    for container in after.containers:
        for at, shared in enumerate(innermost):
            if container is shared:
                return num_more > sum(other.seen.size for other in innermost[:at])
        num_more += container.seen.size
    return num_more > sum(container.seen.size for container in before.containers)
