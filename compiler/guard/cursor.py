"""The cursor: where in a JSON text one sequence is, and which keys and items would repeat one.

A cursor is a value: reading on gives another. Texts are compared in a canonical form: without blanks, with
every character of a string spelled as `json.dumps` spells it outside ASCII. The lowering sees to it that
items that must differ have one such form each (`Lowering.is_distinct`).
"""

import json
import re
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

from collections.abc import Iterator

from compiler.guard.plan import GuardPlan, PathStates
from compiler.guard.string_bounds import RemainingLength
from compiler.guard.token_lengths import ESCAPE

_CHARACTER = re.compile(rb"\\u....|\\.|[\x00-\x21\x23-\x7f]|[\xc0-\xff][\x80-\xbf]+", re.DOTALL)
_SHORT = {json.loads(f'"\\{char}"'): b"\\" + char.encode() for char in '"\\/bfnrt'}


class SeenElement(NamedTuple):
    """The rest of a key or an item seen before, in the canonical form; from its beginning, with a comma."""

    text: bytes
    can_run_out: bool
    """The keys or items that begin like it can run out (see `compiler.guard.guard`)."""
    is_begun: bool
    """It must be written on: a container does not end here."""

    def past(self, escape: bytes) -> "Iterator[SeenElement]":
        """What is left of it where an escape of its first character has begun, in each spelling of that."""
        char = _CHARACTER.match(self.text)
        if char is not None:
            for spelling in _spellings(char.group()):
                if spelling.startswith(escape):
                    yield self._replace(text=spelling[len(escape) :] + self.text[char.end() :])


@cache
def _spellings(canonical: bytes) -> tuple[bytes, ...]:
    """Every way to escape a character that is given as `json.dumps` spells it."""
    char = json.loads(b'"' + canonical + b'"')
    units = char.encode("utf-16-be").hex()
    escaped = b"".join(b"\\u" + units[at : at + 4].encode() for at in range(0, len(units), 4))
    cases = ((bytes([byte]), bytes([byte]).upper()) for byte in escaped)
    spelled = {b"".join(choice).replace(b"\\U", b"\\u") for choice in product(*cases)}
    short = _SHORT.get(char)
    return (*sorted(spelled), *(() if short is None else (short,)))


_BACKSLASH = 0x5C
_LAST = re.compile(rb"(?:[\xc0-\xdf].|[\xe0-\xef]..|[\xf0-\xff]...)\Z", re.DOTALL)
_PLAIN = re.compile(rb'[^"\\]*')
_SCALAR_END = b",]} \t\n\r"


class Scope(NamedTuple):
    """An open container; a value."""

    outer: "Scope | None"
    places: PathStates
    is_object: bool
    is_guarded: bool
    """An object whose keys may repeat, or an array of distinct items: `seen` must not."""
    can_run_out: bool
    """Its keys or items can run out (see `compiler.guard.guard`)."""
    is_recorded: bool
    """It stands in an item that must be distinct, so that `text` is kept."""
    seen: frozenset[bytes] = frozenset()
    position: int = 0
    """The index of the item."""
    text: bytes = b""
    key: bytes = b""

    @property
    def records(self) -> bool:
        """Whether what stands in it must be kept."""
        return self.is_recorded or (self.is_guarded and not self.is_object)


class JsonCursor(NamedTuple):
    """A place in a text: inside `scope`, and inside a string or another scalar if `chunk` is not None."""

    plan: GuardPlan
    scope: Scope | None = None
    chunk: bytes | None = None
    """The canonical form of the scalar so far; its opening quote alone where nobody will ask for it."""
    escape: bytes = b""
    """An escape that is not complete."""
    expects: bool = False
    """A key or an item begins here, if anything but the end of the container does."""
    is_key: bool = False
    """The string is a key."""
    room: RemainingLength | None = None
    """What is left of the string's bound; None where it has none."""
    is_settled: bool = False
    """Inside a string, behind a whole character of it; False also where that cannot be told."""
    is_over: bool = False
    """The JSON text is complete; what follows it is none."""

    @property
    def in_json(self) -> "JsonCursor":
        """This one: what `TaggedCursor` keeps apart from its tags."""
        return self

    @property
    def scopes(self) -> Iterator[Scope]:
        """The open containers, from the inside out."""
        scope = self.scope
        while scope is not None:
            yield scope
            scope = scope.outer

    @property
    def in_string(self) -> bool:
        """Whether this is inside a string."""
        return self.chunk is not None and self.chunk.startswith(b'"')

    def advance(self, text: bytes) -> "JsonCursor | None":
        """The cursor after more of a JSON text; None if something repeats there, or a string is too long."""
        cursor, at = self, 0
        while at < len(text) and not cursor.is_over:
            if cursor.in_string:
                following, at = cursor.read_string(text, at)
            else:
                following, at = cursor.read(text, at)
            if following is None:
                return None
            cursor = following
        return cursor

    def read_string(self, text: bytes, at: int) -> "tuple[JsonCursor | None, int]":
        """Read to the end of the string, of an escape, or of the text."""
        assert self.chunk is not None
        if self.escape:
            return self._read_escape(text[at : at + 1]), at + 1
        run = _PLAIN.match(text, at)
        assert run is not None
        chunk, room, at = self.chunk, self.room, run.end()
        is_escaped = at < len(text) and text[at] == _BACKSLASH
        if room is not None:
            room = room.read(run.group(), is_escaped=is_escaped)
            if not room.suffices(b"\\" if is_escaped else b""):
                return None, at
        if self._is_kept and run.group():
            chunk += run.group()
        if is_escaped:
            return self._replace(chunk=chunk, escape=b"\\", room=room, is_settled=False), at + 1
        if at == len(text):
            is_settled = _is_whole(run.group())
            is_same = chunk is self.chunk and room == self.room and is_settled == self.is_settled
            return (self if is_same else self._replace(chunk=chunk, room=room, is_settled=is_settled)), at
        ended = self._replace(chunk=None, room=None, is_settled=False)
        value = chunk + b'"'
        return (ended.after_key(value) if self.is_key else ended.after_value(value)), at + 1

    @property
    def _is_kept(self) -> bool:
        return self.is_key or (self.scope is not None and self.scope.records)

    def _read_escape(self, byte: bytes) -> "JsonCursor | None":
        escape, chunk, room = self.escape + byte, self.chunk, self.room
        assert chunk is not None
        if ESCAPE.fullmatch(escape):
            room = room and room.complete(json.loads(b'"' + escape + b'"'))
            chunk += _canonical(escape) if self._is_kept else b""
            escape = b""
        if room is not None and not room.suffices(escape):
            return None
        return self._replace(escape=escape, chunk=chunk, room=room)

    def read(self, text: bytes, at: int) -> "tuple[JsonCursor | None, int]":  # noqa: PLR0911 - a case per character
        """Read a structural character, a blank, or some of a scalar."""
        byte = text[at : at + 1]
        if self.chunk is not None and byte not in _SCALAR_END:
            return self._replace(chunk=self.chunk + byte), at + 1
        if self.chunk is not None:
            return self._replace(chunk=None).after_value(self.chunk), at
        match byte:
            case b" " | b"\t" | b"\n" | b"\r":
                return self, at + 1
            case b'"':
                is_key = self.expects and self.scope is not None and self.scope.is_object
                bound = None if is_key or not self.plan.bounds else self.plan.bound_at(self._here())
                room = bound and bound.room
                return self._replace(chunk=byte, is_key=is_key, room=room, expects=False), at + 1
            case b"{" | b"[":
                return self._open(is_object=byte == b"{"), at + 1
            case b"}" | b"]":
                return self._close(byte), at + 1
            case b",":
                return self._after_comma(), at + 1
            case b":":
                return self._after_colon(), at + 1
            case _ if self.scope is None:  # a number, or what a call writes before its arguments
                return self, at + 1
            case _:
                return self._replace(chunk=byte, expects=False), at + 1

    def _open(self, *, is_object: bool) -> "JsonCursor":
        outer, places = self.scope, self._here()
        is_distinct = not is_object and self.plan.is_distinct(places)
        is_guarded = self.plan.repeats_keys if is_object else is_distinct
        can_run_out = self.plan.can_run_out_at(places)
        is_recorded = outer is not None and outer.records
        text = (b"{" if is_object else b"[") if is_recorded else b""
        scope = Scope(outer, places, is_object, is_guarded, can_run_out, is_recorded, text=text)
        return self._replace(scope=scope, expects=True)

    def _here(self) -> PathStates:
        """The places of the value that begins here."""
        scope = self.scope
        if scope is None:
            return self.plan.start
        return self.plan.under(scope.places, json.loads(scope.key) if scope.is_object else scope.position)

    def _close(self, bracket: bytes) -> "JsonCursor | None":
        assert self.scope is not None
        closed = self._replace(scope=self.scope.outer, expects=False)
        return closed.after_value(self.scope.text + bracket)

    def _after_comma(self) -> "JsonCursor":
        scope = self.scope
        assert scope is not None, "a comma stands in a container"
        text = scope.text + b"," if scope.is_recorded else b""
        return self._replace(scope=scope._replace(position=scope.position + 1, text=text), expects=True)

    def _after_colon(self) -> "JsonCursor":
        scope = self.scope
        assert scope is not None, "a colon stands in an object"
        return self._replace(scope=scope._replace(text=scope.text + b":")) if scope.is_recorded else self

    def after_key(self, key: bytes) -> "JsonCursor | None":
        """Behind a key in its canonical form."""
        scope = self.scope
        assert scope is not None
        if key in scope.seen:
            return None
        seen = scope.seen | {key} if scope.is_guarded else scope.seen
        text = scope.text + key if scope.is_recorded else b""
        return self._replace(is_key=False, scope=scope._replace(seen=seen, key=key, text=text))

    def after_value(self, value: bytes) -> "JsonCursor | None":
        """Behind a value in its canonical form."""
        scope = self.scope
        if scope is None:
            return self._replace(is_over=True)
        if not scope.is_object and scope.is_guarded:
            if value in scope.seen:
                return None
            scope = scope._replace(seen=scope.seen | {value})
        if scope.is_recorded:
            scope = scope._replace(text=scope.text + value)
        return self if scope is self.scope else self._replace(scope=scope)

    @property
    def is_in_plain_string(self) -> bool:
        """Whether the same may follow as at any other place inside the string, lengths aside."""
        scope = self.scope
        if self.chunk != b'"' or self.escape or self.is_key or scope is None:
            return False
        return not scope.records and not self.can_run_out and self.plan.is_plain_at(self._here())

    @property
    def can_run_out(self) -> bool:
        """Whether this is in a container whose keys or items can run out."""
        return any(scope.can_run_out for scope in self.scopes)

    def targets(self) -> Iterator[SeenElement]:
        """What would repeat a key or an item from here."""
        for target in self._targets():
            yield from target.past(self.escape) if self.escape else (target,)

    def _targets(self) -> Iterator[SeenElement]:
        """The same, as if no escape had begun."""
        begun = self.chunk or b""
        for scope in self.scopes:
            is_innermost = scope is self.scope
            if scope.is_guarded and scope.seen:
                if is_innermost and self.chunk is None and not self.expects:
                    yield from (
                        SeenElement(b"," + seen, scope.can_run_out, is_begun=False) for seen in scope.seen
                    )
                elif not scope.is_object or (is_innermost and (self.is_key or self.chunk is None)):
                    alike = (seen[len(begun) :] for seen in scope.seen if seen.startswith(begun))
                    yield from (SeenElement(rest, scope.can_run_out, is_begun=True) for rest in alike)
            begun = scope.text + begun

    @property
    def place(self) -> object:
        """Equal where the same may follow without repeating anything."""
        return self.scope, self.chunk, self.escape, self.expects

    @property
    def can_be_dead_end(self) -> bool:
        """Whether it may be that nothing but a repeated key or item can follow."""
        return any(target.can_run_out and target.is_begun for target in self.targets())


def _is_whole(text: bytes) -> bool:
    """Whether it is seen from some UTF-8 alone that its last character is complete."""
    return text[-1] < 0x80 or _LAST.search(text) is not None


def _canonical(escape: bytes) -> bytes:
    """The character of a whole escape as `json.dumps` spells it."""
    char = json.loads(b'"' + escape + b'"')
    return json.dumps(char, ensure_ascii=False)[1:-1].encode()
