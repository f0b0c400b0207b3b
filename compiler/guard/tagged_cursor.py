"""The cursor of arguments in tags: it looks into the tags that hold JSON."""

from dataclasses import replace
from typing import NamedTuple

from compiler.guard.cursor import JsonCursor
from compiler.guard.plan import GuardedTags, GuardPlan

_OPENINGS = (b"[", b"{")
_BLANKS = b" \t\n\r"


class TaggedCursor(NamedTuple):
    """A place in a text of tagged parameters; a value."""

    plan: GuardPlan
    tags: GuardedTags
    in_json: JsonCursor
    """Where in the JSON of the tag; over where there is none."""
    read: bytes = b""
    """What has been read of a tag, or of the text that may end one."""
    key: str | None = None
    """The key of the tag whose value begins here."""
    is_skipping: bool = False
    """The tag holds nothing to look at, up to its end."""

    def advance(self, text: bytes) -> "TaggedCursor | None":
        """The cursor after more of the text; None if a key or an item repeats one there."""
        cursor = self
        for at in range(len(text)):
            following = cursor.step(text[at : at + 1])
            if following is None:
                return None
            cursor = following
        return cursor

    def step(self, byte: bytes) -> "TaggedCursor | None":
        """The cursor after one byte."""
        if not self.in_json.is_over:
            following = self.in_json.advance(byte)
            return following and self._replace(in_json=following, is_skipping=following.is_over)
        if self.is_skipping:
            read = (self.read + byte)[-len(self.tags.end) :]
            return _between(self.plan, self.tags) if read == self.tags.end else self._replace(read=read)
        if self.key is None:
            return self._in_tag(self.read + byte)
        return self._at_value(self.key, byte)

    def _in_tag(self, read: bytes) -> "TaggedCursor":
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
        if byte in _BLANKS:  # kept: the end of an empty text begins with one
            return self._replace(read=(self.read + byte)[-len(self.tags.end) :])
        if byte not in _OPENINGS:
            return self._replace(key=None, is_skipping=True).step(byte)
        places = self.plan.under(self.plan.start, key)
        begun = JsonCursor(replace(self.plan, start=places, tags=None)).advance(byte)
        return begun and self._replace(read=b"", key=None, in_json=begun)


Cursor = JsonCursor | TaggedCursor


def start_cursor(plan: GuardPlan) -> Cursor:
    """Before the text."""
    return JsonCursor(plan) if plan.tags is None else _between(plan, plan.tags)


def _between(plan: GuardPlan, tags: GuardedTags) -> TaggedCursor:
    """Before a tag."""
    return TaggedCursor(plan, tags, JsonCursor(plan, is_over=True))
