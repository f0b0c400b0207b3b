"""The budget closer: finds the shortest completion of one output, and says when it has to be written.

It follows the output token by token, as a matcher does. After each token it asks whether the shortest
completion still fits what is left of the budget. Mostly a bound on that completion answers; only near the end
of the budget is it spelled out.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, Protocol

from compiler.closing.segmentation import Segmentation
from compiler.errors import UnsupportedGrammar
from compiler.grammar.grammar import Expr, Grammar
from compiler.grammar.shortest import NEVER
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.recogniser.recogniser import Recogniser
from compiler.recogniser.rest_rules import RestRules
from compiler.recogniser.search_budget import SearchBudget

_MAX_BYTES_TO_COUNT = 1 << 14
"""The longest completion whose tokens are counted, which takes microseconds a byte. In a longer one, each
byte counts as a token, if the vocabulary has a token for every byte."""

_MAX_BYTES_TO_SPELL = 1 << 18
"""The longest completion that `Closer.minimum` spells. For a longer one it takes the bound that is known
without spelling it."""

_ATTEMPTS_WRITING = 3_000
"""The attempts of a search while an output is written, which are half a second: others wait for it."""
_BYTES_WRITING = _MAX_BYTES_TO_SPELL
"""The bytes of completions whose tokens are counted meanwhile, in half a second: many tools may have long
calls. The calls of four tools that are not known yet count as much."""
_ATTEMPTS_ON_LOOP = 20
"""The attempts that an event loop makes itself: three milliseconds."""
_BYTES_ON_LOOP = 1 << 11
"""The bytes of completions that an event loop counts itself: four milliseconds."""
_GUARDED_BYTES_ON_LOOP = 64
"""The longest completion that an event loop looks for under a guard: a byte takes up to 80 microseconds."""
_UNCOUNTED_BYTES = 32
"""So many bytes of which only the number is looked at take at most as long as one that is counted."""


ShortestTexts = Callable[[SearchBudget], Sequence[bytes]]
"""See `CompiledGrammar.shortest_texts`."""


class Closable(Protocol):
    """A position in an output from which the output can be completed; a value."""

    def after(self, token_id: int, token: bytes) -> "Closable | None":
        """The position after a token; None if it does not fit."""

    def must_compile(self, token: bytes) -> bool:
        """Whether the grammar of a tool must be compiled for an output that goes on with a token."""

    def completions(self, budget: SearchBudget) -> Iterator[bytes]:
        """Bytes that complete the output: the shortest for each tool or message that may follow.

        What a search does not find within the budget is left out.
        """

    def max_completion_bytes(self) -> float:
        """At least as many bytes as the shortest completion has; infinite where that is not easily known."""

    def min_completion_bytes(self) -> int:
        """At most as many bytes as the shortest completion has; 0 where that is not easily known."""

    def rest(self, rules: RestRules) -> Expr | None:
        """What may follow if no guard forbids it; None inside a character."""


@dataclass(frozen=True, slots=True)
class ParsedText:
    """Inside a text of one grammar, with which the output ends.

    At its beginning, `shortest` gives the shortest sentence, for which its grammar searches only once.
    """

    recogniser: Recogniser
    shortest: ShortestTexts | None = None

    def after(self, token_id: int, token: bytes) -> "ParsedText | None":  # noqa: ARG002 - the protocol's
        """The position after a token; None if it does not fit."""
        recogniser = self.recogniser.fork()
        return ParsedText(recogniser) if recogniser.advance(token) else None

    def must_compile(self, token: bytes) -> bool:  # noqa: ARG002 - the protocol's
        """The grammar of the text is compiled."""
        return False

    def completions(self, budget: SearchBudget) -> Iterator[bytes]:
        """What completes the text."""
        return self.recogniser.completions(budget, self.shortest)

    def max_completion_bytes(self) -> float:
        """At least as many bytes as the completion has."""
        return self.recogniser.max_completion_bytes()

    def min_completion_bytes(self) -> int:
        """At most as many bytes as the completion has."""
        return self.recogniser.min_completion_bytes()

    def rest(self, rules: RestRules) -> Expr | None:
        """The rest of the text."""
        return rules.rest(self.recogniser.state)


class _Point(NamedTuple):
    """A position in an output, and bytes that complete the output from there, if any are known."""

    position: Closable
    completion: bytes | None = None

    def after(self, token_id: int, token: bytes) -> "_Point | None":
        """The point after a token; None if the token does not fit."""
        position = self.position.after(token_id, token)
        if position is None:
            return None
        if self.completion is None or not self.completion.startswith(token):
            return _Point(position)
        return _Point(position, self.completion[len(token) :])


class _Admitted(NamedTuple):
    """A token that was admitted with so many tokens remaining, and the point after it."""

    token_id: int
    remaining: int
    after: _Point


class Closer:
    """Completes one output; one per generation, beside its matcher. Not thread-safe.

    With `closer = constraint.closer()` a generation of at most `max_tokens` goes:

        if not closer.fits(max_tokens):             # refuse: max_tokens is below closer.minimum()
        for each token t sampled under the mask, remaining = max_tokens - tokens so far:
            if closer.admits(t, remaining):         # take it
                closer.accepted(t)
            else:                                   # drop t, take all of these instead, and end: length
                ids = closer.completion_ids(remaining)

    Then whatever was taken is complete once `max_tokens` is reached, and every forced id is one the matcher
    accepts. Tokens that are not sampled, such as forced ones, need `admits` too. `fork()` looks ahead without
    changing this closer. Stop tokens count as nothing: an output may end without one.
    """

    def __init__(self, prepared: PreparedVocabulary, start: Closable) -> None:
        self._prepared = prepared
        self._tokens = prepared.vocabulary.tokens
        self._segmentation = Segmentation(prepared.index)
        self._stop_ids = frozenset(prepared.vocabulary.stop_ids)
        self._here = _Point(start)
        self._admitted: _Admitted | None = None
        """The last token that was admitted."""
        self._budget = SearchBudget()
        """What `fits` and `minimum` may search; shared by forks."""

    def minimum(self) -> int:
        """Tokens of the shortest completion from here; looks at every tool that may follow.

        A completion of more than 16 KiB is taken for one token a byte. If not every byte is a token, each of
        its tokens is taken for the longest there is.

        Raises:
            UnsupportedGrammar: no search found a completion.
        """
        index = self._prepared.index
        num_bytes: int = 1 if index.spells_bytes else index.longest
        least = self._here.position.min_completion_bytes()
        if least > _MAX_BYTES_TO_SPELL:
            return -(-least // num_bytes)
        best, text = NEVER, None
        for text in self._here.position.completions(self._budget):
            if len(text) > _MAX_BYTES_TO_COUNT:
                best = min(best, -(-len(text) // num_bytes))
            else:
                best = min(best, self._segmentation.count(text, best))
        if text is None:
            raise UnsupportedGrammar(
                "no arguments or answer without repeated keys or items were found;"
                " lower minItems where items must be unique"
            )
        return best

    def fits(self, remaining: int) -> bool:
        """Whether the output can be completed within `remaining` tokens; may search for seconds."""
        fitting = self._fitting(self._here, remaining, self._budget)
        self._here = fitting or self._here
        return fitting is not None

    def admits(self, token_id: int, remaining: int) -> bool:
        """Whether the output can be completed within `remaining` tokens, the first of which is `token_id`.

        False also if a completion would take long to find.
        """
        return self._admits(token_id, remaining, SearchBudget(_ATTEMPTS_WRITING, _BYTES_WRITING))

    def admits_at_once(self, token_id: int, remaining: int) -> bool | None:
        """What `admits` says, as far as an event loop may find out; None if a thread should.

        A thread should also follow the output into a tool whose grammar is not compiled yet.
        """
        if self.must_compile(token_id):
            return None
        budget = SearchBudget(_ATTEMPTS_ON_LOOP, _BYTES_ON_LOOP, _GUARDED_BYTES_ON_LOOP)
        is_admitted = self._admits(token_id, remaining, budget)
        return None if not is_admitted and budget.has_given_up else is_admitted

    def must_compile(self, token_id: int) -> bool:
        """Whether a token leads to one tool only, whose grammar is not compiled yet."""
        return self._here.position.must_compile(self._tokens[token_id])

    def _admits(self, token_id: int, remaining: int, budget: SearchBudget) -> bool:
        if token_id in self._stop_ids:
            return True
        if self._admitted is not None and self._admitted[:2] == (token_id, remaining):
            return True
        after = self._here.after(token_id, self._tokens[token_id])
        fitting = after and self._fitting(after, remaining - 1, budget)
        if fitting is None:
            return False
        self._admitted = _Admitted(token_id, remaining, fitting)
        return True

    def accepted(self, token_id: int) -> None:
        """The token was appended to the output."""
        if token_id in self._stop_ids:
            return
        if self._admitted is not None and self._admitted.token_id == token_id:
            self._here = self._admitted.after
        else:
            after = self._here.after(token_id, self._tokens[token_id])
            assert after is not None, f"token {token_id} was accepted against the grammar"
            self._here = after
        self._admitted = None

    def completion_ids(self, remaining: int) -> list[int]:
        """At most `remaining` ids that complete the output from here.

        Raises:
            UnsupportedGrammar: the tokens of the vocabulary spell no completion that fits.
        """
        known = () if self._here.completion is None else (self._here.completion,)
        # Any completion was known to fit, but a short search may find none: then a long one is made.
        budgets = (SearchBudget(_ATTEMPTS_WRITING), SearchBudget())
        found = chain.from_iterable(map(self._here.position.completions, budgets))
        for text in chain(known, found):
            if self._count(text, remaining) <= remaining:
                return self._segmentation.ids(text)
        raise UnsupportedGrammar(f"no {remaining} tokens of the vocabulary spell the rest of the output")

    def rest_grammar(self) -> Grammar | None:
        """The grammar of what may follow, for an engine that takes one; None inside a character.

        It leaves guards out. Where several tools may be called, it ends after the header of a call.
        """
        rules = RestRules()
        return rules.grammar(self._here.position.rest(rules))

    def fork(self) -> "Closer":
        """Another one at the same position."""
        twin = Closer(self._prepared, self._here.position)
        twin._segmentation, twin._budget, twin._here = self._segmentation, self._budget, self._here
        return twin

    def _fitting(self, point: _Point, remaining: int, budget: SearchBudget) -> _Point | None:
        """The point, with a completion that fits what remains if one had to be found; None if none was."""
        position, known, index = point.position, point.completion, self._prepared.index
        if position.min_completion_bytes() > remaining * index.longest:
            return None
        if index.spells_bytes and position.max_completion_bytes() <= remaining:
            return point
        if known is not None and self._count(known, remaining) <= remaining:
            return point
        if position.min_completion_bytes() > budget.num_bytes_left:
            budget.has_given_up = True
            return None
        for text in position.completions(budget):
            if not budget.try_spend_bytes(self._num_bytes_counted(text, remaining)):
                break
            if self._count(text, remaining) <= remaining:
                return _Point(position, text)
        return None

    def _count(self, text: bytes, remaining: int) -> int:
        """At least as many tokens as spell a completion; more than `remaining` if it is not known to fit."""
        if self._counts_each_byte(text, remaining):
            return len(text)
        return self._segmentation.count(text, remaining)

    def _counts_each_byte(self, text: bytes, remaining: int) -> bool:
        """Whether each byte of a completion counts as a token."""
        is_short_or_long = len(text) <= remaining or len(text) > _MAX_BYTES_TO_COUNT
        return is_short_or_long and self._prepared.index.spells_bytes

    def _num_bytes_counted(self, text: bytes, remaining: int) -> int:
        """The bytes that `_count` counts, or a part of them if it only looks at their number."""
        is_too_long = len(text) > remaining * self._prepared.index.longest
        is_uncounted = is_too_long or self._counts_each_byte(text, remaining)
        return len(text) // _UNCOUNTED_BYTES if is_uncounted else len(text)
