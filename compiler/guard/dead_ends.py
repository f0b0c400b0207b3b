"""Dead ends: places from which every way on comes to repeat a key or an item.

Where any string may be a key or an item, there is always another one to write. Where they come from a small
choice, they can *run out*: under `{"enum": ["a", "ab", "b"]}`, behind `["a", "ab", "a` a text repeats nothing
yet, but whichever end it comes to, it will. So a token that would lead there has to be taken out of the mask,
or the next mask would be empty. What can run out is settled while a schema is lowered: the plan marks the
containers (`Place.can_run_out`), and a cursor can only be at a dead end inside of these.
"""

from collections.abc import Callable

import xgrammar as xgr

from compiler.guard.candidate_tokens import Suspects, Ways
from compiler.guard.tagged_cursor import AnyCursor
from compiler.token_index import Row


class DeadEnds:
    """Finds dead ends ahead of one matcher by trying, and leaves the matcher as it was.

    `allowed` is the mask of the grammar where the matcher stands, at a cursor that has come as far.
    """

    def __init__(
        self, matcher: xgr.GrammarMatcher, suspects: Suspects, allowed: Callable[[AnyCursor], Row]
    ) -> None:
        self._matcher = matcher
        self._suspects = suspects
        self._allowed = allowed
        self._is_dead_end: dict[object, bool] = {}
        """By place; those that were looked at."""

    def is_behind(self, token_id: int, after: AnyCursor) -> bool:
        """Whether a token leads into one, the cursor being `after` it then."""
        if not after.in_json.can_be_dead_end:
            return False
        if after.in_json.place not in self._is_dead_end and self._matcher.accept_token(token_id):
            self.is_at(after)
            self._matcher.rollback(1)
        return self._is_dead_end.get(after.in_json.place, False)

    def is_at(self, cursor: AnyCursor) -> bool:
        """Whether the matcher stands at one: a search in depth, without recursion, as texts are long."""
        ways = self._ways(cursor)
        if ways is None:
            self._is_dead_end[cursor.in_json.place] = False
            return False
        trail = [(cursor.in_json.place, ways)]
        while trail:
            place, ways = trail[-1]
            for token_id, after in ways:
                if after is None or self._is_known(after):
                    continue
                onward = self._enter(token_id, after)
                if onward is None:  # a way out, for all of the trail
                    self._is_dead_end.update((place, False) for place, _ in trail)
                    self._matcher.rollback(len(trail) - 1)
                    return False
                trail.append((after.in_json.place, onward))
                break
            else:  # every way on from there repeats
                self._is_dead_end[place] = True
                trail.pop()
                if trail:
                    self._matcher.rollback(1)
        return True

    def _is_known(self, cursor: AnyCursor) -> bool:
        return cursor.in_json.can_be_dead_end and self._is_dead_end.get(cursor.in_json.place, False)

    def _enter(self, token_id: int, after: AnyCursor) -> Ways | None:
        """Take a token, for its ways to be tried; None, and not taken, if there is no dead end behind it."""
        is_open = after.in_json.can_be_dead_end and after.in_json.place not in self._is_dead_end
        if not is_open or not self._matcher.accept_token(token_id):
            return None
        ways = self._ways(after)
        if ways is None:
            self._matcher.rollback(1)
        return ways

    def _ways(self, cursor: AnyCursor) -> Ways | None:
        """The suspects that may follow where the matcher stands; None if something harmless may."""
        row = self._allowed(cursor)
        return self._suspects.among(row, cursor) if self._suspects.are_all(row, cursor) else None
