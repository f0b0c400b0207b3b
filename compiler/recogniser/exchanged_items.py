"""Adapts a known completion to an output that wrote another item than planned.

An example: a model must rank forty names. The completion begins with one of them, and the model writes
another one. A search for a new completion takes thousands of attempts, and again at each item. It is enough
to exchange two items: `["a","b","c"]` was planned, `["c` is written, and `["c","b","a"]` completes it.
"""

from collections.abc import Iterator
from itertools import chain, islice
from typing import NamedTuple

from compiler.guard.tagged_cursor import Cursor
from compiler.recogniser.guarded_completion import SearchNode, deviations
from compiler.recogniser.parser_state import ParserState
from compiler.recogniser.repetitions import PIECES, first_repetition, has_more_elements

_BLANKS = b" \t\r\n"
_SEPARATORS = _BLANKS + b","
_MAX_TRIED = 4
_MAX_HEADS = 64
MAX_PLANNED = 1 << 12
"""Bytes of a plan. It is read some eight times, at up to ten microseconds a byte where all are brackets: then
it takes as long as a search, a third of a second."""


class PlannedText(NamedTuple):
    """A text that completes an output from `cursor` on.

    `read` is what was written instead, from the first byte that differs from the plan.
    """

    cursor: Cursor
    text: bytes
    read: bytes = b""

    def after(self, more: bytes, cursor: Cursor) -> "PlannedText | None":
        """The plan once more text is read, which leads to a cursor."""
        if self.read:
            return self._replace(read=self.read + more)
        if self.text.startswith(more):
            return PlannedText(cursor, self.text[len(more) :])
        pairs = zip(self.text, more, strict=False)
        shared = next((at for at, (one, other) in enumerate(pairs) if one != other), len(self.text))
        before = self.cursor.advance(more[:shared])
        if before is None:
            return None
        rest = more[shared:]
        if not before.json.in_string and (num_blanks := len(rest) - len(rest.lstrip(_BLANKS))):
            after = before.advance(rest[:num_blanks])  # a plan has no blanks, but a model writes some
            return after and PlannedText(after, self.text[shared:]).after(rest[num_blanks:], cursor)
        return PlannedText(before, self.text[shared:], rest)


def with_exchanged_item(state: ParserState, cursor: Cursor, planned: PlannedText) -> bytes | None:
    """What completes a text as it was planned, but for two exchanged items; None if this does not."""
    if cursor.plan.marks_keys:
        return None
    node = SearchNode(b"", state, cursor, 0)
    tries = _tries(node, planned) if planned.read else iter([_if_complete(node, planned.text)])
    return next((text for text in islice(tries, _MAX_TRIED) if text is not None), None)


def _tries(node: SearchNode, planned: PlannedText) -> Iterator[bytes | None]:
    """Texts in which the planned item takes the place of the item that is being written.

    None is one that does not complete the output.
    """
    text, begun = planned.text, bytes(planned.cursor.json.scalar or b"")
    items = _items(planned.cursor, text)
    first = next(items, None)
    if first is None:
        return
    skipped, ended = begun + text[first[0] : first[1]], first[1]
    if has_more_elements(planned.cursor.json, node.cursor.json):  # the item is over
        yield from _without_repetition(node, b"", text[ended:], skipped)
        return
    written = bytes(node.cursor.json.scalar or b"")
    ways = (_without_repetition(node, head, text[ended:], skipped) for head in _heads(node))
    meant = (
        _if_complete(node, text[start + len(written) : end] + text[ended:start] + skipped + text[end:])
        for start, end in (items if written else ())
        if text.startswith(written, start)
    )
    yield from chain(next(ways), meant, chain.from_iterable(ways))


def _heads(node: SearchNode) -> Iterator[bytes]:
    """Some ways in which the item that is being written can go on to its end; the shortest is the first."""
    rest = node.state.completion()
    shortest = rest[: next(_items(node.cursor, rest), (0, 0))[1]]
    yield shortest
    for attempt in islice(deviations(node, shortest), _MAX_HEADS):
        begun = attempt.begun()
        if begun is not None:
            rest = begun.state.completion()
            yield begun.text + rest[: next(_items(begun.cursor, rest), (0, 0))[1]]


def _without_repetition(node: SearchNode, head: bytes, tail: bytes, skipped: bytes) -> Iterator[bytes | None]:
    """The rest of an item and of a plan, where the skipped item stands in place of a repeated one."""
    after = node.advance(head)
    completed = None if after is None else after.state.advance(tail)
    if after is None or completed is None:  # a cursor reads only what the grammar reads
        return
    repetition = first_repetition(after.cursor, tail)
    if repetition is None:
        yield head + tail if completed.is_complete else None
        return
    start, end, _ = repetition
    start += len(tail[start:]) - len(tail[start:].lstrip(_SEPARATORS))
    for behind in (tail[end + 1 :], tail[end:]):  # what shows that a number repeats is behind it
        yield _if_complete(node, head + tail[:start] + skipped + behind)


def _items(cursor: Cursor, text: bytes) -> Iterator[tuple[int, int]]:
    """Where the items begin and end that a text completes; the first may have begun before."""
    start = None if cursor.json.scalar is None and cursor.json.expects_element else 0
    for piece in PIECES.finditer(text):
        is_number = cursor.json.scalar is not None and not cursor.json.in_string
        if cursor.json.expects_element and piece.group().strip(_SEPARATORS):
            start = piece.start()
        following = cursor.advance(piece.group())
        if following is None:
            return
        if start is not None and has_more_elements(cursor.json, following.json):
            yield start, piece.start() if is_number else piece.end()
            start = None
        cursor = following


def _if_complete(node: SearchNode, text: bytes) -> bytes | None:
    """The text if it completes the output; else None."""
    after = node.state.advance(text)
    is_complete = after is not None and after.is_complete and node.cursor.advance(text) is not None
    return text if is_complete else None
