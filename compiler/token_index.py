"""The tokens of a vocabulary in the order of their bytes, and sets of tokens as rows of a bitmask."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from compiler.vocabulary import Vocabulary

Row = NDArray[np.int32]
"""One row of a bitmask: int32 [ceil(width / 32)]."""


@dataclass(frozen=True, slots=True)
class SparseMask:
    """Some words of a row and their values: 12 bytes a word, where a whole row of Qwen 3 takes 19 KB."""

    words: NDArray[np.intp]
    values: Row

    @classmethod
    def of_ids(cls, ids: Iterable[int], base: Row | None = None) -> "SparseMask":
        """The words that hold the bits of `ids`: only these set, or those of `base` with these cleared."""
        bits: dict[int, int] = {}
        for token_id in ids:
            bits[token_id >> 5] = bits.get(token_id >> 5, 0) | 1 << (token_id & 31)
        words = np.fromiter(bits, dtype=np.intp, count=len(bits))
        values = np.fromiter(bits.values(), dtype=np.uint32, count=len(bits)).view(np.int32)
        return cls(words, values if base is None else base[words] & ~values)

    def fill(self, row: Row) -> None:
        """Overwrite the row; it then allows these ids and no others."""
        row.fill(0)
        row[self.words] = self.values

    def patch(self, row: Row) -> None:
        """Overwrite these words of the row, and leave the others."""
        row[self.words] = self.values

    def add(self, row: Row) -> None:
        """Allow these ids in the row too."""
        row[self.words] |= self.values

    def leave_out(self, row: Row) -> None:
        """Forbid these ids in the row, unless it allows no others."""
        if not self.words.size:
            return
        before = row[self.words]
        row[self.words] &= ~self.values
        if not row.any():
            row[self.words] = before


class TokenIndex:
    """The distinct spellings of tokens in byte order, each with the ids that share it; without unused ids."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        ids_of: dict[bytes, tuple[int, ...]] = {}
        for token_id, token in enumerate(vocabulary.tokens):
            if token:
                ids_of[token] = (*ids_of.get(token, ()), token_id)
        self.spellings = sorted(ids_of)
        self.ids = [ids_of[spelling] for spelling in self.spellings]
        self.marker_ids = vocabulary.marker_ids
        self.stop_ids = vocabulary.stop_ids
        self._width = vocabulary.width
        self._containing: dict[bytes, Sequence[int]] = {}

    def narrow(self, prefix: bytes, low: int = 0, high: int | None = None) -> tuple[int, int]:
        """The range of spellings, inside `low:high`, that begin with `prefix`."""
        high = len(self.spellings) if high is None else high
        low = bisect_left(self.spellings, prefix, low, high)
        after = successor(prefix)
        return low, high if after is None else bisect_left(self.spellings, after, low, high)

    def beginnings(self, text: bytes) -> Iterator[int]:
        """Positions of the spellings that `text` begins with, the short ones first."""
        low, high = 0, len(self.spellings)
        for end in range(1, len(text) + 1):
            low, high = self.narrow(text[:end], low, high)
            if low == high:
                return
            if self.spellings[low] == text[:end]:
                yield low

    def goes_on(self, text: bytes) -> bool:
        """Whether some spelling begins with `text` and is longer than it."""
        low, high = self.narrow(text)
        return low < high and (high - low > 1 or self.spellings[low] != text)

    @cached_property
    def longest(self) -> int:
        """Bytes of the longest spelling."""
        return max(map(len, self.spellings))

    @cached_property
    def spells_bytes(self) -> bool:
        """Whether every byte of UTF-8 that JSON and the syntax need is a token of its own."""
        needed = chain(b"\t\n\r", range(0x20, 0x7F), range(0x80, 0xC0), range(0xC2, 0xF5))
        return {bytes([byte]) for byte in needed} <= {text for text in self.spellings if len(text) == 1}

    def containing(self, infix: bytes) -> Sequence[int]:
        """Positions of the spellings that contain `infix`; cached, since a syntax asks for few texts."""
        positions = self._containing.get(infix)
        if positions is None:
            positions = self._containing[infix] = self._find(infix)
        return positions

    def _find(self, infix: bytes) -> Sequence[int]:
        """Search all spellings at once, joined by a byte that no UTF-8 text contains."""
        text, starts = self._joined
        positions: dict[int, None] = {}
        offset = text.find(infix)
        while offset >= 0:
            positions[int(np.searchsorted(starts, offset, side="right")) - 1] = None
            offset = text.find(infix, offset + 1)
        return tuple(positions)

    @cached_property
    def _joined(self) -> tuple[bytes, NDArray[np.int64]]:
        lengths = np.fromiter((len(s) + 1 for s in self.spellings), np.int64, len(self.spellings))
        return b"\xff".join(self.spellings), np.cumsum(lengths) - lengths

    @cached_property
    def last_word(self) -> np.int32:
        """The bits of a row's last word that stand for ids; xgrammar also sets the bits after them."""
        used = self._width % 32
        return np.uint32((1 << used) - 1 if used else 0xFFFFFFFF).view(np.int32)

    @cached_property
    def text_row(self) -> Row:
        """The row that allows every text token and every stop token, no marker and no padding."""
        allowed = np.zeros(-(-self._width // 32) * 32, dtype=np.bool_)
        for ids in self.ids:
            allowed[list(ids)] = True
        allowed[list(self.marker_ids)] = False
        allowed[list(self.stop_ids)] = True
        return np.packbits(allowed, bitorder="little").view(np.int32)


def forbid(row: Row, token_id: int) -> None:
    """Remove one token from a row."""
    row.view(np.uint32)[token_id >> 5] &= np.uint32(0xFFFFFFFF ^ (1 << (token_id & 31)))


def allows(row: Row, token_id: int) -> bool:
    """Whether the row allows a token; it must be wide enough for it."""
    return bool(row[token_id >> 5] >> (token_id & 31) & 1)


def allows_only(row: Row, token_ids: Iterable[int]) -> bool:
    """Whether every token that the row allows is one of `token_ids`, and there is one."""
    others = row.copy()
    SparseMask.of_ids(token_ids, base=row).patch(others)
    return bool(row.any()) and not others.any()


def successor(prefix: bytes) -> bytes | None:
    """The least byte string greater than all that begin with `prefix`; None if there is none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


class TokenSet:
    """A set of token ids, which can be removed from a row, or looked up in it."""

    def __init__(self, ids: NDArray[np.int64], width: int) -> None:
        self._ids = ids
        self._width = width
        self._words, self._bits = bits_of(ids)

    @cached_property
    def _others(self) -> Row:
        others = np.full(-(-self._width // 32), -1, dtype=np.int32)
        np.bitwise_and.at(others, self._words, ~self._bits)
        return others

    def __len__(self) -> int:
        return len(self._ids)

    def remove(self, row: Row) -> None:
        """Remove all ids of the set from a row."""
        row &= self._others

    def allowed(self, row: Row) -> list[int]:
        """The ids of the set that a row allows."""
        allowed_ids: list[int] = self._ids[(row[self._words] & self._bits) != 0].tolist()
        return allowed_ids


def bits_of(ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The word of a row in which each id has its bit, and that bit."""
    return ids >> 5, np.left_shift(1, ids & 31).astype(np.uint32).view(np.int32)
