"""A matcher that keeps to itself what text is forced, so that every token is drawn."""

from compiler.matcher import Bitmask, Matcher
from compiler.output_parts import OutputPart


class Drawn:
    """Another matcher without its forced text: the engine's path without jump-forward."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite `bitmask[row]` with what the other matcher allows."""
        self._matcher.fill_bitmask(bitmask, row)

    def accept(self, token_id: int) -> bool:
        """Take a token if the other matcher does."""
        return self._matcher.accept(token_id)

    def rollback(self, num_tokens: int) -> None:
        """Undo the last tokens."""
        self._matcher.rollback(num_tokens)

    def forced_text(self) -> bytes:
        """Nothing is said to be forced."""
        return b""

    def parts(self) -> tuple[OutputPart, ...]:
        """What the last token settled."""
        return self._matcher.parts()

    def pending_parts(self) -> tuple[OutputPart, ...]:
        """What is not settled yet."""
        return self._matcher.pending_parts()

    def is_in_thought(self) -> bool:
        """Whether the next token is one of a thought."""
        return self._matcher.is_in_thought()

    def is_completed(self) -> bool:
        """Whether the output may end."""
        return self._matcher.is_completed()

    def is_terminated(self) -> bool:
        """Whether it has ended."""
        return self._matcher.is_terminated()
