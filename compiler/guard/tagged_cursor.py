r"""The cursor of tagged parameters: it follows the tags, and a `JsonCursor` follows the JSON inside them.

Of `<parameter=tags>\n["a", "b"]\n</parameter>`, the JSON cursor reads the array. Raw texts are skipped up to
their end, and so are tags that the plan does not name. Whether a text is raw follows from the types of its
key (`compiler.tagged_values`): the lowering bars from raw texts exactly what is taken for JSON here.
"""

from typing import NamedTuple

from compiler.guard.cursor import JsonCursor
from compiler.guard.growing_text import GrowingText
from compiler.guard.plan import GuardedTags, GuardPlan
from compiler.tagged_values import JSON_BLANKS, begins_container


class TaggedCursor(NamedTuple):
    """A point in a text of tagged parameters; a value."""

    plan: GuardPlan
    tags: GuardedTags
    json: JsonCursor
    """The cursor in the JSON of a tag; complete outside of any."""
    read: GrowingText = GrowingText()
    """What has been read of a tag, or of the text that may end one."""
    key: str | None = None
    """The key of the tag whose value begins here."""
    is_skipping: bool = False
    """The guard has nothing to look at up to the end of the tag."""
    is_over: bool = False
    """The parameters are over: the cursor ignores what follows."""

    def advance(self, text: bytes) -> "TaggedCursor | None":
        """The cursor after more text; None if an element repeats, or a string cannot keep to its bound."""
        cursor, at = self, 0
        while at < len(text) and not cursor.is_over:
            following, at = cursor._read_on(text, at)
            if following is None:
                return None
            cursor = following
        return cursor

    def _read_on(self, text: bytes, at: int) -> "tuple[TaggedCursor | None, int]":
        """Read from `at` to the end of some JSON or raw text, or one byte of a tag; and where that is."""
        if not self.json.is_complete:
            json, at = self.json.advance_from(text, at)
            return json and self._replace(json=json, is_skipping=json.is_complete), at
        if self.is_skipping:
            return self._skip(text, at)
        byte = text[at : at + 1]
        after = self._in_tag(self.read + byte) if self.key is None else self._at_value(self.key, byte)
        return after, at + 1

    def _skip(self, text: bytes, at: int) -> "tuple[TaggedCursor, int]":
        """Read from `at` to the end of the tag, or of the text, and return where that is."""
        end, read = self.tags.end, bytes(self.read) + text[at:]
        end_at = read.find(end)
        if end_at < 0:
            return self._replace(read=GrowingText() + read[1 - len(end) :]), len(text)
        after_tag = at + end_at + len(end) - len(self.read)
        return _before_tag(self.plan, self.tags, self.json.num_marked), after_tag

    def _in_tag(self, read: GrowingText) -> "TaggedCursor":
        """The cursor where `read` holds a tag up to here, or the beginning of what ends the parameters."""
        begin, after = self.tags.begin, self.tags.after_key
        if not read.startswith(begin):
            return self._replace(read=read, is_over=not begin.startswith(bytes(read)))
        if read.endswith(self.tags.after_string_key, len(begin)) and self.tags.after_string_key != after:
            return self._replace(read=GrowingText(), is_skipping=True)
        if not read.endswith(after, len(begin)):
            return self._replace(read=read)
        name = read.since(len(begin))[: -len(after)].decode()
        return self._replace(read=GrowingText(), key=name, is_skipping=name not in self.tags.types)

    def _at_value(self, key: str, byte: bytes) -> "TaggedCursor | None":
        """The cursor after a byte at which the value of `key` may begin."""
        char = chr(byte[0])
        if char in JSON_BLANKS:  # it may begin what ends the tag
            read = bytes(self.read + byte)[1 - len(self.tags.end) :]
            return self._replace(read=GrowingText() + read)
        if not begins_container(self.tags.types[key], char):
            return self._replace(key=None, is_skipping=True).advance(byte)
        start = JsonCursor(self.plan.of_parameter(key), num_marked=self.json.num_marked)
        begun = start.advance(byte)
        return begun and self._replace(read=GrowingText(), key=None, json=begun)


Cursor = JsonCursor | TaggedCursor


def start_cursor(plan: GuardPlan) -> Cursor:
    """The cursor before the text."""
    return JsonCursor(plan) if plan.tags is None else _before_tag(plan, plan.tags)


def _before_tag(plan: GuardPlan, tags: GuardedTags, num_marked: int = 0) -> TaggedCursor:
    return TaggedCursor(plan, tags, JsonCursor(plan, is_complete=True, num_marked=num_marked))
