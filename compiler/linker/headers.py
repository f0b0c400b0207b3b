"""Headers: the fixed texts that begin calls and messages, in the order of their bytes, and their targets."""

from bisect import bisect_left
from collections.abc import Iterable

from compiler.linker.answer import Answer
from compiler.linker.free_text import FreeText
from compiler.token_index import successor

Target = str | FreeText | Answer
"""What a header leads to: the unit of the tool of that name, or the text of a message, or an answer."""


class Headers:
    """Headers in byte order, each up to where its target begins; most of them hold a tool name.

    The last `num_given_back` bytes of every key belong to the target: where nothing stands behind a name, the
    byte that arguments start with tells where it ends.
    """

    def __init__(self, spelled: Iterable[tuple[bytes, Target]], *, num_given_back: int = 0) -> None:
        """Take (spelling, target) pairs.

        Raises:
            ValueError: one spelling begins with another; the message names both tools.
        """
        pairs = sorted(spelled, key=lambda pair: pair[0])
        self.keys = [key for key, _ in pairs]
        self.targets = [target for _, target in pairs]
        self.num_given_back = num_given_back
        for at in range(1, len(pairs)):
            if self.keys[at].startswith(self.keys[at - 1]):
                raise ValueError(f"calls of {self.targets[at - 1]!r} and {self.targets[at]!r} begin alike")

    def narrow(self, prefix: bytes, low: int, high: int) -> tuple[int, int]:
        """The range of keys, inside `low:high`, that begin with `prefix`."""
        low = bisect_left(self.keys, prefix, low, high)
        after = successor(prefix)
        return low, high if after is None else bisect_left(self.keys, after, low, high)
