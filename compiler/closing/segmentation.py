"""The segmentation: the fewest tokens of a vocabulary that spell some bytes."""

from collections.abc import Iterator

from compiler.grammar.shortest import NEVER
from compiler.token_index import TokenIndex


class Segmentation:
    """Caches answers by the bytes that are left to spell, since completions have the same endings."""

    def __init__(self, index: TokenIndex) -> None:
        self._index = index
        self._best: dict[bytes, tuple[int, int, bytes]] = {b"": (0, -1, b"")}

    def count(self, text: bytes) -> int:
        """The number of tokens; `NEVER` if none spell it."""
        for start in reversed(range(len(text))):
            rest = text[start:]
            if rest not in self._best:
                self._best[rest] = min(self._options(rest), default=(NEVER, -1, b""))
        return self._best[text][0]

    def ids(self, text: bytes) -> list[int]:
        """The tokens; `count` must be below `NEVER`."""
        assert self.count(text) < NEVER, f"no tokens of the vocabulary spell {text!r}"
        ids = []
        while text:
            _, token_id, text = self._best[text]
            ids.append(token_id)
        return ids

    def _options(self, text: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Every token that `text` begins with: the count with it, its id, and the bytes that are left."""
        for at in self._index.beginnings(text):
            rest = text[len(self._index.spellings[at]) :]
            count = self._best[rest][0] + 1
            if count < NEVER:
                yield count, self._index.ids[at][0], rest
