r"""The cursor of tagged parameters: it follows the tags, and a `JsonCursor` follows the JSON inside them.

Of `<parameter=tags>\n["a", "b"]\n</parameter>`, the JSON cursor reads the array. Tags that hold a string as
raw text are skipped, and so are tags that the plan does not name.
"""

from dataclasses import replace
from typing import NamedTuple

from compiler.guard.cursor import JsonCursor
from compiler.guard.plan import GuardedTags, GuardPlan

_OPENINGS = (b"[", b"{")
_BLANKS = b" \t\n\r"


class TaggedCursor(NamedTuple):
    """A point in a text of tagged parameters; a value."""

    plan: GuardPlan
    tags: GuardedTags
    json: JsonCursor
    """The cursor in the JSON of a tag; complete outside of any."""
    read: bytes = b""
    """What has been read of a tag, or of the text that may end one."""
    key: str | None = None
    """The key of the tag whose value begins here."""
    is_skipping: bool = False
    """The guard has nothing to look at up to the end of the tag."""

    def advance(self, text: bytes) -> "TaggedCursor | None":
        """The cursor after more text; None if an element repeats, or a string cannot keep to its bound."""
        cursor = self
        for at in range(len(text)):
            following = cursor.step(text[at : at + 1])
            if following is None:
                return None
            cursor = following
        return cursor

    def step(self, byte: bytes) -> "TaggedCursor | None":
        """The cursor after one byte; None as for `advance`."""
        if not self.json.is_complete:
            following = self.json.advance(byte)
            return following and self._replace(json=following, is_skipping=following.is_complete)
        if self.is_skipping:
            read = (self.read + byte)[-len(self.tags.end) :]
            return _before_tag(self.plan, self.tags) if read == self.tags.end else self._replace(read=read)
        if self.key is None:
            return self._in_tag(self.read + byte)
        return self._at_value(self.key, byte)

    def _in_tag(self, read: bytes) -> "TaggedCursor":
        """The cursor where `read` holds a tag up to here, or what leads to one."""
        begin, after = self.tags.begin, self.tags.after_key
        at = read.find(begin)
        if at < 0:
            return self._replace(read=read)
        key = read[at + len(begin) :]
        if key.endswith(self.tags.after_string_key) and self.tags.after_string_key != after:
            return self._replace(read=b"", is_skipping=True)
        if not key.endswith(after):
            return self._replace(read=read)
        name = key[: -len(after)].decode()
        return self._replace(read=b"", key=name, is_skipping=name not in self.tags.keys)

    def _at_value(self, key: str, byte: bytes) -> "TaggedCursor | None":
        """The cursor after a byte at which the value of `key` may begin."""
        if byte in _BLANKS:  # read on from it: the end of an empty text begins with a blank
            return self._replace(read=(self.read + byte)[-len(self.tags.end) :])
        if byte not in _OPENINGS:
            return self._replace(key=None, is_skipping=True).step(byte)
        states = self.plan.inside(self.plan.start, key)
        begun = JsonCursor(replace(self.plan, start=states, tags=None)).advance(byte)
        return begun and self._replace(read=b"", key=None, json=begun)


Cursor = JsonCursor | TaggedCursor


def start_cursor(plan: GuardPlan) -> Cursor:
    """The cursor before the text."""
    return JsonCursor(plan) if plan.tags is None else _before_tag(plan, plan.tags)


def _before_tag(plan: GuardPlan, tags: GuardedTags) -> TaggedCursor:
    return TaggedCursor(plan, tags, JsonCursor(plan, is_complete=True))
