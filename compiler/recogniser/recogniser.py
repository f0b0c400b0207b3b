"""The recogniser: advances through a grammar and its guard at once, and finds a short completion.

The grammar's shortest completion is the answer unless it repeats an element or makes a string too long. Then
`compiler.recogniser.guarded_completion` searches for another one.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from compiler.errors import UnsupportedGrammar
from compiler.guard.key_marks import marked_text
from compiler.guard.tagged_cursor import Cursor, start_cursor
from compiler.recogniser.exchanged_items import MAX_PLANNED, PlannedText, with_exchanged_item
from compiler.recogniser.guarded_completion import guarded_completion
from compiler.recogniser.network import Network
from compiler.recogniser.parser_state import ParserState, initial_state
from compiler.recogniser.search_budget import SearchBudget

_GUARDED_GROWTH = 3
"""The most by which distinct keys multiply the length of a completion. Each key has a comma and two quotes,
and three more characters tell it from a hundred thousand others."""


class Recogniser:
    """Reads one text as bytes of UTF-8; it may be inside a character."""

    def __init__(self, state: ParserState, cursor: Cursor | None, planned: PlannedText | None = None) -> None:
        self.state = state
        """What the grammar alone knows of the text."""
        self._cursor = cursor
        self._planned = planned
        """The completion that was found last, at a point before this one."""

    @classmethod
    def of(cls, network: Network) -> "Recogniser":
        """A recogniser before the text."""
        plan = network.grammar.plan
        return cls(initial_state(network), None if plan is None else start_cursor(plan))

    @property
    def is_complete(self) -> bool:
        """Whether the text may end here."""
        return self.state.is_complete

    def max_completion_bytes(self) -> float:
        """At least as many bytes as `completion` has, known without searching for it."""
        longest = self.state.max_cost
        if self._cursor is None or not self._cursor.plan.forbids_repeats:
            return longest
        return math.inf if self._cursor.plan.can_run_out else _GUARDED_GROWTH * (longest + 1)

    def min_completion_bytes(self) -> int:
        """At most as many bytes as `completion` has: a guard only makes it longer.

        The cost also counts calls of rules, a millionth of a byte each, and a byte takes fewer than 2,000.
        """
        cost = self.state.cost
        return max(0, cost - cost // 512 - 1)

    def fork(self) -> "Recogniser":
        """Another recogniser at the same point."""
        return Recogniser(self.state, self._cursor, self._planned)

    def advance(self, text: bytes) -> bool:
        """Read more text; False, and no change, if the grammar or the guard does not allow it."""
        state = self.state.advance(text)
        if state is None:  # the cursor reads only what the grammar reads
            return False
        if self._cursor is not None:
            marked, cursor = marked_text(self._cursor, text), self._cursor.advance(text)
            if marked != text:
                state = self.state.advance(marked)
            if cursor is None or state is None:
                return False
            self._planned = self._planned and self._planned.after(text, cursor)
            self._cursor = cursor
        self.state = state
        return True

    def _remember(self, text: bytes) -> bytes:
        """Keep a text that completes this one, for what follows may need one much like it; returns it."""
        if self._cursor is not None and len(text) <= MAX_PLANNED:
            self._planned = PlannedText(self._cursor, text)
        return text

    def completion(self, budget: SearchBudget | None = None) -> bytes:
        """The shortest text that completes this one, the rest of a character included.

        Under a guard it can be a little longer than the shortest.

        Raises:
            UnsupportedGrammar: a guard lets no text complete it, or the search for one used up its budget.
        """
        if self._cursor is None:
            return self.state.completion()
        return guarded_completion(self.state, self._cursor, budget or SearchBudget())

    def completions(
        self, budget: SearchBudget, shortest: Callable[[SearchBudget], Sequence[bytes]] | None = None
    ) -> Iterator[bytes]:
        """The completion; nothing if none was found. At the beginning of a text, `shortest` may know it.

        Before it comes one that needs no search, but may be longer, if there is one.
        """
        if self._cursor is not None and shortest is None:
            num_planned = len(self._planned.text) if self._planned else 0
            if not budget.allows_guarded(max(num_planned, self.min_completion_bytes())):
                return
        if self._planned and self._cursor:
            text = with_exchanged_item(self.state, self._cursor, self._planned)
            if text is not None:
                yield self._remember(text)
        if shortest is not None:
            yield from map(self._remember, shortest(budget))
            return
        with suppress(UnsupportedGrammar):
            yield self._remember(self.completion(budget))
