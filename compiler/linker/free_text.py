"""Free text: any text until a call's trigger or a message's end, watched for across token borders."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from compiler.token_index import Row, SparseMask, TokenIndex

if TYPE_CHECKING:
    from compiler.linker.dispatch_states import Junction


class FreeText:
    """Text that may or may not contain `pattern`.

    A state is how many bytes of `pattern` the text ends with (Knuth, Morris, Pratt). What ends the text is
    the token `marker_id`, if there is one, or else the pattern; without an `exit` neither can.
    `may_stop` says whether the output may end in the text.
    """

    def __init__(
        self,
        index: TokenIndex,
        pattern: bytes,
        *,
        marker_id: int | None = None,
        may_stop: bool = True,
    ) -> None:
        assert pattern, "every syntax has a trigger"
        self.pattern = pattern
        self.marker_id = marker_id
        self.may_stop = may_stop
        self.exit: Junction | None = None
        """Where the output goes on from what ends the text; set once that is there, as it may lead back."""
        self._index = index
        self._borders = _borders(pattern)
        self._patches: dict[int, SparseMask] = {}

    def step(self, state: int, token: bytes) -> tuple[int, bytes | None]:
        """The state after `token`; and the bytes after the pattern, if the token completes it."""
        for at, byte in enumerate(token):
            while state and self.pattern[state] != byte:
                state = self._borders[state]
            if self.pattern[state] == byte:
                state += 1
            if state == len(self.pattern):
                return state, token[at + 1 :]
        return state, None

    def allows(self, rest: bytes) -> bool:
        """Whether the pattern may be completed by a token that goes on with `rest`."""
        return self.marker_id is None and self.exit is not None and self.exit.fits(self.pattern + rest)

    def fits(self, text: bytes) -> bool:
        """Whether some output goes on with `text` from the beginning."""
        _, rest = self.step(0, text)
        return rest is None or self.allows(rest)

    def fill(self, state: int, row: Row) -> None:
        """Overwrite the row with the tokens that may follow in this state."""
        patch = self._patches.get(state)
        if patch is None:
            patch = self._patches[state] = SparseMask.of_ids(self._excluded(state), base=self._row)
        row[:] = self._row
        patch.patch(row)

    @cached_property
    def _row(self) -> Row:
        row = self._index.text_row.copy()
        if self.marker_id is not None:
            SparseMask.of_ids([self.marker_id]).add(row)
        if not self.may_stop:
            SparseMask.of_ids(self._index.stop_ids, base=row).patch(row)
        return row

    @cached_property
    def _completing(self) -> Sequence[int]:
        return self._index.containing(self.pattern)

    def _excluded(self, state: int) -> Iterator[int]:
        for at in self._candidates(state):
            _, rest = self.step(state, self._index.spellings[at])
            if rest is not None and not self.allows(rest):
                yield from self._index.ids[at]

    def _candidates(self, state: int) -> set[int]:
        """Positions of all tokens that may complete the pattern: they hold it, or begin with its end."""
        places = set(self._completing)
        while state:
            places.update(range(*self._index.narrow(self.pattern[state:])))
            state = self._borders[state]
        return places


def _borders(pattern: bytes) -> list[int]:
    """For every length, the longest proper prefix that the pattern's prefix of that length ends with."""
    borders = [0, 0]
    for at in range(1, len(pattern)):
        border = borders[at]
        while border and pattern[border] != pattern[at]:
            border = borders[border]
        borders.append(border + 1 if pattern[border] == pattern[at] else 0)
    return borders
