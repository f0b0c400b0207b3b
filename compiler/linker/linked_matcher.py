"""The matcher of a linked grammar: one sequence's way through free text, headers and units."""

from compiler.linker.dispatcher import Dispatcher
from compiler.linker.position import Position, Stopped
from compiler.matcher import Bitmask


class LinkedMatcher:
    """A `compiler.matcher.Matcher`; one per sequence, not thread-safe.

    The positions passed are kept, so that a rollback crosses from one unit into another.
    """

    def __init__(self, dispatcher: Dispatcher, *, is_thinking: bool = False) -> None:
        self._dispatcher = dispatcher
        self._tokens = dispatcher.vocabulary.tokens
        self._stop_ids = frozenset(dispatcher.vocabulary.stop_ids)
        self._position = dispatcher.begin(is_thinking=is_thinking)
        self._passed: list[Position] = []

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite `bitmask[row]` with the tokens that may come next."""
        self._position.fill(bitmask, row)

    def accept(self, token_id: int) -> bool:
        """Advance by a token; False, and no change, if the grammar does not allow it."""
        position = self._next(token_id)
        if position is None:
            return False
        self._passed.append(self._position)
        self._position = position
        return True

    def rollback(self, num_tokens: int) -> None:
        """Undo the last `num_tokens` accepted tokens.

        Raises:
            ValueError: fewer were accepted.
        """
        if not 0 <= num_tokens <= len(self._passed):
            raise ValueError(f"cannot take back {num_tokens} of {len(self._passed)} accepted tokens")
        for _ in range(num_tokens):
            self._position = self._passed.pop()
            self._position.undo()

    def forced_text(self) -> bytes:
        """What every continuation begins with."""
        return self._position.forced_text()

    def is_completed(self) -> bool:
        """Whether what was accepted is a whole output, a stop token aside."""
        return self._position.is_complete

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted."""
        return isinstance(self._position, Stopped)

    def _next(self, token_id: int) -> Position | None:
        if not 0 <= token_id < len(self._tokens) or self.is_terminated():
            return None
        if token_id in self._stop_ids:
            return Stopped(self._dispatcher.vocabulary) if self._position.is_complete else None
        token = self._tokens[token_id]
        return self._position.accept(token_id, token) if token else None
