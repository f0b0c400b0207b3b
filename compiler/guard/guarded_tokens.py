"""Guarded tokens: those of a vocabulary that guards look at, in sets named for what the tokens can do."""

import re
from collections.abc import Callable
from functools import cached_property, lru_cache

import numpy as np

from compiler.guard.token_lengths import TokenLengths
from compiler.token_index import TokenIndex, TokenSet
from compiler.vocabulary import Vocabulary

_STRUCTURE = frozenset(b'[]{},"')
_KEY = rb'[,{]\s*".*"'
_ITEM = rb'[,\[]\s*(?:".*"|[^"\s].*[],}])'
_ESCAPES = re.compile(rb"\\.", re.DOTALL)
_NOT_CANONICAL = re.compile(rb"\\[/u]")
NOT_ONLY_CHARACTERS = re.compile(rb'[\[\]{},"\\]')
"""What a token has that can end, begin or separate elements, or begin an escape; most tokens have none."""
_WHOLE_STRING = re.compile(rb'\s*("(?:[^"\\]|\\["\\bfnrt])*")')
_MAX_CACHED_SETS = 4_096
"""A set of the few tokens that complete one key takes some hundred bytes."""


class GuardedTokens:
    """The tokens of one vocabulary that guards look at, as sets named for what the tokens can do.

    Each set is found when it is first needed.
    """

    def __init__(self, vocabulary: Vocabulary, index: TokenIndex) -> None:
        self.vocabulary = vocabulary
        self.index = index

    def prepare(self) -> None:
        """Find all sets now, within two seconds, instead of when each is first needed."""
        for name, attribute in vars(type(self)).items():
            if isinstance(attribute, cached_property):
                getattr(self, name)
        self.lengths.prepare()

    @cached_property
    def _texts(self) -> dict[int, bytes]:
        markers = self.vocabulary.marker_ids
        tokens = enumerate(self.vocabulary.tokens)
        return {token_id: token for token_id, token in tokens if token and token_id not in markers}

    @cached_property
    def _not_only_characters(self) -> dict[int, bytes]:
        has_more = NOT_ONLY_CHARACTERS.search
        return {token_id: token for token_id, token in self._texts.items() if has_more(token)}

    def _tokens_where(self, is_in: Callable[[bytes], object]) -> TokenSet:
        """The tokens that a predicate holds for, which holds for no token of plain characters."""
        ids = [token_id for token_id, token in self._not_only_characters.items() if is_in(token)]
        return TokenSet(np.array(ids, np.int64), self.vocabulary.width)

    @cached_property
    def keys_inside(self) -> TokenSet:
        """Tokens that begin inside a string, and may complete a key after it."""
        return self._tokens_where(re.compile(b'".*' + _KEY, re.DOTALL).search)

    @cached_property
    def keys_outside(self) -> TokenSet:
        """Tokens that begin outside a string, and may complete a key that they do not begin with."""
        return self._tokens_where(re.compile(_KEY, re.DOTALL).search)

    @cached_property
    def items_inside(self) -> TokenSet:
        """Tokens that begin inside a string, and may complete an item after it."""
        return self._tokens_where(re.compile(b'".*' + _ITEM, re.DOTALL).search)

    @cached_property
    def items_outside(self) -> TokenSet:
        """Tokens that begin outside a string, and may complete an item that they do not begin with."""
        return self._tokens_where(re.compile(_ITEM, re.DOTALL).search)

    @cached_property
    def opening(self) -> TokenSet:
        """Tokens that may open an object or array, and then complete an element of it and begin another."""
        return self._tokens_where(re.compile(rb"[\[{].+,", re.DOTALL).search)

    @cached_property
    def crossing(self) -> TokenSet:
        """Tokens that begin inside a string, and may begin an element after it."""
        return self._tokens_where(re.compile(rb'"[^,\[{]*[,\[{]').search)

    @cached_property
    def quoted(self) -> TokenSet:
        """Tokens that may complete the string that they begin in."""
        return self._tokens_where(lambda token: b'"' in token)

    @cached_property
    def escaped(self) -> TokenSet:
        r"""Tokens that may complete the string that they begin in, in a spelling that is not canonical.

        The canonical spelling has all short escapes but `\/`.
        """
        return self._tokens_where(
            lambda token: _NOT_CANONICAL.search(token) and b'"' in _ESCAPES.sub(b"", token)
        )

    @cached_property
    def whole_strings(self) -> TokenSet:
        """Tokens that open a string outside of any, and may complete it."""
        return self._tokens_where(re.compile(rb'\s*".*"', re.DOTALL).match)

    @cached_property
    def by_whole_string(self) -> dict[bytes, list[int]]:
        """The whole-string tokens by the string that they open and complete, if its spelling is canonical."""
        token_ids: dict[bytes, list[int]] = {}
        for token_id, token in self._not_only_characters.items():
            string = _WHOLE_STRING.match(token)
            if string is not None:
                token_ids.setdefault(string.group(1), []).append(token_id)
        return token_ids

    @cached_property
    def structural(self) -> TokenSet:
        """Tokens that begin outside a string, and may complete anything."""
        return self._tokens_where(_completes_something)

    @cached_property
    def escaping(self) -> TokenSet:
        """Tokens that may write a text in another spelling than the canonical one."""
        return self._tokens_where(lambda token: b"\\" in token)

    @cached_property
    def lengths(self) -> TokenLengths:
        """How many characters the tokens add to a string."""
        return TokenLengths(self._texts, self.vocabulary.width)

    @cached_property
    def beginning(self) -> Callable[[bytes], TokenSet | None]:
        """From a text to the tokens that begin with it, None if there is none; the last results are kept."""
        return lru_cache(_MAX_CACHED_SETS)(self._find_beginning)

    def _find_beginning(self, text: bytes) -> TokenSet | None:
        token_ids = [token_id for at in range(*self.index.narrow(text)) for token_id in self.index.ids[at]]
        return TokenSet(np.array(token_ids, np.int64), self.vocabulary.width) if token_ids else None


def _completes_something(token: bytes) -> bool:
    """Whether a token that begins outside a string may complete anything; to open a string does not count."""
    only_opens = token.lstrip().startswith(b'"') and token.count(b'"') == 1 and b"\\" not in token
    return not _STRUCTURE.isdisjoint(token) and not only_opens
