"""The junction: a place in an output from which fixed text must follow, a call's header or the closing.

Nothing is built per tool name but a sorted list: a position is the text read since the junction, and its
mask is the intersection of the names in their order with the vocabulary in its order, found by narrowing
both.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from compiler.linker.headers import Headers, Target
from compiler.token_index import SparseMask, TokenIndex

MAX_KEPT_MASKS = 8192
_FEW_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """A header is over: `target` begins, with `rest` of a token already read."""

    target: Target
    rest: bytes


class Junction:
    """Either `lead` and a header follow, or `closing` does and nothing after it.

    `lead` None: no call; `closing` None: the output cannot end here. `starts` are the bytes that units begin
    with, and `enters` says of a tool whether some output goes on with some bytes from its unit on.
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
        self.headers = headers
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
        """What any text from here begins with."""
        leads = self.headers.keys if self.lead == b"" else [self.lead or b""]
        return {text[:1] for text in (*leads, self.closing or b"") if text}

    def step(self, text: bytes) -> Entry | bytes | None:
        """Where `text`, read from the junction on, leads: into a unit, to a position here, or nowhere."""
        if self.closing is not None and self.closing.startswith(text):
            return text
        if self.lead is None or not (text.startswith(self.lead) or self.lead.startswith(text)):
            return None
        key = text[len(self.lead) :]
        at = bisect_right(self.headers.keys, key)
        if at and key.startswith(self.headers.keys[at - 1]):
            begin = len(self.headers.keys[at - 1]) - self.headers.num_given_back
            return Entry(self.headers.targets[at - 1], key[begin:])
        is_begun = at < len(self.headers.keys) and self.headers.keys[at].startswith(key)
        return text if is_begun or not key else None

    def fits(self, text: bytes) -> bool:
        """Whether some output goes on with `text` from the junction."""
        where = self.step(text)
        if not isinstance(where, Entry):
            return where is not None
        if isinstance(where.target, str):
            return self._enters(where.target, where.rest)
        return where.target.fits(where.rest)

    def reach(self, text: bytes) -> tuple[int, int]:
        """The range of keys that may still follow `text`."""
        if self.lead is None:
            return 0, 0
        if self.lead.startswith(text):
            return 0, len(self.headers.keys)
        if not text.startswith(self.lead):
            return 0, 0
        return self.headers.narrow(text[len(self.lead) :], 0, len(self.headers.keys))

    def forced(self, text: bytes) -> tuple[bytes, Target | None]:
        """What every output goes on with after `text`; and the target behind that, if there is but one."""
        low, high = self.reach(text)
        closing = self.closing if self.closing is not None and self.closing.startswith(text) else None
        if low == high or self.lead is None:
            return (closing or b"")[len(text) :], None
        onward = (self.lead + _shared_prefix(self.headers.keys[low], self.headers.keys[high - 1]))[
            len(text) :
        ]
        if closing is not None:
            return _shared_prefix(closing[len(text) :], onward), None
        if high - low > 1:
            return onward, None
        return onward[: len(onward) - self.headers.num_given_back], self.headers.targets[low]

    def mask(self, text: bytes) -> SparseMask:
        """The tokens that may follow `text`."""
        mask = self._masks.get(text)
        if mask is None:
            if len(self._masks) >= MAX_KEPT_MASKS:
                self._masks.clear()
            mask = self._masks[text] = SparseMask.of_ids(self._allowed(text))
        return mask

    def _allowed(self, text: bytes) -> Iterator[int]:
        index = self._index
        if self.closing is not None and self.closing.startswith(text):
            yield from index.stop_ids if self.is_closed(text) else ()
            yield from (i for at in index.beginnings(self.closing[len(text) :]) for i in index.ids[at])
        low, high = self.reach(text)
        if low < high:
            yield from self._among(text, low, high)

    def _among(self, read: bytes, low: int, high: int) -> Iterator[int]:
        """Ids of the tokens that go on after `read` along any of the keys `low:high`."""
        assert self.lead is not None, "only called where calls may follow"
        index, keys = self._index, self.headers.keys
        ranges = [(low, high, 0, 0, len(index.spellings))]
        while ranges:
            low, high, depth, first, last = ranges.pop()
            shared = _shared_prefix(keys[low], keys[high - 1])
            onward = (self.lead + shared)[len(read) :]
            while depth < len(onward) and last - first > _FEW_TOKENS:
                depth += 1
                first, last = index.narrow(onward[:depth], first, last)
                if first < last and index.spellings[first] == onward[:depth]:
                    if depth < len(onward) or not self.headers.num_given_back:
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
        """What the target of a key begins with, behind the key."""
        if self.headers.num_given_back or not isinstance(self.headers.targets[at], str):
            return [b""]
        return [bytes([start]) for start in self._starts]

    def _fitting(self, read: bytes, first: int, last: int) -> Iterator[int]:
        for at in range(first, last):
            if self.fits(read + self._index.spellings[at]):
                yield from self._index.ids[at]

    def _branches(self, shared: bytes, low: int, high: int) -> Iterator[tuple[int, int]]:
        while low < high:
            _, end = self.headers.narrow(self.headers.keys[low][: len(shared) + 1], low, high)
            yield low, end
            low = end


def _shared_prefix(first: bytes, last: bytes) -> bytes:
    """What two texts, and all between them in byte order, begin with."""
    for at, (one, other) in enumerate(zip(first, last, strict=False)):
        if one != other:
            return first[:at]
    return first[: len(last)]
