"""Random decoding: tokens drawn at random from masks, the hardest test of a matcher."""

import random

import numpy as np

from compiler.closing.segmentation import Segmentation
from compiler.matcher import Bitmask, Matcher, allocate_bitmask
from compiler.prepared_vocabulary import prepare
from compiler.vocabulary import Vocabulary

_CLOSING = frozenset(b'"}]')


class EmptyMask(AssertionError):
    """The matcher allowed nothing at all."""


class RandomDecoder:
    """Decodes over one vocabulary; a step costs about as much as the mask, whatever the vocabulary's size."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._tokens = vocabulary.tokens
        self._mask = allocate_bitmask(1, vocabulary.width)
        self._ids = _bits(range(vocabulary.width), vocabulary.width)
        self._stops = _bits(vocabulary.stop_ids, vocabulary.width)
        closing = (i for i, token in enumerate(vocabulary.tokens) if token and _CLOSING.issuperset(token))
        self._closing = _bits(closing, vocabulary.width)

    def decode(
        self, matcher: Matcher, rng: random.Random, *, max_tokens: int = 300, bias: float = 0.5
    ) -> bytes | None:
        """The bytes of one whole output, None if it did not come to an end.

        Tokens are drawn uniformly. With probability `bias`, and always beyond `max_tokens`, a step prefers to
        stop, or else a token that closes something; beyond ten times `max_tokens` decoding is given up.

        Raises:
            EmptyMask: nothing was allowed.
            AssertionError: the matcher refused what its mask allowed.
        """
        spelled = bytearray()
        for step in range(10 * max_tokens):
            matcher.fill_bitmask(self._mask, 0)
            allowed = self._mask[0].view(np.uint32) & self._ids
            to_end = step >= max_tokens or rng.random() < bias
            preferred = (allowed & self._stops, allowed & self._closing) if to_end else ()
            token = next((t for mask in (*preferred, allowed) if (t := _drawn(mask, rng)) is not None), None)
            if token is None:
                raise EmptyMask(f"nothing is allowed after {bytes(spelled)!r}")
            assert matcher.accept(token), f"the mask allows {token}, the matcher refuses it after {spelled!r}"
            if matcher.is_terminated():
                return bytes(spelled)
            spelled += self._tokens[token]
        return None


def flags(row: np.ndarray, width: int) -> np.ndarray:
    """Whether each of `width` tokens is allowed by a row of a bitmask."""
    return np.unpackbits(row.view(np.uint8), bitorder="little")[:width].astype(bool)


def mask_of(matcher: Matcher, vocabulary: Vocabulary) -> np.ndarray:
    """Whether each token may come next."""
    bitmask = allocate_bitmask(1, vocabulary.width)
    matcher.fill_bitmask(bitmask, 0)
    return flags(bitmask[0], vocabulary.width)


def allowed_ids(matcher: Matcher, vocabulary: Vocabulary) -> np.ndarray:
    """The ids of the tokens that may come next; at least one."""
    ids = np.flatnonzero(mask_of(matcher, vocabulary))
    if not len(ids):
        raise EmptyMask
    return ids


def check_masks(
    matcher: Matcher, vocabulary: Vocabulary, rng: random.Random, num_tokens: int, avoided: int | None = None
) -> None:
    """Each mask along some tokens allows what the matcher accepts; taking some tokens back restores it.

    A fork that goes on changes nothing. A token that is `avoided` is drawn only where nothing else is allowed.
    """
    masks: list[np.ndarray] = []
    while len(masks) < num_tokens and not matcher.is_terminated():
        masks.append(allowed_ids(matcher, vocabulary))
        twin = matcher.fork()
        assert np.array_equal(allowed_ids(twin, vocabulary), masks[-1])
        assert twin.accept(int(rng.choice(masks[-1])))
        for token_id in range(vocabulary.width):
            is_accepted = matcher.accept(token_id)
            assert is_accepted == (token_id in masks[-1]), token_id
            if is_accepted:
                matcher.rollback(1)
        token_id = int(rng.choice([i for i in masks[-1] if i != avoided] or masks[-1]))
        assert matcher.accept(token_id)
    num_back = rng.randrange(1, len(masks) + 1)
    matcher.rollback(num_back)
    assert np.array_equal(allowed_ids(matcher, vocabulary), masks[-num_back])


def decode_randomly(
    matcher: Matcher, vocabulary: Vocabulary, rng: random.Random, *, max_tokens: int = 300, bias: float = 0.5
) -> bytes | None:
    """One output over a small vocabulary; see `RandomDecoder`."""
    return RandomDecoder(vocabulary).decode(matcher, rng, max_tokens=max_tokens, bias=bias)


def _bits(ids, width: int) -> Bitmask:
    bits = np.zeros(-(-width // 32) * 32, np.uint8)
    bits[list(ids)] = 1
    return np.packbits(bits, bitorder="little").view(np.uint32)


def _drawn(mask: Bitmask, rng: random.Random) -> int | None:
    """One of the set bits, each as likely; None if there is none."""
    ends = np.cumsum(np.bitwise_count(mask), dtype=np.int64)
    if not ends[-1]:
        return None
    rank = rng.randrange(int(ends[-1]))
    word = int(np.searchsorted(ends, rank, side="right"))
    bits = int(mask[word])
    for _ in range(rank - (int(ends[word - 1]) if word else 0)):
        bits &= bits - 1
    return word * 32 + (bits & -bits).bit_length() - 1


class Generation:
    """What an engine does, with random draws in the place of a model. `early` is None if nothing was closed."""

    def __init__(self, constraint, budget: int, rng: random.Random, lead: str = "") -> None:
        self.vocabulary = constraint.vocabulary
        self.matcher = constraint.matcher()
        self.closer = constraint.closer()
        self.ids: list[int] = []
        self.early: int | None = None
        assert self.closer.fits(budget)
        drawn = iter(Segmentation(prepare(self.vocabulary).index).ids(self.vocabulary.spell(lead).encode()))
        while len(self.ids) < budget:
            token_id = next(drawn, None)
            if token_id is None:
                token_id = int(rng.choice(allowed_ids(self.matcher, self.vocabulary)))
                assert self.matcher.accept(token_id), f"the mask allows {token_id}, the matcher refuses it"
                self.matcher.rollback(1)
            remaining = budget - len(self.ids)
            if not self.closer.admits(token_id, remaining):
                forced = self.closer.completion_ids(remaining)
                self.early = remaining - len(forced)
                self._take(forced)
                return
            if token_id in self.vocabulary.stop_ids:
                return
            self._take([token_id])

    def _take(self, token_ids: list[int]) -> None:
        for token_id in token_ids:
            assert self.matcher.accept(token_id)
            self.closer.accepted(token_id)
            self.ids.append(token_id)

    @property
    def spelled(self) -> bytes:
        """The bytes of the output, markers as sentinels."""
        return b"".join(self.vocabulary.tokens[i] for i in self.ids)

    @property
    def text(self) -> str:
        """The output as a reader sees it."""
        text = self.spelled.decode(errors="replace")
        for marker in self.vocabulary.markers:
            text = text.replace(self.vocabulary.spell(marker), marker)
        return text
