"""Places: which part of an answer each token writes, and in arguments and JSON answers the path to it.

A token gets the place of the text that it settles. A token that settles nothing yet, such as the first half
of a key or of a tag, waits for the next one that settles something, and gets the first place of that.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from compiler.output_parts import CallEnd, OutputPart, TextPart
from runtime.events import ArgumentsDelta, CallStarted, Event, InspectedToken, TextDelta, ThoughtDelta
from runtime.inspection import MAX_POINTER, TokenPlace, Written
from runtime.text.detokenizer import TokenBytes
from runtime.written_token import WrittenToken

Step = str | int


class JsonPaths:
    """Follows a JSON text that comes in pieces, and says what path each piece has.

    >>> list(JsonPaths().read('{"to": ["Ada'))[-1]
    (('to', 0), 'value')
    """

    def __init__(self) -> None:
        self._steps: list[Step | None] = []
        """Per open container, the key or index of the member that the text is at; None before a key."""
        self._key: list[str] | None = None
        """The characters of a key that is not complete, from its quote on."""
        self._in_value = False
        """Inside a string that is a value."""
        self._value_path: tuple[Step, ...] | None = None
        """The path of that string, or of the last number or name; made when first needed, for all of it."""
        self._is_escaped = False

    def read(self, text: str) -> Iterator[tuple[tuple[Step, ...] | None, Written]]:
        """The paths in a piece of text, in order, and what it writes there; None in an incomplete key."""
        last = None
        for char in text:
            written = self._path_and_part(*self._read(char))
            if written != last and written[0] is not None:
                yield written
            last = written
        if self._key is not None:
            yield None, "key"

    def last(self, text: str) -> tuple[tuple[Step, ...] | None, Written]:
        """What `read` yields last, for a text that is not empty. It is faster: other paths are not made."""
        for char in text:
            num_steps, written = self._read(char)
        return self._path_and_part(num_steps, written)

    def _path_and_part(
        self, num_steps: int | None, written: Written
    ) -> tuple[tuple[Step, ...] | None, Written]:
        """The path of the first steps, and what is written there."""
        if num_steps is None:
            return None, written
        if written != "value":
            return self._path(num_steps), written
        if self._value_path is None:
            self._value_path = self._path(num_steps)
        return self._value_path, written

    def _read(self, char: str) -> tuple[int | None, Written]:  # noqa: PLR0911 - a case per character
        """How many steps the path of a character has (None in an incomplete key), and what it writes."""
        if self._key is not None:
            return self._read_key(self._key, char), "key"
        if self._in_value:
            self._in_value = self._is_escaped or char != '"'
            self._is_escaped = char == "\\" and not self._is_escaped
            return len(self._steps), "value"
        match char:
            case '"' if self._steps and self._steps[-1] is None:
                self._key = [char]
                return None, "key"
            case "{" | "[":
                self._steps.append(None if char == "{" else 0)
                return len(self._steps) - 1, "punctuation"
            case "}" | "]":
                self._steps.pop()
            case ",":
                step = self._steps.pop()
                self._steps.append(step + 1 if isinstance(step, int) else None)
                return len(self._steps) - 1, "punctuation"
            case ":" | " " | "\n" | "\r" | "\t":
                pass
            case _:
                self._in_value = char == '"'
                self._value_path = None
                return len(self._steps), "value"
        return len(self._steps), "punctuation"

    def _read_key(self, key: list[str], char: str) -> int | None:
        """Read one more character of a key; once it is complete, return how many steps its path has."""
        key.append(char)
        is_over = char == '"' and not self._is_escaped
        self._is_escaped = char == "\\" and not self._is_escaped
        if not is_over:
            return None
        self._key = None
        self._steps[-1] = json.loads("".join(key))
        return len(self._steps)

    def _path(self, num_steps: int) -> tuple[Step, ...]:
        """The first steps to here, as many as fit into a pointer of `MAX_POINTER` characters."""
        path: list[Step] = []
        num_left = MAX_POINTER
        for step in islice(self._steps, num_steps):
            if step is None or (num_left := num_left - 1 - 2 * len(str(step))) < 0:
                break
            path.append(step)
        return tuple(path)


def last_place(events: Iterable[Event]) -> TokenPlace:
    """Where an answer with these events ends, even if a call ends there; quick for long answers too."""
    place, arguments = TokenPlace("syntax"), list[str]()
    for event in events:
        match event:
            case TextDelta():
                place, arguments = TokenPlace("text"), []
            case ThoughtDelta():
                place, arguments = TokenPlace("thought"), []
            case CallStarted(_, index, name):
                place, arguments = TokenPlace("syntax", index, name), []
            case ArgumentsDelta(_, _, text):
                arguments.append(text)
    if text := "".join(arguments):
        path, written = JsonPaths().last(text)
        return TokenPlace("arguments", place.call, place.tool, path, written)
    return place


class PlaceReader:
    """Reads the tokens of one answer, and reports their places as soon as they are known.

    `text_is_json`: the text is part of one JSON value.
    """

    def __init__(self, choice: int, token_bytes: TokenBytes, *, text_is_json: bool) -> None:
        self._choice = choice
        self._token_bytes = token_bytes
        self._text_is_json = text_is_json
        self._paths = JsonPaths()
        self._around = TokenPlace("syntax")
        """The place of a token that settles nothing."""
        self._is_thought = False
        self._waiting: list[WrittenToken] = []
        self._end: WrittenToken | None = None

    def end_with(self, token: WrittenToken) -> None:
        """Read a token that ends the answer, and is no part of it although it spells text."""
        self._end = token

    def read(
        self, token: WrittenToken, parts: Iterable[OutputPart], events: Iterable[Event]
    ) -> list[InspectedToken]:
        """The tokens whose places are known after one more, which has settled the parts and events."""
        places = list(self._places(parts, events))
        ends_thought, self._is_thought = self._is_thought and not token.is_thought, token.is_thought
        if token.sampled.token_id in self._token_bytes.stop_ids:
            return [
                *self._release(places or [self._around], parts),
                self._inspected(token, TokenPlace("end")),
            ]
        if ends_thought and not places:
            places = [TokenPlace("syntax")]
        placed = self._release([place for place in places if not place.is_open], parts)
        own = _first_written(_after_text(places), "value", "key") if places else None
        if own is None or own.is_open:
            self._waiting.append(token)
            return placed
        return [*placed, self._inspected(token, own)]

    def finish(self, events: Iterable[Event]) -> list[InspectedToken]:
        """The tokens that still wait, at the end of the answer, which has settled the last events."""
        placed = self._release(list(self._places((), events)) or [self._around])
        if self._end is None:
            return placed
        return [*placed, replace(self._inspected(self._end, TokenPlace("end")), text="")]

    def _places(self, parts: Iterable[OutputPart], events: Iterable[Event]) -> Iterator[TokenPlace]:
        """The places of what was settled, in order."""
        for event in events:
            match event:
                case TextDelta(_, text) if self._text_is_json:
                    for path, written in self._paths.read(text):
                        yield TokenPlace("text", path=path, writes=written)
                case TextDelta():
                    yield TokenPlace("text")
                case ThoughtDelta():
                    yield TokenPlace("thought")
                case CallStarted(_, index, name):
                    self._paths = JsonPaths()
                    self._around = TokenPlace("syntax", index, name)
                    yield self._around
                case ArgumentsDelta(_, index, text):
                    for path, written in self._paths.read(text):
                        yield TokenPlace("arguments", index, self._around.tool, path, written)
        if any(isinstance(part, CallEnd) for part in parts):
            yield self._around
            self._around = TokenPlace("syntax")

    def _release(self, places: list[TokenPlace], parts: Iterable[OutputPart] = ()) -> list[InspectedToken]:
        """The tokens that have waited, at the first place where they can stand; none if nothing was settled.

        If text was settled before a call, the tokens that spell it are text.
        """
        if not places:
            return []
        waiting, self._waiting = self._waiting, []
        num_text = sum(len(part.text) for part in parts if isinstance(part, TextPart))
        after = _first_written(_after_text(places), "key", "value")
        placed = []
        for token in waiting:
            is_text = num_text > 0 and _is_plain_text(places[0])
            placed.append(self._inspected(token, places[0] if is_text else after))
            num_text -= len(self._token_bytes[token.sampled.token_id])
        return placed

    def _inspected(self, token: WrittenToken, place: TokenPlace) -> InspectedToken:
        sampled = token.sampled
        assert sampled.inspection is not None, "the request asks for it"
        texts = tuple(self._text(candidate.token_id) for candidate in sampled.inspection.candidates)
        text = self._text(sampled.token_id)
        return InspectedToken(self._choice, sampled.token_id, text, sampled.inspection, place, texts)

    def _text(self, token_id: int) -> str:
        return self._token_bytes[token_id].decode(errors="replace") if self._token_bytes.has(token_id) else ""


def _after_text(places: list[TokenPlace]) -> list[TokenPlace]:
    """The places without the text that was held back before a call."""
    return places[1:] if len(places) > 1 and _is_plain_text(places[0]) else places


def _is_plain_text(place: TokenPlace) -> bool:
    return place.part == "text" and place.writes is None


def _first_written(places: list[TokenPlace], *kinds: Written) -> TokenPlace:
    """The first place of the first of the kinds that any place has; else the first place."""
    written = (place for kind in kinds for place in places if place.writes == kind)
    return next(written, places[0])
