"""Exits: the tokens that end a unit and go on behind it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import xgrammar as xgr

from compiler.linker.dispatch_states import Junction
from compiler.token_index import Row, SparseMask, TokenIndex


@dataclass
class _Group:
    """Tails that begin with the same byte, each with the tokens that begin with it."""

    first: bytes
    tails: list[tuple[bytes, SparseMask]] = field(default_factory=list)


class Exits:
    """Tokens made of a tail, with which every unit may end, and a rest, which fits the junction behind.

    All units end with `tail`, so the candidates are known from the syntax alone; whether a tail ends the unit
    now is asked of the sequence's own matcher, the first byte first.
    """

    def __init__(self, index: TokenIndex, tail: bytes, follow: Junction) -> None:
        assert tail, "a unit ends with something"
        self._index = index
        self._tail = tail
        self.follow = follow
        self._splits: dict[int, list[tuple[bytes, bytes]]] = {}
        self._groups = self._grouped()

    def add(self, matcher: xgr.GrammarMatcher, row: Row) -> None:
        """Allow, besides what the unit allows, the tokens that leave it from here."""
        for group in self._groups:
            if not matcher.accept_string(group.first):
                continue
            matcher.rollback(1)
            for tail, mask in group.tails:
                if _completes(matcher, tail):
                    matcher.rollback(1)
                    mask.add(row)

    def leave(self, matcher: xgr.GrammarMatcher, token_id: int) -> bytes | None:
        """Complete the unit by a token, in one step of the matcher; the token's rest, or None: no change."""
        for tail, rest in self._splits.get(token_id, ()):
            if _completes(matcher, tail):
                return rest
        return None

    def _grouped(self) -> list[_Group]:
        ids_of: dict[bytes, list[int]] = {}
        for at, length in self._candidates():
            spelling = self._index.spellings[at]
            tail, rest = spelling[:length], spelling[length:]
            if self.follow.fits(rest):
                ids_of.setdefault(tail, []).extend(self._index.ids[at])
                for token_id in self._index.ids[at]:
                    self._splits.setdefault(token_id, []).append((tail, rest))
        groups: dict[bytes, _Group] = {}
        for tail, ids in ids_of.items():
            group = groups.setdefault(tail[:1], _Group(tail[:1]))
            group.tails.append((tail, SparseMask.of_ids(ids)))
        return list(groups.values())

    def _candidates(self) -> Iterator[tuple[int, int]]:
        """Positions of spellings, with the length of the tail: it ends `_tail`, or ends with it."""
        for first in self.follow.first_bytes():
            for start in range(len(self._tail)):
                tail = self._tail[start:]
                for at in range(*self._index.narrow(tail + first)):
                    yield at, len(tail)
            for at in self._index.containing(self._tail + first):
                spelling = self._index.spellings[at]
                found = spelling.find(self._tail + first, 1)
                while found > 0:
                    yield at, found + len(self._tail)
                    found = spelling.find(self._tail + first, found + 1)


def _completes(matcher: xgr.GrammarMatcher, tail: bytes) -> bool:
    """Whether `tail` completes the unit; if so, it has been accepted as one step."""
    if not matcher.accept_string(tail):
        return False
    if matcher.is_completed():
        return True
    matcher.rollback(1)
    return False
