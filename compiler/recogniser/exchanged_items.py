"""Adapts a known completion to an output that wrote another item than planned.

An example: a model must rank forty names. The completion begins with one of them, and the model writes
another one. A search for a new completion takes thousands of attempts, and again at each item. It is enough
to exchange two items: `["a","b","c"]` was planned, `["c` is written, and `["c","b","a"]` completes it.
"""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from compiler.guard.tagged_cursor import Cursor
from compiler.recogniser.guarded_completion import SearchNode, deviations
from compiler.recogniser.parser_state import ParserState
from compiler.recogniser.repetitions import BLANKS, PIECES, first_repetition, has_more_elements

_SEPARATORS = BLANKS + b","
_MAX_TRIED = 4
_MAX_ENDINGS = 64
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
        if not before.json.in_string and (num_blanks := len(rest) - len(rest.lstrip(BLANKS))):
            after = before.advance(rest[:num_blanks])  # a plan has no blanks, but a model writes some
            return after and PlannedText(after, self.text[shared:]).after(rest[num_blanks:], cursor)
        return PlannedText(before, self.text[shared:], rest)


def with_exchanged_item(state: ParserState, cursor: Cursor, planned: PlannedText) -> bytes | None:
    """What completes a text as it was planned, but for two exchanged items; None if this does not."""
    if cursor.plan.marks_keys:
        return None
    node = SearchNode(b"", state, cursor, 0)
    texts = _exchanges(node, planned) if planned.read else iter([_if_complete(node, planned.text)])
    return next((text for text in islice(texts, _MAX_TRIED) if text is not None), None)


def _exchanges(node: SearchNode, planned: PlannedText) -> Iterator[bytes | None]:
    """Texts in which the planned item takes the place of the item that is being written.

    None is one that does not complete the output.
    """
    text, items = planned.text, _items(planned.cursor, planned.text)
    first = next(items, None)
    if first is None:
        return
    start, end = first
    planned_item, rest = bytes(planned.cursor.json.scalar or b"") + text[start:end], text[end:]
    if has_more_elements(planned.cursor.json, node.cursor.json):  # the item is over
        yield from _without_repetition(node, b"", rest, planned_item)
        return
    endings = _endings(node)
    yield from _without_repetition(node, next(endings), rest, planned_item)
    written = bytes(node.cursor.json.scalar or b"")
    for later, its_end in items if written else ():
        if text.startswith(written, later):  # a later item of the plan may be meant
            ending, between = text[later + len(written) : its_end], text[end:later]
            yield _if_complete(node, ending + between + planned_item + text[its_end:])
    for ending in endings:
        yield from _without_repetition(node, ending, rest, planned_item)


def _endings(node: SearchNode) -> Iterator[bytes]:
    """Some ways in which the item that is being written can go on to its end; the shortest is the first."""
    shortest = _first_ending(node)
    yield shortest
    for attempt in islice(deviations(node, shortest), _MAX_ENDINGS):
        begun = attempt.begun()
        if begun is not None:
            yield begun.text + _first_ending(begun)


def _first_ending(node: SearchNode) -> bytes:
    """The grammar's completion up to the end of the item that is being written; empty if it ends none."""
    rest = node.state.completion()
    _, end = next(_items(node.cursor, rest), (0, 0))
    return rest[:end]


def _without_repetition(
    node: SearchNode, ending: bytes, rest: bytes, planned_item: bytes
) -> Iterator[bytes | None]:
    """An ending and the rest of a plan, where the planned item stands in place of a repeated one."""
    after = node.advance(ending)
    completed = None if after is None else after.state.advance(rest)
    if after is None or completed is None:  # a cursor reads only what the grammar reads
        return
    repetition = first_repetition(after.cursor, rest)
    if repetition is None:
        yield ending + rest if completed.is_complete else None
        return
    start, end = repetition[:2]
    start += len(rest[start:]) - len(rest[start:].lstrip(_SEPARATORS))
    for behind in (rest[end + 1 :], rest[end:]):  # what shows that a number repeats is behind it
        yield _if_complete(node, ending + rest[:start] + planned_item + behind)


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
