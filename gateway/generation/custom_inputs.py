"""The inputs of custom tools: text in the APIs, and a JSON string in the arguments that a model writes."""

import json
from collections.abc import Iterator

from toolspecs.tool import INPUT, ToolCall


def call_with_input(call_id: str, name: str, text: str) -> ToolCall:
    """An earlier call of a custom tool, in the form that the model is shown."""
    return ToolCall(call_id, name, json.dumps({INPUT: text}, ensure_ascii=False))


class InputReader:
    r"""Reads the input of one call out of the JSON text of its arguments, which comes in pieces.

    >>> reader = InputReader()
    >>> [reader.read(piece) for piece in ('{"input": "SEL', 'ECT 1', r';\n"}')]
    ['SEL', 'ECT 1', ';\n']
    """

    def __init__(self) -> None:
        self._pending = ""
        self._is_inside = False

    def read(self, text: str) -> str:
        """The part of the input that `text` completes."""
        self._pending += text
        if not self._is_inside:
            key, colon, rest = self._pending.partition(":")
            value = rest.lstrip()
            if not colon or not value:
                return ""
            assert json.loads(key.removeprefix("{")) == INPUT, "the tool has one argument"
            assert value[0] == '"', "which is a string"
            self._is_inside, self._pending = True, value[1:]
        return "".join(self._take())

    def _take(self) -> Iterator[str]:
        """The characters that are complete; what follows the last of them stays pending."""
        at, text = 0, self._pending
        while (size := _char_size(text, at)) and text[at] != '"':
            yield text[at : at + size] if size == 1 else json.loads(f'"{text[at : at + size]}"')
            at += size
        self._pending = text[at:]


def _char_size(text: str, at: int) -> int:
    """The length of the spelling of the character at a position, escapes included; 0 if it is incomplete."""
    if not text.startswith("\\", at):
        size = 1
    elif not text.startswith("\\u", at):
        size = 2
    else:
        is_half = text[at + 2 : at + 4].lower() in {"d8", "d9", "da", "db"}
        size = 12 if is_half else 6
    return size if at + size <= len(text) else 0
