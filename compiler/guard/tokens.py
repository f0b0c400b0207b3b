"""The tokens of a vocabulary that a guard must look at, by what they can do."""

import re
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from compiler.guard.token_lengths import TokenLengths
from compiler.guard.token_class import TokenClass
from compiler.token_index import TokenIndex

if TYPE_CHECKING:
    from compiler.vocabulary import Vocabulary

_STRUCTURE = frozenset(b'[]{},"')
_KEY = rb'[,{]\s*".*"'
_ITEM = rb'[,\[]\s*(?:".*"|[^"\s].*[],}])'
_ESCAPES = re.compile(rb"\\.", re.DOTALL)
_OTHER_SPELLING = re.compile(rb"\\[/u]")


class GuardedTokens:
    """The tokens of a vocabulary that a guard must look at, by what they can do."""

    def __init__(self, vocabulary: "Vocabulary") -> None:
        self.vocabulary = vocabulary

    def prepare(self) -> None:
        """Find all of them now, within two seconds, rather than when each is first looked at."""
        for name, found in vars(type(self)).items():
            if isinstance(found, cached_property):
                getattr(self, name)
        self.lengths.prepare()

    @cached_property
    def _texts(self) -> dict[int, bytes]:
        markers = self.vocabulary.marker_ids
        tokens = enumerate(self.vocabulary.tokens)
        return {token_id: token for token_id, token in tokens if token and token_id not in markers}

    def _those(self, is_in: Callable[[bytes], object]) -> TokenClass:
        ids = [token_id for token_id, token in self._texts.items() if is_in(token)]
        return TokenClass(np.array(ids, np.int64), self.vocabulary.width)

    @cached_property
    def keys_inside(self) -> TokenClass:
        """From inside a string they may complete a key that comes later."""
        return self._those(re.compile(b'".*' + _KEY, re.DOTALL).search)

    @cached_property
    def keys_outside(self) -> TokenClass:
        """The same from outside a string, a key that begins there aside."""
        return self._those(re.compile(_KEY, re.DOTALL).search)

    @cached_property
    def items_inside(self) -> TokenClass:
        """From inside a string they may complete an item that comes later."""
        return self._those(re.compile(b'".*' + _ITEM, re.DOTALL).search)

    @cached_property
    def items_outside(self) -> TokenClass:
        """The same from outside a string."""
        return self._those(re.compile(_ITEM, re.DOTALL).search)

    @cached_property
    def crossing(self) -> TokenClass:
        """From inside a string they may begin a key or an item that comes later."""
        return self._those(re.compile(rb'"[^,\[{]*[,\[{]').search)

    @cached_property
    def quoted(self) -> TokenClass:
        """They may complete the string they begin in."""
        return self._those(lambda token: b'"' in token)

    @cached_property
    def escaped(self) -> TokenClass:
        """They may do so in another spelling than the canonical one: that has all short escapes but one."""
        return self._those(lambda token: _OTHER_SPELLING.search(token) and b'"' in _ESCAPES.sub(b"", token))

    @cached_property
    def structural(self) -> TokenClass:
        """Outside a string they may complete anything."""
        return self._those(_ends_something)

    @cached_property
    def escaping(self) -> TokenClass:
        """They may spell a text in another way than the canonical one."""
        return self._those(lambda token: b"\\" in token)

    @cached_property
    def lengths(self) -> TokenLengths:
        """What they add to a string."""
        return TokenLengths(self._texts, self.vocabulary.width)

    @property
    def index(self) -> TokenIndex:
        """The tokens in order of their bytes."""
        index: TokenIndex = self.vocabulary.index
        return index


def _ends_something(token: bytes) -> bool:
    """Whether a token outside a string may complete anything; one that only opens a string does not."""
    only_opens = token.lstrip().startswith(b'"') and token.count(b'"') == 1 and b"\\" not in token
    return not _STRUCTURE.isdisjoint(token) and not only_opens
