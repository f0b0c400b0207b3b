"""Where JSON ends in a text that comes in chunks."""

from runtime.text.held import HeldText


class JsonScanner:
    """Finds where a JSON object or array ends, over any chunks."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._is_escaped = False

    def take(self, held: HeldText) -> tuple[str, bool]:
        """Take what is of the object or array; and whether it is over."""
        end = self._scan(held.text)
        return held.take_first(end), end is not None

    def _scan(self, text: str) -> int | None:
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
