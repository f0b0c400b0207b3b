"""Text that has come and is not settled: fixed texts of a syntax are whole in it, begun, or not there."""


class HeldText:
    """Grows at its end and is taken from its beginning."""

    def __init__(self, text: str = "") -> None:
        self.text = text

    def add(self, text: str) -> None:
        """More has come."""
        self.text += text

    def take(self, prefix: str) -> bool:
        """Take `prefix` if the text begins so; whether it does."""
        if not self.text.startswith(prefix):
            return False
        self.text = self.text[len(prefix) :]
        return True

    def take_first(self, length: int | None) -> str:
        """Take so many characters; None: all."""
        taken, self.text = self.text[:length], "" if length is None else self.text[length:]
        return taken

    def may_become(self, text: str) -> bool:
        """Whether `text` begins with all that is held."""
        return text.startswith(self.text)

    def before(self, end: str) -> tuple[str, bool]:
        """What stands before `end`, and whether that has come; else, what cannot be part of it any more."""
        at = self.text.find(end) if end else -1
        if at >= 0:
            return self.text[:at], True
        return self.text[: len(self.text) - overlap(self.text, end)], False

    def take_before(self, end: str) -> tuple[str, bool]:
        """The same, taken."""
        text, is_there = self.before(end)
        self.take(text)
        return text, is_there


def overlap(text: str, pattern: str) -> int:
    """The length of the longest proper prefix of `pattern` that `text` ends with."""
    longest = min(len(text), len(pattern) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(pattern[:n])), 0)
