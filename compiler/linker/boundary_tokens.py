"""Boundary tokens: the tokens that end a unit and go on after it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import xgrammar as xgr

from compiler.guard.key_marks import Marking, accept_text
from compiler.linker.dispatch_states import DispatchState
from compiler.token_index import Row, SparseMask, TokenIndex


@dataclass
class _Group:
    """Suffixes of a unit that begin with the same byte, each with the tokens that begin with it."""

    first: bytes
    suffixes: list[tuple[bytes, SparseMask]] = field(default_factory=list)


class BoundaryTokens:
    """Tokens made of a suffix, with which every unit may end, and a rest, which fits the state `after_call`.

    All units end with `tail`, so the candidates are known from the syntax alone. The sequence's own matcher
    says whether a suffix ends the unit now. It first tries the first byte of the suffix, where most suffixes
    fail.
    """

    def __init__(self, index: TokenIndex, tail: bytes, after_call: DispatchState) -> None:
        assert tail, "a unit ends with something"
        self._index = index
        self._tail = tail
        self.after_call = after_call
        self._splits: dict[int, list[tuple[bytes, bytes]]] = {}
        self._groups = self._grouped()

    def add(self, matcher: xgr.GrammarMatcher, row: Row, marked: Marking) -> None:
        """Allow, besides what the unit allows, the tokens that end it here."""
        for group in self._groups:
            if not matcher.accept_string(group.first):
                continue
            matcher.rollback(1)
            for suffix, mask in group.suffixes:
                if _completes(matcher, suffix, marked):
                    matcher.rollback(1)
                    mask.add(row)

    def leave(self, matcher: xgr.GrammarMatcher, token_id: int, marked: Marking) -> bytes | None:
        """Complete the unit by a token, in one step of the matcher; the token's rest, or None: no change."""
        for suffix, rest in self._splits.get(token_id, ()):
            if _completes(matcher, suffix, marked):
                return rest
        return None

    def _grouped(self) -> list[_Group]:
        ids_of: dict[bytes, list[int]] = {}
        for at, length in self._candidates():
            spelling = self._index.spellings[at]
            suffix, rest = spelling[:length], spelling[length:]
            if self.after_call.fits(rest):
                ids_of.setdefault(suffix, []).extend(self._index.ids[at])
                for token_id in self._index.ids[at]:
                    self._splits.setdefault(token_id, []).append((suffix, rest))
        groups: dict[bytes, _Group] = {}
        for suffix, ids in ids_of.items():
            group = groups.setdefault(suffix[:1], _Group(suffix[:1]))
            group.suffixes.append((suffix, SparseMask.of_ids(ids)))
        return list(groups.values())

    def _candidates(self) -> Iterator[tuple[int, int]]:
        """Positions in the index, each with the length of the suffix: it ends `_tail`, or ends with it."""
        for first in self.after_call.first_bytes():
            for start in range(len(self._tail)):
                suffix = self._tail[start:]
                for at in range(*self._index.narrow(suffix + first)):
                    yield at, len(suffix)
            for at in self._index.containing(self._tail + first):
                spelling = self._index.spellings[at]
                offset = spelling.find(self._tail + first, 1)
                while offset > 0:
                    yield at, offset + len(self._tail)
                    offset = spelling.find(self._tail + first, offset + 1)


def _completes(matcher: xgr.GrammarMatcher, suffix: bytes, marked: Marking) -> bool:
    """Whether `suffix` completes the unit; if so, the matcher has accepted it as one step."""
    if not accept_text(matcher, suffix, marked):
        return False
    if matcher.is_completed():
        return True
    matcher.rollback(1)
    return False
