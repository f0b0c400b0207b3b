"""The junction: a place in an output from which fixed text must follow, a call's header or the closing.

Nothing is built per tool name but a sorted list: a position is the text read since the junction, and its
mask is the intersection of the names in their order with the vocabulary in its order, found by narrowing
both.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from compiler.token_index import SparseMask, TokenIndex, successor
from compiler.unit import ARGUMENTS_START

MAX_KEPT_MASKS = 8192
_FEW_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """A call's header is over: the unit of `name` begins, with `rest` of a token already read."""

    name: str
    rest: bytes


class Names:
    """Tool names as calls spell them, in byte order, each up to where the unit begins."""

    def __init__(self, spelled: Sequence[tuple[bytes, str]]) -> None:
        """Take (spelling, name) pairs.

        Raises:
            ValueError: one spelling begins with another; the message names both tools.
        """
        pairs = sorted(spelled)
        self.keys = [key for key, _ in pairs]
        self.names = [name for _, name in pairs]
        for at in range(1, len(pairs)):
            if self.keys[at].startswith(self.keys[at - 1]):
                raise ValueError(f"calls of {self.names[at - 1]!r} and {self.names[at]!r} begin alike")

    def narrow(self, prefix: bytes, low: int, high: int) -> tuple[int, int]:
        """The range of keys, inside `low:high`, that begin with `prefix`."""
        low = bisect_left(self.keys, prefix, low, high)
        after = successor(prefix)
        return low, high if after is None else bisect_left(self.keys, after, low, high)


class Junction:
    """Either `lead` and a name follow, or `closing` does and nothing after it.

    `lead` None: no call; `closing` None: the output cannot end here. `consumed` asks a unit how much of
    some bytes it takes (see `Unit.consumed`), `follow` is the junction after a unit.
    """

    def __init__(
        self,
        index: TokenIndex,
        names: Names,
        *,
        lead: bytes | None,
        closing: bytes | None,
        consumed: Callable[[str, bytes], int | None],
        follow: "Junction | None" = None,
    ) -> None:
        self.names = names
        self.lead = lead
        self.closing = closing
        self.follow = follow or self
        self._index = index
        self._consumed = consumed
        self._masks: dict[bytes, SparseMask] = {}

    def is_closed(self, text: bytes) -> bool:
        """Whether the output may end after `text`."""
        return text == self.closing

    def first_bytes(self) -> set[bytes]:
        """What any text from here begins with."""
        return {text[:1] for text in (self.lead, self.closing) if text}

    def step(self, text: bytes) -> Entry | bytes | None:
        """Where `text`, read from the junction on, leads: into a unit, to a position here, or nowhere."""
        if self.closing is not None and self.closing.startswith(text):
            return text
        if self.lead is None or not (text.startswith(self.lead) or self.lead.startswith(text)):
            return None
        key = text[len(self.lead) :]
        at = bisect_right(self.names.keys, key)
        if at and key.startswith(self.names.keys[at - 1]):
            return Entry(self.names.names[at - 1], key[len(self.names.keys[at - 1]) :])
        is_begun = at < len(self.names.keys) and self.names.keys[at].startswith(key)
        return text if is_begun or not key else None

    def fits(self, text: bytes) -> bool:
        """Whether some output goes on with `text` from the junction."""
        where = self.step(text)
        return self._enters(where) if isinstance(where, Entry) else where is not None

    def mask(self, text: bytes) -> SparseMask:
        """The tokens that may follow `text`."""
        mask = self._masks.get(text)
        if mask is None:
            if len(self._masks) >= MAX_KEPT_MASKS:
                self._masks.clear()
            mask = self._masks[text] = SparseMask.of_ids(self._allowed(text))
        return mask

    def _enters(self, entry: Entry) -> bool:
        taken = self._consumed(entry.name, entry.rest) if entry.rest else 0
        if taken is None or taken == len(entry.rest):
            return taken is not None
        return self.follow.fits(entry.rest[taken:])

    def _allowed(self, text: bytes) -> Iterator[int]:
        index = self._index
        if self.closing is not None and self.closing.startswith(text):
            yield from index.stop_ids if self.is_closed(text) else ()
            yield from self._along(self.closing[len(text) :])
        if self.lead is None or not self.names.keys:
            return
        if self.lead.startswith(text):
            low, high, read = 0, len(self.names.keys), text
        elif text.startswith(self.lead):
            low, high = self.names.narrow(text[len(self.lead) :], 0, len(self.names.keys))
            read = text
        else:
            return
        yield from self._among(read, low, high)

    def _along(self, text: bytes) -> Iterator[int]:
        """Ids of the tokens that are prefixes of `text`."""
        low, high = 0, len(self._index.spellings)
        for end in range(1, len(text) + 1):
            low, high = self._index.narrow(text[:end], low, high)
            if low == high:
                return
            if self._index.spellings[low] == text[:end]:
                yield from self._index.ids[low]

    def _among(self, read: bytes, low: int, high: int) -> Iterator[int]:
        """Ids of the tokens that go on after `read` along any of the keys `low:high`."""
        assert self.lead is not None, "only called where calls may follow"
        index, keys = self._index, self.names.keys
        ranges = [(low, high, 0, 0, len(index.spellings))]
        while ranges:
            low, high, depth, first, last = ranges.pop()
            shared = _shared_prefix(keys[low], keys[high - 1])
            onward = (self.lead + shared)[len(read) :]
            while depth < len(onward) and last - first > _FEW_TOKENS:
                depth += 1
                first, last = index.narrow(onward[:depth], first, last)
                if first < last and index.spellings[first] == onward[:depth]:
                    yield from index.ids[first]
                    first += 1
            if last - first <= _FEW_TOKENS:
                yield from self._fitting(read, first, last)
            elif high - low == 1:
                yield from self._fitting(read, *index.narrow(onward + ARGUMENTS_START, first, last))
            else:
                branches = self._branches(shared, low, high)
                ranges += [(*branch, depth, first, last) for branch in branches]

    def _fitting(self, read: bytes, first: int, last: int) -> Iterator[int]:
        for at in range(first, last):
            if self.fits(read + self._index.spellings[at]):
                yield from self._index.ids[at]

    def _branches(self, shared: bytes, low: int, high: int) -> Iterator[tuple[int, int]]:
        while low < high:
            _, end = self.names.narrow(self.names.keys[low][: len(shared) + 1], low, high)
            yield low, end
            low = end


def _shared_prefix(first: bytes, last: bytes) -> bytes:
    """What two texts, and all between them in byte order, begin with."""
    for at, (one, other) in enumerate(zip(first, last, strict=False)):
        if one != other:
            return first[:at]
    return first[: len(last)]
