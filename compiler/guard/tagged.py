"""The cursor of arguments in tags: it looks into the tags that hold JSON."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from compiler.guard.cursor import Cursor, Scope
from compiler.guard.pattern import Room
from compiler.guard.plan import Plan, Tags
from compiler.guard.target import Target

_OPENINGS = (b"[", b"{")
_BLANKS = b" \t\n\r"


class TaggedCursor(NamedTuple):
    """A place in a text of tagged parameters; a value with the interface of `Cursor`."""

    plan: Plan
    tags: Tags
    inner: Cursor | None = None
    """Where in the JSON of the tag."""
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
        if self.inner is not None:
            inner = self.inner.advance(byte)
            if inner is None:
                return None
            return (
                self._replace(inner=None, is_skipping=True) if inner.is_over else self._replace(inner=inner)
            )
        if self.is_skipping:
            read = (self.read + byte)[-len(self.tags.end) :]
            return TaggedCursor(self.plan, self.tags) if read == self.tags.end else self._replace(read=read)
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
        inner = Cursor(replace(self.plan, start=places, tags=None)).advance(byte)
        return self._replace(read=b"", key=None, inner=inner)

    def targets(self) -> Iterator[Target]:
        """What would repeat a key or an item from here."""
        return iter(()) if self.inner is None else self.inner.targets()

    @property
    def in_string(self) -> bool:
        """Whether this is inside a string of JSON."""
        return self.inner is not None and self.inner.in_string

    @property
    def can_run_out(self) -> bool:
        """Whether this is in a container whose keys or items can run out."""
        return self.inner is not None and self.inner.can_run_out

    @property
    def is_in_plain_string(self) -> bool:
        """Whether the same may follow as at any other place inside the string, lengths aside."""
        return self.inner is not None and self.inner.is_in_plain_string

    @property
    def is_settled(self) -> bool:
        """Whether this is inside a string, behind a whole character of it."""
        return self.inner is not None and self.inner.is_settled

    @property
    def room(self) -> Room | None:
        """What is left of the string's bound."""
        return None if self.inner is None else self.inner.room

    @property
    def is_over(self) -> bool:
        """Whether nothing here can repeat."""
        return self.inner is None

    @property
    def can_be_dead_end(self) -> bool:
        """Whether it may be that nothing but a repeated key or item can follow."""
        return self.inner is not None and self.inner.can_be_dead_end

    @property
    def place(self) -> object:
        """Equal where the same may follow without repeating anything."""
        return None if self.inner is None else self.inner.place

    @property
    def scope(self) -> Scope | None:
        """The innermost open container."""
        return None if self.inner is None else self.inner.scope

    @property
    def chunk(self) -> bytes | None:
        """The scalar so far."""
        return None if self.inner is None else self.inner.chunk

    @property
    def escape(self) -> bytes:
        """An escape that is not complete."""
        return b"" if self.inner is None else self.inner.escape

    @property
    def expects(self) -> bool:
        """Whether a key or an item begins here."""
        return self.inner is not None and self.inner.expects


AnyCursor = Cursor | TaggedCursor


def start_of(plan: Plan) -> AnyCursor:
    """Before the text."""
    return Cursor(plan) if plan.tags is None else TaggedCursor(plan, plan.tags)
