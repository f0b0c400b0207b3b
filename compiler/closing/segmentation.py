"""The fewest tokens of a vocabulary that spell a text."""

from array import array
from collections.abc import Iterator

from compiler.grammar.shortest import NEVER
from compiler.token_index import TokenIndex

_MAX_CACHED_WINDOWS = 1024
"""A long completion mostly repeats itself, such as the `a`s of a string with a minimum length."""


class Segmentation:
    """The fewest tokens of a vocabulary that spell some bytes.

    Dynamic programming from the end of the text: a row for every suffix, found by its length. The rows of the
    last text stay, since completions that follow each other mostly have the same ending.
    """

    def __init__(self, index: TokenIndex) -> None:
        self._index = index
        self._text = b""
        self._counts = array("q", [0])
        """By the length of a suffix of `_text`: the fewest tokens that spell it."""
        self._firsts = array("q", [-1])
        """The first of these tokens, by its position in the index."""
        self._cache: dict[bytes, tuple[tuple[int, int, int], ...]] = {}

    def count(self, text: bytes, limit: int = NEVER) -> int:
        """The number of tokens; `NEVER` if none spell it, or if they are found to be more than `limit`.

        Looks at most at each byte once, and at fewer where the text is long for `limit` tokens.
        """
        longest = self._index.longest
        if len(text) > limit * longest:
            return NEVER
        self._keep_shared(text)
        for length in range(len(self._counts), len(text) + 1):
            # Every spelling of the text has a border between tokens among any `longest` lengths.
            if length % longest == 0 and min(self._counts[-longest:]) > limit:
                return NEVER
            start = len(text) - length
            best = min(self._options(text[start : start + longest], length), default=(NEVER, -1, -1))
            self._counts.append(best[0])
            self._firsts.append(best[2])
        return self._counts[len(text)]

    def ids(self, text: bytes) -> list[int]:
        """The tokens; `count` must be below `NEVER`."""
        assert self.count(text) < NEVER, f"no tokens of the vocabulary spell {text!r}"
        ids, length = [], len(text)
        while length:
            at = self._firsts[length]
            ids.append(self._index.ids[at][0])
            length -= len(self._index.spellings[at])
        return ids

    def _keep_shared(self, text: bytes) -> None:
        """Keep the rows of the suffixes that `text` shares with the last text."""
        if self._text.endswith(text):
            return
        low, high = 0, min(len(self._text), len(text), len(self._counts) - 1)
        while low < high:  # the longest suffix of the last text that `text` ends with
            middle = (low + high + 1) // 2
            is_shared = text.endswith(self._text[len(self._text) - middle :])
            low, high = (middle, high) if is_shared else (low, middle - 1)
        del self._counts[low + 1 :], self._firsts[low + 1 :]
        self._text = text

    def _options(self, window: bytes, length: int) -> Iterator[tuple[int, int, int]]:
        """Every token that a suffix of this length, with `window` first, begins with.

        Each with the count of tokens, its id, and its position in the index.
        """
        counts = self._counts
        for size, token_id, at in self._beginnings(window):
            count = counts[length - size] + 1
            if count < NEVER:
                yield count, token_id, at

    def _beginnings(self, window: bytes) -> tuple[tuple[int, int, int], ...]:
        """The tokens that `window` begins with: bytes, id, position in the index; partly cached."""
        beginnings = self._cache.get(window)
        if beginnings is None:
            if len(self._cache) >= _MAX_CACHED_WINDOWS:
                self._cache.clear()
            index = self._index
            beginnings = self._cache[window] = tuple(
                (len(index.spellings[at]), index.ids[at][0], at) for at in index.beginnings(window)
            )
        return beginnings
