r"""Turns tagged parameters into the JSON text of a call's arguments, while they come.

The tag says which values are strings or, if it does not, the types that the lowering found. A grammar admits
no string that reads as JSON of another type of its parameter (see `compiler.tagged_values`).

In `qwen3_coder`, `<parameter=city>\nOslo\n</parameter>\n` becomes `{"city": "Oslo"`.
"""

import json
from collections.abc import Mapping
from enum import Enum, auto

from compiler.syntax import Syntax
from compiler.tagged_values import (
    JSON_BLANKS,
    STRING,
    begins_container,
    is_json,
    may_be_scalar,
    possible_types,
)
from runtime.text.pending_text import JsonScanner, PendingText

_MAX_CORE = 8
"""Longer than any word of JSON."""


class _State(Enum):
    """What comes next."""

    BETWEEN = auto()
    KEY = auto()
    VALUE = auto()
    TEXT = auto()
    CONTAINER = auto()
    CLOSE = auto()
    OVER = auto()


class _BegunValue:
    """A value that may still become a string or other JSON; each piece of it is looked at once."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._core = ""
        """It without blanks around; of a longer one only the beginning, which is that of a number."""
        self._ends_in_blank = False

    @property
    def first(self) -> str:
        """The first character after blanks; empty if there is none yet."""
        return self._core[:1]

    def add(self, piece: str, admitted: tuple[str, ...]) -> bool:
        """Add a piece; whether the value may still be JSON of a number or a word."""
        self.pieces.append(piece)
        core = piece.strip(JSON_BLANKS)
        is_parted = bool(core and self._core) and (self._ends_in_blank or piece[0] in JSON_BLANKS)
        may_be = not is_parted and (not core or may_be_scalar(admitted, self._core + core))
        self._core = (self._core + core)[:_MAX_CORE]
        self._ends_in_blank = piece[-1] in JSON_BLANKS
        return may_be


class ParameterReader:
    """Reads the parameters of one call; `types` are those of `compiler.units.unit.Unit`."""

    def __init__(self, syntax: Syntax, types: Mapping[str, tuple[str, ...]]) -> None:
        assert syntax.tags is not None, "the arguments stand between tags"
        self._syntax = syntax
        self._tags = syntax.tags
        self._types = types
        self._admitted: tuple[str, ...] = ()
        self._state = _State.BETWEEN
        self._pending = PendingText()
        self._value = _BegunValue()
        self._lead = "{"
        self._scanner = JsonScanner()

    @property
    def is_over(self) -> bool:
        """Whether the arguments are complete."""
        return self._state is _State.OVER

    @property
    def rest(self) -> str:
        """What was read after the arguments."""
        return self._pending.text

    def feed(self, text: str) -> str:
        """Read more of the output, and return the JSON text that is certain now."""
        self._pending.add(text)
        settled = ""
        while True:
            before = self._state, self._pending.text
            settled += self._advance()
            if self.is_over or (self._state, self._pending.text) == before:
                return settled

    def _advance(self) -> str:  # noqa: PLR0911 - one per state
        match self._state:
            case _State.BETWEEN:
                return self._read_tag()
            case _State.KEY:
                return self._read_key()
            case _State.VALUE:
                return self._read_value()
            case _State.TEXT:
                return self._read_text()
            case _State.CONTAINER:
                return self._read_container()
            case _State.CLOSE:
                return self._read_close()
            case _State.OVER:
                return ""

    def _read_tag(self) -> str:
        if self._pending.take(self._tags.begin):
            self._state = _State.KEY
        elif not self._pending.may_become(self._tags.begin):
            self._state = _State.OVER
            return "{}" if self._lead == "{" else "}"
        return ""

    def _read_key(self) -> str:
        tags = self._tags
        keys = [
            (at, after, is_string)
            for after, is_string in ((tags.after_key, False), (tags.after_string_key, True))
            if after is not None and (at := self._pending.text.find(after)) >= 0
        ]
        if not keys:
            return ""
        at, after, is_string = min(keys)
        key = self._pending.take_first(at)
        self._pending.take(after)
        self._admitted = self._types.get(key, (STRING,))
        if tags.tells_strings:
            self._admitted = possible_types(self._admitted, is_string=is_string)
        self._state = _State.VALUE
        lead, self._lead = self._lead, self._syntax.item_separator
        return lead + json.dumps(key, ensure_ascii=False) + self._syntax.key_separator

    def _read_value(self) -> str:
        """Find out what kind of value begins, as soon as that is certain."""
        if self._admitted == (STRING,):
            return self._begin_text()
        piece, is_whole = self._pending.take_before(self._tags.end)
        is_open = not piece or self._value.add(piece, self._admitted)
        if begins_container(self._admitted, self._value.first):
            self._pending.text = self._take_value() + self._pending.text
            self._state, self._scanner = _State.CONTAINER, JsonScanner()
            return ""
        if is_whole:
            return self._read_scalar(self._take_value())
        if is_open or STRING not in self._admitted:
            return ""
        self._pending.text = self._take_value() + self._pending.text
        return self._begin_text()

    def _take_value(self) -> str:
        value, self._value = "".join(self._value.pieces), _BegunValue()
        return value

    def _read_scalar(self, value: str) -> str:
        """Read a complete value that is no container, of which only the end is still pending."""
        self._pending.take(self._tags.end)
        self._state = _State.BETWEEN
        if is_json(self._admitted, value):
            return value.strip(JSON_BLANKS)
        return json.dumps(value, ensure_ascii=False)

    def _begin_text(self) -> str:
        self._state = _State.TEXT
        return '"'

    def _read_text(self) -> str:
        text, is_over = self._pending.take_before(self._tags.end)
        if not is_over:
            return _escaped(text)
        self._pending.take(self._tags.end)
        self._state = _State.BETWEEN
        return _escaped(text) + '"'

    def _read_container(self) -> str:
        text, is_over = self._scanner.take(self._pending)
        if is_over:
            self._state = _State.CLOSE
        return text

    def _read_close(self) -> str:
        if not self._pending.take(self._tags.end) and self._pending.may_become(self._tags.end):
            return ""
        self._state = _State.BETWEEN
        return ""


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
