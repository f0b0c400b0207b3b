"""The cursor: where in a JSON text one sequence is, and which keys and items it must not repeat there.

A cursor is a value: advancing gives a new one. `compiler.guard.open_containers` has the objects and arrays
that the text is inside of, and says how their elements are compared.
"""

import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from compiler.guard.growing_text import GrowingText
from compiler.guard.json_characters import (
    CANONICAL_CHARACTER,
    ESCAPE,
    canonical_spelling,
    ends_character,
)
from compiler.guard.open_containers import OpenContainer, SeenElement
from compiler.guard.plan import GuardPlan, PathStates
from compiler.guard.string_bounds import LengthBound, RemainingLength
from compiler.regular import charset
from compiler.regular.utf8 import char_range, chars_of_escape, decode_prefix

_BACKSLASH = b"\\"
_UNESCAPED = re.compile(rb'[^"\\]*')
_SCALAR_END = b",]} \t\n\r"
_NOTHING = GrowingText()
_QUOTE = _NOTHING + b'"'


class JsonCursor(NamedTuple):
    """A point in a JSON text: in `container`, inside a string or another scalar if `scalar` is not None."""

    plan: GuardPlan
    container: OpenContainer | None = None
    scalar: GrowingText | None = None
    """The canonical spelling of the scalar so far; only the quote of a string that is not compared."""
    in_string: bool = False
    """The scalar is a string."""
    escape: bytes = b""
    """An escape that is not complete."""
    expects_element: bool = False
    """A key or an item begins here, unless the container ends."""
    is_key: bool = False
    """The string is a key."""
    remaining: RemainingLength | None = None
    """What remains of the string's bound; None if it has none."""
    is_after_character: bool = False
    """Inside a string, after a complete character; False also if the last token alone does not show it."""
    is_complete: bool = False
    """The JSON text is complete; the cursor ignores what follows."""
    num_marked: int = 0
    """How many marked keys the text has had."""

    @property
    def json(self) -> "JsonCursor":
        """This cursor; a `TaggedCursor` has one too, for the JSON inside its tags."""
        return self

    @property
    def containers(self) -> Iterator[OpenContainer]:
        """The open containers, from the innermost outwards."""
        return iter(()) if self.container is None else self.container.and_around

    @property
    def _text(self) -> GrowingText:
        """The text of the container; empty outside of any that is recorded."""
        return _NOTHING if self.container is None else self.container.text

    def advance(self, text: bytes) -> "JsonCursor | None":
        """The cursor after more text; None if an element repeats there, or a string cannot keep its bound.

        `JsonCursor(GuardPlan()).advance(b'{"a":1,"a":')` is None.
        """
        return self.advance_from(text, 0)[0]

    def advance_from(self, text: bytes, at: int) -> "tuple[JsonCursor | None, int]":
        """As `advance`, from `at` on; and where reading ended: after the JSON text if that is complete."""
        cursor = self
        while at < len(text) and not cursor.is_complete:
            if cursor.in_string:
                following, at = cursor._read_string(text, at)
            else:
                following, at = cursor._read_outside_string(text, at)
            if following is None:
                return None, at
            cursor = following
        return cursor, at

    def _read_string(self, text: bytes, at: int) -> "tuple[JsonCursor | None, int]":
        """Read from `at` to the end of the string, of an escape, or of the text, and return where that is."""
        assert self.scalar is not None
        if self.escape:
            return self._read_escape(text[at : at + 1]), at + 1
        run = _UNESCAPED.match(text, at)
        assert run is not None
        characters, at = run.group(), run.end()
        escape = _BACKSLASH if text.startswith(_BACKSLASH, at) else b""
        remaining = self.remaining and self.remaining.after(characters, begins_escape=bool(escape))
        if remaining is not None and not remaining.can_end(escape):
            return None, at
        scalar = self.scalar + characters if self._is_recorded else self.scalar
        if escape:
            after = self._replace(scalar=scalar, escape=escape, remaining=remaining, is_after_character=False)
            return after, at + 1
        if at < len(text):
            may_end = remaining is None or remaining.is_end
            return (self._after_string(scalar) if may_end else None), at + 1
        return self._after_characters(characters, scalar, remaining), at

    def _after_characters(
        self, characters: bytes, scalar: GrowingText, remaining: RemainingLength | None
    ) -> "JsonCursor | None":
        """The cursor where a text ends inside the string, after some of its characters."""
        if not self._can_differ(scalar, b"", remaining):
            return None
        is_after = ends_character(characters)
        if scalar is self.scalar and remaining == self.remaining and is_after == self.is_after_character:
            return self
        return self._replace(scalar=scalar, remaining=remaining, is_after_character=is_after)

    def _after_string(self, scalar: GrowingText) -> "JsonCursor | None":
        ended = self._replace(scalar=None, in_string=False, remaining=None, is_after_character=False)
        value = bytes(scalar) + b'"'
        return ended.after_key(value) if self.is_key else ended.after_value(self._text + value)

    @property
    def _is_recorded(self) -> bool:
        """Whether the canonical spelling of this scalar is needed."""
        return self.is_key or (self.container is not None and self.container.records_values)

    def _read_escape(self, byte: bytes) -> "JsonCursor | None":
        escape, scalar, remaining = self.escape + byte, self.scalar, self.remaining
        assert scalar is not None
        if ESCAPE.fullmatch(escape):
            remaining = remaining and remaining.after_escape(json.loads(b'"' + escape + b'"'))
            scalar += canonical_spelling(escape) if self._is_recorded else b""
            escape = b""
        if remaining is not None and not remaining.can_end(escape):
            return None
        if not self._can_differ(scalar, escape, remaining):
            return None
        return self._replace(escape=escape, scalar=scalar, remaining=remaining)

    def _can_differ(self, scalar: GrowingText, escape: bytes, remaining: RemainingLength | None) -> bool:
        """Whether the string can still become another item than those of the array.

        Where it may have more characters, it can: no array holds every text that is one character longer.
        """
        container = self.container
        is_full = remaining is not None and not remaining.num_left
        if not is_full or container is None or not container.has_distinct_items:
            return True
        text = bytes(scalar)
        partial = escape or decode_prefix(text)[1]
        if not partial:
            return text + b'"' not in container.seen
        possible = (
            chars_of_escape(escape) if escape else charset.intersection((char_range(partial),), charset.ALL)
        )
        written = text if escape else text[: -len(partial)]
        rests = (seen[len(written) : -1] for seen in container.seen.beginning_with(written))
        chars = (json.loads(b'"' + rest + b'"') for rest in rests if CANONICAL_CHARACTER.fullmatch(rest))
        return sum(charset.contains(possible, ord(char)) for char in chars) < charset.size(possible)

    def _read_outside_string(self, text: bytes, at: int) -> "tuple[JsonCursor | None, int]":  # noqa: PLR0911 - a case per character
        """Read a structural character, a blank, or a byte of a scalar, and return where that ends."""
        byte = text[at : at + 1]
        if self.scalar is not None and byte not in _SCALAR_END:
            return self._replace(scalar=self.scalar + byte), at + 1
        if self.scalar is not None:
            return self._replace(scalar=None).after_value(self._text + bytes(self.scalar)), at
        match byte:
            case b" " | b"\t" | b"\n" | b"\r":
                return self, at + 1
            case b'"':
                return self._open_string(), at + 1
            case b"{" | b"[":
                return self._open(is_object=byte == b"{"), at + 1
            case b"}" | b"]":
                return self._close(byte), at + 1
            case b",":
                return self._after_comma(), at + 1
            case b":":
                return self._after_colon(), at + 1
            case _ if self.container is None:  # a number, or what a call has before its arguments
                return self, at + 1
            case _:
                return self._replace(scalar=_NOTHING + byte, expects_element=False), at + 1

    def _open_string(self) -> "JsonCursor":
        bound = self.bound_of_value
        return self._replace(
            scalar=_QUOTE,
            in_string=True,
            is_key=self._is_before_key,
            remaining=bound and bound.start,
            expects_element=False,
        )

    def _open(self, *, is_object: bool) -> "JsonCursor":
        parent, states = self.container, self._value_states()
        is_recorded = parent is not None and parent.records_values
        container = OpenContainer(
            parent=parent,
            states=states,
            is_object=is_object,
            forbids_repeats=self.plan.repeats_keys if is_object else self.plan.is_distinct_at(states),
            can_run_out=self.plan.can_run_out_at(states),
            marked_keys=self.plan.marked_keys_at(states) if is_object else frozenset(),
            is_recorded=is_recorded,
            text=self._text + (b"{" if is_object else b"[") if is_recorded else _NOTHING,
        )
        return self._replace(container=container, expects_element=True)

    def _value_states(self) -> PathStates:
        """The path states of the value that begins here."""
        container = self.container
        if container is None:
            return self.plan.start
        step = json.loads(container.key) if container.is_object else container.item_index
        return self.plan.inside(container.states, step)

    def _close(self, bracket: bytes) -> "JsonCursor | None":
        assert self.container is not None
        closed = self._replace(container=self.container.parent, expects_element=False)
        return closed.after_value(self._text + bracket)

    def _after_comma(self) -> "JsonCursor":
        container = self.container
        assert container is not None, "a comma stands in a container"
        text = container.text + b"," if container.is_recorded else _NOTHING
        container = container._replace(item_index=container.item_index + 1, text=text)
        return self._replace(container=container, expects_element=True)

    def _after_colon(self) -> "JsonCursor":
        container = self.container
        assert container is not None, "a colon stands in an object"
        if not container.is_recorded:
            return self
        return self._replace(container=container._replace(text=container.text + b":"))

    def after_key(self, key: bytes) -> "JsonCursor | None":
        """The cursor after a key in its canonical spelling; None if the object has it."""
        container = self.container
        assert container is not None
        if key in container.seen:
            return None
        seen = container.seen.adding(key) if container.forbids_repeats else container.seen
        text = container.text + key if container.is_recorded else _NOTHING
        num_marked = self.num_marked + (key in container.marked_keys)
        container = container._replace(seen=seen, key=key, text=text)
        return self._replace(is_key=False, container=container, num_marked=num_marked)

    def after_value(self, text: GrowingText) -> "JsonCursor | None":
        """The cursor after a value; None if it is an item that the array has.

        `text` is the container's text with the value in its canonical spelling.
        """
        container = self.container
        if container is None:
            return self._replace(is_complete=True)
        if container.has_distinct_items:
            value = text.since(len(container.text))
            if value in container.seen:
                return None
            container = container._replace(seen=container.seen.adding(value))
        if container.is_recorded:
            container = container._replace(text=text)
        return self if container is self.container else self._replace(container=container)

    @property
    def bound_of_value(self) -> LengthBound | None:
        """The bound of the string that would begin here as a value; None if none may, or it has none."""
        if not self.plan.bounds or self.scalar is not None or self.is_complete:
            return None
        return None if self._is_before_key else self.plan.bound_at(self._value_states())

    @property
    def _is_before_key(self) -> bool:
        """Whether a string that begins here is a key."""
        return self.expects_element and self.container is not None and self.container.is_object

    @property
    def is_in_plain_string(self) -> bool:
        """Whether the same tokens may follow any character of this string, apart from its length bound."""
        container = self.container
        if self.scalar != _QUOTE or self.escape or self.is_key or container is None:
            return False
        if container.records_values or self.can_run_out:
            return False
        return self.plan.is_plain_at(self._value_states())

    @property
    def marked_keys(self) -> frozenset[bytes]:
        """The marked keys of the innermost object, if one of its keys is being written or must begin here."""
        container = self.container
        if container is None or not (self.is_key or (self.expects_element and self.scalar is None)):
            return frozenset()
        return container.marked_keys

    @property
    def can_run_out(self) -> bool:
        """Whether the elements of any open container can run out."""
        return self.plan.can_run_out and any(container.can_run_out for container in self.containers)

    def seen_elements(self) -> Iterator[SeenElement]:
        """The elements that the text would repeat if it went on as they do.

        Where a comma would have to come first, so that none has begun, only elements that can run out.
        """
        elements = self._seen_elements()
        if not self.escape:
            return elements
        return chain.from_iterable(element.after_escape(self.escape) for element in elements)

    def _seen_elements(self) -> Iterator[SeenElement]:
        """As `seen_elements`, with the character that an incomplete escape has begun still to be written."""
        for container in self.containers:
            if container.forbids_repeats and container.seen.size:
                yield from self._seen_in(container)
            if not container.is_recorded:  # no container around compares what is in this one
                return

    def _seen_in(self, container: OpenContainer) -> Iterator[SeenElement]:
        """As `_seen_elements`, of one container."""
        can_run_out, is_innermost = container.can_run_out, container is self.container
        if is_innermost and self.scalar is None and not self.expects_element:
            for seen in container.seen.beginning_with(b"") if can_run_out else ():
                yield SeenElement(b"," + seen, can_run_out, is_begun=False)
        elif not container.is_object or (is_innermost and (self.is_key or self.scalar is None)):
            begun = self._text.since(len(container.text)) + bytes(self.scalar or b"")
            for seen in container.seen.beginning_with(begun):
                yield SeenElement(seen[len(begun) :], can_run_out, is_begun=True)

    @property
    def repetition_state(self) -> object:
        """Equal only for cursors after which the same texts repeat nothing.

        The innermost text has the elements of all containers that are recorded.
        """
        containers = tuple(
            (
                container.states,
                container.is_object,
                container.forbids_repeats,
                container.can_run_out,
                container.marked_keys,
                container.is_recorded,
                container.item_index,
                container.key,
                None if container.is_recorded else container.seen,
            )
            for container in self.containers
        )
        return containers, self._text, self.scalar, self.escape, self.expects_element

    @property
    def can_be_dead_end(self) -> bool:
        """Whether perhaps every continuation repeats an element (see `DeadEndSearch`)."""
        return any(element.can_run_out and element.is_begun for element in self.seen_elements())
