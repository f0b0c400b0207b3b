"""The text of a call after its header: its number, its arguments and its end are told apart as they come."""

from dataclasses import dataclass, replace
from typing import Self

import xgrammar as xgr

from compiler.syntax import Syntax
from compiler.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class CallText:
    r"""How far a call's text has come; a value.

    `end` is what every call ends with after its arguments. It is None where these are tagged parameters:
    the reader of the tags finds where they end. `after_number` follows the number of a call. It is empty
    where calls have no number.

    The arguments are over as soon as `end` would complete the call. Say `end` is `}\n</tool_call>`. After
    `{"a": {}` it would not complete the call, since the object is still open. After `{"a": {}}` it would. No
    JSON object begins with another one, so this happens only once in a call.
    """

    end: bytes | None = None
    after_number: bytes = b""
    number: bytes = b""
    """What has been read of the number, and of what follows it."""
    is_past_number: bool = False
    """The number is over: the arguments begin."""
    is_over: bool = False
    """The arguments are over."""

    @classmethod
    def of(cls, syntax: Syntax, vocabulary: Vocabulary) -> Self:
        """The beginning of every call in a syntax."""
        after_number = vocabulary.spell(syntax.after_number or "").encode()
        end = vocabulary.spell(syntax.end).encode() if syntax.tags is None else None
        return cls(end, after_number, is_past_number=not after_number)

    def advance(self, text: bytes, matcher: xgr.GrammarMatcher) -> tuple[Self, bytes]:
        """How far the call is after `text`, which `matcher` has accepted, and what of `text` is arguments."""
        if self.is_over:
            return self, b""
        if not self.is_past_number:
            number, has_ended, text = (self.number + text).partition(self.after_number)
            if not has_ended:
                return replace(self, number=number), b""
            return replace(self, is_past_number=True).advance(text, matcher)
        if self.end is None or b"}" not in text:
            return self, text
        num_after = self._num_after(text, self.end, matcher)
        if num_after is None:
            return self, text
        return replace(self, is_over=True), text[: len(text) - num_after]

    def complete(self, text: bytes) -> bytes:
        """What of `text`, with which the call is complete, is arguments."""
        if self.is_over:
            return b""
        if not self.is_past_number:
            text = (self.number + text).partition(self.after_number)[2]
        return text[: len(text) - len(self.end or b"")]

    def _num_after(self, text: bytes, end: bytes, matcher: xgr.GrammarMatcher) -> int | None:
        """How many bytes of `text` follow the arguments; None if these are not over."""
        for num_read in range(min(len(end), len(text))):
            if text.endswith(b"}" + end[:num_read]) and matcher.accept_string(end[num_read:]):
                is_completed = matcher.is_completed()
                matcher.rollback(1)
                if is_completed:
                    return num_read
        return None
