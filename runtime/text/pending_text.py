"""Text that comes in chunks, and is read from its beginning as soon as it is certain how to read it."""

from runtime.text.detokenizer import overlap


class PendingText:
    """Text that is not read yet: it grows at its end, and is taken from its beginning."""

    def __init__(self, text: str = "") -> None:
        self.text = text

    def add(self, text: str) -> None:
        """Add text at the end."""
        self.text += text

    def take(self, prefix: str) -> bool:
        """Take `prefix` if the text begins with it, and return whether it does."""
        if not self.text.startswith(prefix):
            return False
        self.text = self.text[len(prefix) :]
        return True

    def take_first(self, length: int | None) -> str:
        """Take the first `length` characters, or all if it is None."""
        text, self.text = self.text[:length], "" if length is None else self.text[length:]
        return text

    def may_become(self, text: str) -> bool:
        """Whether more text can turn what is pending into `text`."""
        return text.startswith(self.text)

    def find_before(self, end: str) -> tuple[str, bool]:
        """The text before `end`, and whether `end` has come.

        If it has not, a last piece that may be the beginning of `end` is left out of the text.
        """
        at = self.text.find(end) if end else -1
        if at >= 0:
            return self.text[:at], True
        return self.text[: len(self.text) - overlap(self.text, end)], False

    def take_before(self, end: str) -> tuple[str, bool]:
        """As `find_before`, and take that text."""
        text, is_there = self.find_before(end)
        self.take(text)
        return text, is_there


class JsonScanner:
    """Finds the end of a JSON object or array whose text comes in chunks."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._is_escaped = False

    def take(self, pending: PendingText) -> tuple[str, bool]:
        """Take the text of the object or array; returns it, and whether it is complete."""
        end = self._scan(pending.text)
        return pending.take_first(end), end is not None

    def _scan(self, text: str) -> int | None:
        """The position after the last bracket, or None if it is not in this text."""
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
