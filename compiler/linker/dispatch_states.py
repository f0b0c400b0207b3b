"""The dispatcher's states outside of units: free text, and the fixed texts that lead from it into calls.

A `FreeText` ends at a call's trigger or at the end of a message. A `DispatchState` ends with a header, which
leads into the unit of a tool, the text of a message or an answer; or with the closing, which ends the output.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from compiler.compiled_format import CompiledFormat
from compiler.token_index import Row, SparseMask, TokenIndex, successor

MAX_CACHED_MASKS = 8192
_FEW_TOKENS = 4


class FreeText:
    """Text that may or may not contain `pattern`.

    A state is how many bytes of `pattern` the text ends with (Knuth, Morris, Pratt). What ends the text is
    the token `marker_id`, if there is one, or else the pattern; without an `exit` neither can.
    `may_stop` says whether the output may end in the text, `is_thought` whether a thought is written there.
    """

    def __init__(
        self,
        index: TokenIndex,
        pattern: bytes,
        *,
        may_stop: bool,
        marker_id: int | None = None,
        is_thought: bool = False,
    ) -> None:
        assert pattern, "every syntax has a trigger"
        self.pattern = pattern
        self.marker_id = marker_id
        self.may_stop = may_stop
        self.is_thought = is_thought
        self.exit: DispatchState | None = None
        """Where the output goes on after the text. It is set later, since it may lead back here."""
        self._index = index
        self._borders = _borders(pattern)
        self._patches: dict[int, SparseMask] = {}

    def step(self, state: int, token: bytes) -> tuple[int, bytes | None]:
        """The state after `token`; and the bytes after the pattern, if the token completes it."""
        for at, byte in enumerate(token):
            while state and self.pattern[state] != byte:
                state = self._borders[state]
            if self.pattern[state] == byte:
                state += 1
            if state == len(self.pattern):
                return state, token[at + 1 :]
        return state, None

    def held_back(self, state: int) -> bytes:
        """The end of the text in a state that may turn out to be what ends it; empty where a marker does."""
        return self.pattern[:state] if self.marker_id is None and self.exit is not None else b""

    def allows(self, rest: bytes) -> bool:
        """Whether a token may complete the pattern and go on with `rest`."""
        return self.marker_id is None and self.exit is not None and self.exit.fits(self.pattern + rest)

    def fits(self, text: bytes) -> bool:
        """Whether `text` can stand at the beginning of the free text and what follows it."""
        _, rest = self.step(0, text)
        return rest is None or self.allows(rest)

    def fill(self, state: int, row: Row) -> None:
        """Overwrite the row with the tokens that may follow in this state."""
        patch = self._patches.get(state)
        if patch is None:
            patch = self._patches[state] = SparseMask.of_ids(self._excluded(state), base=self._row)
        row[:] = self._row
        patch.patch(row)

    @cached_property
    def _row(self) -> Row:
        """The tokens that may follow where none of them can complete the pattern."""
        row = self._index.text_row.copy()
        if self.marker_id is not None:
            SparseMask.of_ids([self.marker_id]).add(row)
        if not self.may_stop:
            SparseMask.of_ids(self._index.stop_ids, base=row).patch(row)
        return row

    @cached_property
    def _containing(self) -> Sequence[int]:
        return self._index.containing(self.pattern)

    def _excluded(self, state: int) -> Iterator[int]:
        for at in self._candidates(state):
            _, rest = self.step(state, self._index.spellings[at])
            if rest is not None and not self.allows(rest):
                yield from self._index.ids[at]

    def _candidates(self, state: int) -> set[int]:
        """Positions in the index of all tokens that may complete the pattern.

        They contain the pattern, or begin with what is missing of it.
        """
        positions = set(self._containing)
        while state:
            positions.update(range(*self._index.narrow(self.pattern[state:])))
            state = self._borders[state]
        return positions


HeaderTarget = str | FreeText | CompiledFormat
"""What a header leads to: the unit of the tool of that name, the text of a message, or an answer."""


@dataclass(frozen=True, slots=True)
class HeaderMatch:
    """A header has been read; `rest` is what the same token wrote after it, of `target`."""

    target: HeaderTarget
    rest: bytes


class Headers:
    """The fixed texts that begin calls and messages, in byte order; most of them contain a tool name.

    The last `num_lookahead` bytes of every key belong to the target: where nothing follows a name, the byte
    that arguments start with shows where the name ends.
    """

    def __init__(self, spelled: Iterable[tuple[bytes, HeaderTarget]], *, num_lookahead: int) -> None:
        """Take (spelling, target) pairs.

        Raises:
            ValueError: one spelling begins with another; the message names both tools.
        """
        pairs = sorted(spelled, key=lambda pair: pair[0])
        self.keys = [key for key, _ in pairs]
        self.targets = [target for _, target in pairs]
        self.num_lookahead = num_lookahead
        for at in range(1, len(pairs)):
            if self.keys[at].startswith(self.keys[at - 1]):
                raise ValueError(
                    f"calls of {self.targets[at - 1]!r} and {self.targets[at]!r} begin with the same text"
                )

    def narrow(self, prefix: bytes, low: int, high: int) -> tuple[int, int]:
        """The range of keys, inside `low:high`, that begin with `prefix`."""
        low = bisect_left(self.keys, prefix, low, high)
        after = successor(prefix)
        return low, high if after is None else bisect_left(self.keys, after, low, high)


class DispatchState:
    """A state from which fixed text follows: `lead` and a header; or `closing`, and nothing after it.

    `lead` None: no header follows; `closing` None: the output cannot end here. `starts` are the bytes that
    units begin with. `enters` tells whether the output can go on with some bytes from a tool's unit on.

    Of the tool names only a sorted list is built. A sequence's place in this state is the text that was read
    since it entered the state. The mask for such a text is the intersection of the sorted headers with the
    sorted vocabulary, found by narrowing ranges of both.
    """

    def __init__(
        self,
        index: TokenIndex,
        headers: Headers,
        *,
        lead: bytes | None,
        closing: bytes | None,
        starts: bytes,
        enters: Callable[[str, bytes], bool],
    ) -> None:
        self._headers = headers
        self.lead = lead
        self.closing = closing
        self._index = index
        self._starts = starts
        self._enters = enters
        self._masks: dict[bytes, SparseMask] = {}

    def is_closed(self, text: bytes) -> bool:
        """Whether the output may end after `text`."""
        return text == self.closing

    def first_bytes(self) -> set[bytes]:
        """The bytes that can come first from here, each as a text of one byte."""
        leads = self._headers.keys if self.lead == b"" else [self.lead or b""]
        return {text[:1] for text in (*leads, self.closing or b"") if text}

    def step(self, text: bytes) -> HeaderMatch | bytes | None:
        """Where `text`, read in this state, leads: past a header, or still here (`text`), or nowhere."""
        if self.closing_after(text) is not None:
            return text
        if self.lead is None or not (text.startswith(self.lead) or self.lead.startswith(text)):
            return None
        key = text[len(self.lead) :]
        at = bisect_right(self._headers.keys, key)
        if at and key.startswith(self._headers.keys[at - 1]):
            begin = len(self._headers.keys[at - 1]) - self._headers.num_lookahead
            return HeaderMatch(self._headers.targets[at - 1], key[begin:])
        is_prefix = at < len(self._headers.keys) and self._headers.keys[at].startswith(key)
        return text if is_prefix or not key else None

    def fits(self, text: bytes) -> bool:
        """Whether the output can go on with `text` from this state."""
        after = self.step(text)
        if not isinstance(after, HeaderMatch):
            return after is not None
        if isinstance(after.target, str):
            return self._enters(after.target, after.rest)
        return after.target.fits(after.rest)

    def closing_after(self, text: bytes) -> bytes | None:
        """What is left of the closing after `text`; None if the closing does not begin with `text`."""
        if self.closing is None or not self.closing.startswith(text):
            return None
        return self.closing[len(text) :]

    def headers_after(self, text: bytes) -> list[tuple[bytes, HeaderTarget]]:
        """What is left, after `text`, of each header that is still possible; and the header's target."""
        low, high = self._reach(text)
        whole = ((self.lead or b"") + key for key in self._headers.keys[low:high])
        rests = (header[len(text) : len(header) - self._headers.num_lookahead] for header in whole)
        return list(zip(rests, self._headers.targets[low:high], strict=True))

    def _reach(self, text: bytes) -> tuple[int, int]:
        """The range of headers that are still possible after `text`."""
        if self.lead is None:
            return 0, 0
        if self.lead.startswith(text):
            return 0, len(self._headers.keys)
        if not text.startswith(self.lead):
            return 0, 0
        return self._headers.narrow(text[len(self.lead) :], 0, len(self._headers.keys))

    def forced(self, text: bytes) -> tuple[bytes, HeaderTarget | None]:
        """What every output goes on with after `text`; and the target after that, if only one is left."""
        low, high = self._reach(text)
        closing = self.closing_after(text)
        if low == high or self.lead is None:
            return closing or b"", None
        shared = _shared_prefix(self._headers.keys[low], self._headers.keys[high - 1])
        onward = (self.lead + shared)[len(text) :]
        if closing is not None:
            return _shared_prefix(closing, onward), None
        if high - low > 1:
            return onward, None
        return onward[: len(onward) - self._headers.num_lookahead], self._headers.targets[low]

    def only_target(self, text: bytes) -> HeaderTarget | None:
        """The target that `text`, read in this state, leads to; None if it can lead to others."""
        after = self.step(text)
        if isinstance(after, HeaderMatch):
            return after.target
        low, high = self._reach(text)
        targets = self._headers.targets[low:high]
        return targets[0] if targets and targets[0] == targets[-1] else None

    def mask(self, text: bytes) -> SparseMask:
        """The tokens that may follow `text`."""
        mask = self._masks.get(text)
        if mask is None:
            if len(self._masks) >= MAX_CACHED_MASKS:
                self._masks.clear()
            mask = self._masks[text] = SparseMask.of_ids(self._allowed(text))
        return mask

    def _allowed(self, text: bytes) -> Iterator[int]:
        index, closing = self._index, self.closing_after(text)
        if closing is not None:
            yield from (i for at in index.beginnings(closing) for i in index.ids[at])
            yield from () if closing else index.stop_ids
        low, high = self._reach(text)
        if low < high:
            yield from self._among(text, low, high)

    def _among(self, read: bytes, low: int, high: int) -> Iterator[int]:
        """Ids of the tokens that go on after `read` along any of the headers `low:high`.

        Sorted texts are a trie, and headers and spellings are walked as two tries, side by side. Each entry
        of `ranges` has headers, the number of bytes that were read of what they share, and the spellings that
        begin with these bytes. Where headers part, each branch goes on by itself.
        """
        assert self.lead is not None, "only called where a header may follow"
        index, keys = self._index, self._headers.keys
        ranges = [(low, high, 0, 0, len(index.spellings))]
        while ranges:
            low, high, depth, first, last = ranges.pop()
            shared = _shared_prefix(keys[low], keys[high - 1])
            onward = (self.lead + shared)[len(read) :]
            while depth < len(onward) and last - first > _FEW_TOKENS:
                depth += 1
                first, last = index.narrow(onward[:depth], first, last)
                if first < last and index.spellings[first] == onward[:depth]:
                    if depth < len(onward) or not self._headers.num_lookahead:
                        yield from index.ids[first]
                    else:
                        yield from self._fitting(read, first, first + 1)
                    first += 1
            if last - first <= _FEW_TOKENS:
                yield from self._fitting(read, first, last)
            elif high - low == 1:
                for start in self._starts_of(low):
                    yield from self._fitting(read, *index.narrow(onward + start, first, last))
            else:
                branches = self._branches(shared, low, high)
                ranges += [(*branch, depth, first, last) for branch in branches]

    def _starts_of(self, at: int) -> list[bytes]:
        """What a header's target can begin with after the header's key."""
        if self._headers.num_lookahead or not isinstance(self._headers.targets[at], str):
            return [b""]
        return [bytes([start]) for start in self._starts]

    def _fitting(self, read: bytes, first: int, last: int) -> Iterator[int]:
        for at in range(first, last):
            if self.fits(read + self._index.spellings[at]):
                yield from self._index.ids[at]

    def _branches(self, shared: bytes, low: int, high: int) -> Iterator[tuple[int, int]]:
        while low < high:
            _, end = self._headers.narrow(self._headers.keys[low][: len(shared) + 1], low, high)
            yield low, end
            low = end


def _borders(pattern: bytes) -> list[int]:
    """For every length, the longest proper prefix that the pattern's prefix of that length ends with."""
    borders = [0, 0]
    for at in range(1, len(pattern)):
        border = borders[at]
        while border and pattern[border] != pattern[at]:
            border = borders[border]
        borders.append(border + 1 if pattern[border] == pattern[at] else 0)
    return borders


def _shared_prefix(first: bytes, last: bytes) -> bytes:
    """What two texts, and all between them in byte order, begin with."""
    for at, (low, high) in enumerate(zip(first, last, strict=False)):
        if low != high:
            return first[:at]
    return first[: len(last)]
