"""xgrammar's matcher of rules that a client wrote, within limits of time and memory.

Such rules can be so ambiguous that very many derivations fit a text. Then each mask takes long
(`compiler.timed_fills`), the matcher grows (`compiler.held_memory`), and to walk along a text that is forced
takes many seconds, which nothing can interrupt. So no text is known to be forced: each token is sampled.
"""

from collections.abc import Callable

import xgrammar as xgr

from compiler.held_memory import AcceptTime, HeldMemory
from compiler.matcher import Bitmask
from compiler.timed_fills import TimedFills


class ClientGrammarMatcher:
    """What is used of xgrammar's matcher.

    The methods that advance, copy or fill raise MatchingTooSlow. After a mask took too long, the matcher must
    not be used any more; otherwise it has not changed.
    """

    def __init__(
        self,
        matcher: xgr.GrammarMatcher,
        fills: TimedFills,
        held: HeldMemory,
        time: AcceptTime | None = None,
    ) -> None:
        self._matcher = matcher
        self._fills = fills
        self._held = held
        self._time = time or held.begin(fills.client_id)
        self._steps_s: list[float] = []
        """The time of each step that was accepted."""

    def fork(self) -> "ClientGrammarMatcher":
        """A second matcher at the same point, which cannot be rolled back to before that point."""
        time = self._held.begin(self._fills.client_id, self._time.seconds)
        return ClientGrammarMatcher(self._matcher.fork(), self._fills, self._held, time)

    def accept_token(self, token_id: int) -> bool:
        """Advance by a token; False, and no change, if it is not allowed."""
        return self._accept(lambda: self._matcher.accept_token(token_id))

    def accept_string(self, text: str | bytes) -> bool:
        """Advance by a text, which is one step; False, and no change, if it is not allowed."""
        return self._accept(lambda: self._matcher.accept_string(text))

    def _accept(self, accept: Callable[[], bool]) -> bool:
        is_accepted, step_s = self._held.accept(self._time, self._fills.client_id, accept)
        if is_accepted:
            self._steps_s.append(step_s)
        return is_accepted

    def rollback(self, num_steps: int) -> None:
        """Undo the last steps."""
        self._matcher.rollback(num_steps)
        for _ in range(num_steps):
            self._time.seconds -= self._steps_s.pop()

    def fill_next_token_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Overwrite a row with the tokens that may come next."""
        self._fills.fill(self._matcher, bitmask, row, owner=self._time)

    def find_jump_forward_string(self) -> str:
        """Nothing: see above."""
        return ""

    def is_completed(self) -> bool:
        """Whether what was accepted is a whole sentence."""
        return bool(self._matcher.is_completed())

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted after a whole sentence."""
        return bool(self._matcher.is_terminated())
