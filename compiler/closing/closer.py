"""The budget closer: knows how to complete one output in the shortest way, and when it is now or never.

It follows the output token by token, as a matcher does. After each token it asks whether the shortest
completion still fits what is left of the budget. Mostly a bound on that completion answers; only near the end
of the budget is it spelled out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Protocol

from compiler.errors import UnsupportedGrammar
from compiler.grammar.shortest import NEVER
from compiler.prepared_vocabulary import PreparedVocabulary
from compiler.recogniser.recogniser import Recogniser
from compiler.token_index import TokenIndex


class Closable(Protocol):
    """A position in an output from which the output can be completed; a value."""

    def after(self, token_id: int, token: bytes) -> "Closable | None":
        """The position after a token; None if it does not fit."""

    def completions(self) -> Iterator[bytes]:
        """Bytes that complete the output: the shortest for each tool or message that may follow."""

    def bound(self) -> float:
        """At least as many bytes as the shortest completion has; infinite where that is not easily known."""


@dataclass(frozen=True, slots=True)
class ParsedText:
    """Inside a text of one grammar, with which the output ends."""

    recogniser: Recogniser

    def after(self, token_id: int, token: bytes) -> "ParsedText | None":  # noqa: ARG002 - the protocol's
        """The position after a token; None if it does not fit."""
        recogniser = self.recogniser.fork()
        return ParsedText(recogniser) if recogniser.advance(token) else None

    def completions(self) -> Iterator[bytes]:
        """What completes the text."""
        yield self.recogniser.completion()

    def bound(self) -> float:
        """At least as many bytes as the completion has."""
        return self.recogniser.bound()


class Closer:
    """Completes one output; one per generation, beside its matcher. Not thread-safe.

    With `closer = constraint.closer()` a generation of at most `max_tokens` goes:

        if not closer.fits(max_tokens):             # refuse: max_tokens is below closer.minimum()
        for each token t sampled under the mask, remaining = max_tokens - tokens so far:
            if closer.admits(t, remaining):         # take it
                closer.accepted(t)
            else:                                   # drop t, take all of these instead, and end: length
                ids = closer.closing(remaining)

    Then whatever was taken is complete once `max_tokens` is reached, and every forced id is one the matcher
    accepts. Tokens that are not sampled, such as forced ones, need `admits` too. `fork()` looks ahead without
    changing this closer. Stop tokens count as nothing: an output may end without one.
    """

    def __init__(self, prepared: PreparedVocabulary, start: Closable) -> None:
        self._prepared = prepared
        self._tokens = prepared.vocabulary.tokens
        self._segmentation = Segmentation(prepared.index)
        self._stop_ids = frozenset(prepared.vocabulary.stop_ids)
        self._position = start
        self._admitted: tuple[int, Closable] | None = None
        """The token that was admitted last, and the position after it: `accepted` need not read it again."""

    def minimum(self) -> int:
        """Tokens of the shortest completion from here; looks at every tool that may follow."""
        return min((self._segmentation.count(text) for text in self._position.completions()), default=NEVER)

    def fits(self, remaining: int) -> bool:
        """Whether the output can be completed within `remaining` tokens: `minimum() <= remaining`, sooner."""
        return self._fits(self._position, remaining)

    def admits(self, token_id: int, remaining: int) -> bool:
        """Whether the output can be completed within `remaining` tokens of which `token_id` is the first."""
        if token_id in self._stop_ids:
            return True
        position = self._position.after(token_id, self._tokens[token_id])
        if position is None or not self._fits(position, remaining - 1):
            return False
        self._admitted = (token_id, position)
        return True

    def accepted(self, token_id: int) -> None:
        """The token was appended to the output."""
        if token_id in self._stop_ids:
            return
        if self._admitted is not None and self._admitted[0] == token_id:
            self._position = self._admitted[1]
        else:
            position = self._position.after(token_id, self._tokens[token_id])
            assert position is not None, f"token {token_id} was accepted against the grammar"
            self._position = position
        self._admitted = None

    def closing(self, remaining: int | None = None) -> list[int]:
        """The ids that complete the output from here, at most `remaining`; the fewest without a limit.

        Raises:
            UnsupportedGrammar: the vocabulary cannot spell any completion.
        """
        count = self._segmentation.count
        fitting = (text for text in self._position.completions() if count(text) <= (remaining or 0))
        text = next(fitting, None) if remaining is not None else None
        if text is None:
            text = min(self._position.completions(), key=count, default=None)
        if text is None or count(text) >= NEVER:
            raise UnsupportedGrammar("no tokens of the vocabulary spell the rest of the output")
        return self._segmentation.ids(text)

    def fork(self) -> "Closer":
        """Another one at the same position."""
        twin = Closer(self._prepared, self._position)
        twin._segmentation = self._segmentation
        return twin

    def _fits(self, position: Closable, budget: int) -> bool:
        if self._spells_bytes and position.bound() <= budget:
            return True
        return any(
            (self._spells_bytes and len(text) <= budget) or self._segmentation.count(text) <= budget
            for text in position.completions()
        )

    @cached_property
    def _spells_bytes(self) -> bool:
        """Whether every byte of UTF-8 that JSON and the syntax need is a token of its own."""
        needed = chain(b"\t\n\r", range(0x20, 0x7F), range(0x80, 0xC0), range(0xC2, 0xF5))
        return all(self._segmentation.count(bytes([byte])) == 1 for byte in needed)


class Segmentation:
    """The fewest tokens of a vocabulary that spell some bytes.

    Caches answers by the bytes that are left to spell, since completions have the same endings.
    """

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
