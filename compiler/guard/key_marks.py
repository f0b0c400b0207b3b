"""Key marks: what a grammar reads after a declared key that its rules could also read as an undeclared one.

No output has marks. Where `a` is a marked key and `^` stands for the mark, the output is `{"a": 1, "b": 2}`,
and a matcher is given `{"a"^: 1, "b": 2}`. The cursor tells where marks belong. Whatever a grammar reads with
marks it also reads without them, but not the other way round.
"""

from collections.abc import Callable
from itertools import pairwise

import xgrammar as xgr

from compiler.guard.tagged_cursor import Cursor
from compiler.vocabulary import KEY_MARK

_KEY_MARK = KEY_MARK.encode()

Marking = Callable[[bytes], bytes]
"""From a text to the text with its marks."""


def marked_key_ends(cursor: Cursor, text: bytes) -> list[int]:
    """Where the marked keys end in a text that follows `cursor`, up to the first repetition."""
    ends: list[int] = []
    at = 0
    while cursor.plan.marks_keys and (quote := text.find(b'"', at)) >= 0:
        following = cursor.advance(text[at : quote + 1])
        if following is None:
            break
        if has_mark(cursor, following):
            ends.append(quote + 1)
        cursor, at = following, quote + 1
    return ends


def marked_text(cursor: Cursor, text: bytes) -> bytes:
    """A text that follows `cursor`, as the grammar reads it: with a mark after every marked key."""
    ends = marked_key_ends(cursor, text)
    if not ends:
        return text
    return _KEY_MARK.join(text[start:end] for start, end in pairwise((0, *ends, len(text))))


def has_mark(before: Cursor, after: Cursor) -> bool:
    """Whether a mark belongs into the text from one cursor to another."""
    return after.json.num_marked > before.json.num_marked


def accept_text(matcher: xgr.GrammarMatcher, text: bytes, marked: Marking) -> bool:
    """Let the matcher accept any text in one step, with its marks; False, and no change, if it does not.

    The matcher gets the text without marks first, so that no cursor reads a text that is not JSON.
    """
    if not matcher.accept_string(text):
        return False
    with_marks = marked(text)
    if with_marks == text:
        return True
    matcher.rollback(1)
    return bool(matcher.accept_string(with_marks))


def accept_token(
    matcher: xgr.GrammarMatcher, token_id: int, token: bytes, before: Cursor, after: Cursor
) -> bool:
    """Let the matcher accept a token, with its marks; False, and no change, if it does not."""
    if has_mark(before, after):
        return bool(matcher.accept_string(marked_text(before, token)))
    return bool(matcher.accept_token(token_id))


def reads_token(matcher: xgr.GrammarMatcher, token: bytes, before: Cursor, after: Cursor) -> bool:
    """Whether the grammar reads a token that its mask allows, with the marks that belong into it."""
    return not has_mark(before, after) or reads_marked(matcher, marked_text(before, token))


def reads_marked(matcher: xgr.GrammarMatcher, text: bytes) -> bool:
    """Whether the grammar reads a text with marks here, or what of it completes the grammar; no change."""
    if matcher.accept_string(text):
        matcher.rollback(1)
        return True
    if b"}" not in text:  # the object stays open
        return False
    num_read = 0
    while not matcher.is_completed() and matcher.accept_string(text[num_read : num_read + 1]):
        num_read += 1
    is_completed = bool(matcher.is_completed())
    matcher.rollback(num_read)
    return is_completed
