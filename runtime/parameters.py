"""Reads tagged parameters, as they come, into the JSON text of the arguments they stand for.

Which values are strings follows from the tag or from the types that the lowering decided on: there, no string
reads as JSON of another type that its parameter admits.
"""

import json
import re
from collections.abc import Mapping
from enum import Enum, auto

from compiler.syntax import Syntax
from compiler.tagged import STRING, json_patterns

_WORDS = ("null", "true", "false")
_BEGUN_NUMBER = re.compile(r"[-+.0-9eE]*")
_BLANKS = "\t\n\r "


class _State(Enum):
    BETWEEN = auto()
    KEY = auto()
    VALUE = auto()
    TEXT = auto()
    CONTAINER = auto()
    CLOSE = auto()
    OVER = auto()


class ParameterReader:
    """The parameters of one call; `types` are those of `compiler.unit.Unit`."""

    def __init__(self, syntax: Syntax, types: Mapping[str, tuple[str, ...]]) -> None:
        assert syntax.tags is not None, "the arguments stand between tags"
        self._syntax = syntax
        self._tags = syntax.tags
        self._types = types
        self._admitted: tuple[str, ...] = ()
        self._state = _State.BETWEEN
        self._held = ""
        self._lead = "{"
        self._scanner = JsonScanner()

    @property
    def is_over(self) -> bool:
        """Whether the arguments are whole."""
        return self._state is _State.OVER

    @property
    def rest(self) -> str:
        """What was read behind the arguments."""
        return self._held

    def feed(self, text: str) -> str:
        """The JSON text that more of the output settles."""
        self._held += text
        settled = ""
        while True:
            before = self._state, self._held
            settled += self._advance()
            if self.is_over or (self._state, self._held) == before:
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
        begin = self._tags.begin
        if self._held.startswith(begin):
            self._held = self._held[len(begin) :]
            self._state = _State.KEY
        elif not begin.startswith(self._held):
            self._state = _State.OVER
            return "{}" if self._lead == "{" else "}"
        return ""

    def _read_key(self) -> str:
        tags = self._tags
        found = [
            (at, after, is_string)
            for after, is_string in ((tags.after_key, False), (tags.after_string_key, True))
            if after is not None and (at := self._held.find(after)) >= 0
        ]
        if not found:
            return ""
        at, after, is_string = min(found)
        key, self._held = self._held[:at], self._held[at + len(after) :]
        self._admitted = self._types.get(key, (STRING,))
        if tags.tells_strings:
            self._admitted = tuple(name for name in self._admitted if (name == STRING) is is_string)
        self._state = _State.VALUE
        lead, self._lead = self._lead, self._syntax.item_separator
        return lead + json.dumps(key, ensure_ascii=False) + self._syntax.key_separator

    def _read_value(self) -> str:
        """Find out what kind of value begins, as soon as that is certain."""
        first = self._held.lstrip(_BLANKS)[:1]
        container = {"[": "array", "{": "object"}.get(first, "")
        if self._admitted == (STRING,):
            return self._begin_text()
        if container in self._admitted:
            self._state, self._scanner = _State.CONTAINER, JsonScanner()
            return ""
        end = self._held.find(self._tags.end)
        if end >= 0:
            return self._read_short(end)
        begun = self._held[: len(self._held) - overlap(self._held, self._tags.end)]
        is_text = STRING in self._admitted and not _may_be_scalar(begun.strip(_BLANKS))
        return self._begin_text() if is_text else ""

    def _read_short(self, end: int) -> str:
        """A whole value that is no container."""
        value, self._held = self._held[:end], self._held[end + len(self._tags.end) :]
        self._state = _State.BETWEEN
        others = tuple(name for name in self._admitted if name != STRING)
        is_json = STRING not in self._admitted or any(re.search(p, value) for p in json_patterns(others))
        return value.strip(_BLANKS) if is_json else json.dumps(value, ensure_ascii=False)

    def _begin_text(self) -> str:
        self._state = _State.TEXT
        return '"'

    def _read_text(self) -> str:
        end = self._held.find(self._tags.end)
        if end < 0:
            at = len(self._held) - overlap(self._held, self._tags.end)
            text, self._held = self._held[:at], self._held[at:]
            return _escaped(text)
        text, self._held = self._held[:end], self._held[end + len(self._tags.end) :]
        self._state = _State.BETWEEN
        return _escaped(text) + '"'

    def _read_container(self) -> str:
        end = self._scanner.scan(self._held)
        text, self._held = self._held[:end], "" if end is None else self._held[end:]
        if end is not None:
            self._state = _State.CLOSE
        return text

    def _read_close(self) -> str:
        end = self._tags.end
        if self._held.startswith(end):
            self._held = self._held[len(end) :]
        elif end.startswith(self._held):
            return ""
        self._state = _State.BETWEEN
        return ""


class JsonScanner:
    """Finds where a JSON object or array ends, over any chunks."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._is_escaped = False

    def scan(self, text: str) -> int | None:
        """The position behind the last bracket, or None if it is not in this text."""
        for at, char in enumerate(text):
            if self._in_string:
                self._read_in_string(char)
            elif char == '"':
                self._in_string = True
            elif char in "{[":
                self._depth += 1
            elif char in "}]":
                self._depth -= 1
                if self._depth == 0:
                    return at + 1
        return None

    def _read_in_string(self, char: str) -> None:
        if self._is_escaped:
            self._is_escaped = False
        elif char == "\\":
            self._is_escaped = True
        elif char == '"':
            self._in_string = False


def overlap(text: str, pattern: str) -> int:
    """The length of the longest proper prefix of `pattern` that `text` ends with."""
    longest = min(len(text), len(pattern) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(pattern[:n])), 0)


def _may_be_scalar(begun: str) -> bool:
    """Whether JSON of a number or word may begin so."""
    return any(word.startswith(begun) for word in _WORDS) or bool(_BEGUN_NUMBER.fullmatch(begun))


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
