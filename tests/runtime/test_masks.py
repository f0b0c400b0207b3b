"""Masks are as wide as the logits, whatever the vocabulary's width."""

import math

import pytest
import torch
from scripted import row_of

from compiler.prepared_vocabulary import prepare
from compiler.vocabulary import Vocabulary
from runtime.decoding.masks import TokenMasks
from runtime.decoding.sampling import sample
from runtime.scheduling.sequence import Sequence
from runtime.scheduling.weights import MIN_MASS

# a, b, a marker, a stop token, an unused id
VOCABULARY = Vocabulary.from_tokens([b"a", b"b", b"", b"", b""], markers={"<m>": 2}, stop_ids=(3,))


WIDTH = 5


class Allows:
    """A matcher that always allows the same tokens."""

    def __init__(self, *ids, width=WIDTH, is_completed=False):
        self.row = row_of(ids, width)
        self.completed = is_completed

    def fill_bitmask(self, bitmask, row):
        bitmask[row] = self.row

    def is_completed(self):
        return self.completed


def sequence(matcher=None):
    return Sequence("s", [0], 10, matcher=matcher)


def apply(logits, sequences, vocabulary=VOCABULARY):
    """The distributions, as an engine comes by them."""
    masks = TokenMasks(prepare(vocabulary), logits.shape[1])
    masked = masks.apply(logits, sequences)
    if faint := (masked.allowed_mass < MIN_MASS).nonzero().flatten().tolist():
        masked.probabilities[faint] = masks.recompute(masked, faint, logits, sequences).probabilities
    return masked.probabilities


def allowed(distributions):
    assert distributions.sum(dim=1).tolist() == pytest.approx([1.0] * len(distributions))
    return [row.nonzero().flatten().tolist() for row in distributions]


@pytest.mark.parametrize("num_columns", [4, 5, 8, 40, 100])
def test_columns_beyond_the_vocabulary_are_never_allowed(num_columns):
    logits = torch.zeros(3, num_columns)
    distributions = apply(logits, [sequence(), sequence(Allows(0, 2)), sequence(Allows(1, 3))])
    assert allowed(distributions) == [[0, 1, 3], [0, 2], [1, 3]]


def test_text_never_contains_a_marker_or_an_unused_id():
    logits = torch.zeros(1, 5)
    assert allowed(apply(logits, [sequence()])) == [[0, 1, 3]]


def test_text_of_too_few_tokens_is_ended_by_no_token():
    unfinished = Sequence("s", [0], 10, min_tokens=2, stop_token_ids=frozenset({1}))
    logits = torch.zeros(1, WIDTH)
    assert allowed(apply(logits, [unfinished])) == [[0]]
    unfinished.token_ids += [0, 0]
    unfinished.mask = None
    assert allowed(apply(logits, [unfinished])) == [[0, 1, 3]]


def test_a_wide_vocabulary():
    tokens = [bytes([65 + i % 26]) * (i // 26 + 1) for i in range(1000)]
    vocabulary = Vocabulary.from_tokens([*tokens, b""], stop_ids=(1000,))
    chosen = list(range(0, 1000, 31))
    logits = torch.zeros(1, 1024)
    distributions = apply(logits, [sequence(Allows(*chosen, width=1001))], vocabulary)
    assert allowed(distributions) == [chosen]


def test_a_rescue_is_noted_where_the_favourite_was_masked():
    rescued, agreed = sequence(Allows(0)), sequence(Allows(1))
    logits = torch.tensor([[0.0, 3.0, 0.0, 0.0, 0.0]] * 2)
    masked = TokenMasks(prepare(VOCABULARY), 5).apply(logits, [rescued, agreed])
    first, second = (token.step for token in sample(masked, [rescued, agreed]))
    assert (first.is_rescued, second.is_rescued) == (True, False)
    share = float(torch.tensor([0.0, 3.0, 0.0, 0.0, 0.0]).softmax(0)[1])
    assert second.mass_removed == pytest.approx(1 - share, abs=1e-5)


def test_what_is_allowed_may_be_next_to_impossible():
    """Underflow of the unmasked distribution does not reach the masked one."""
    logits = torch.tensor([[-300.0, 0.0, -301.0, 0.0, 0.0], [0.0, 1.0, 2.0, 3.0, 4.0]])
    distributions = apply(logits, [sequence(Allows(0, 2)), sequence(Allows(0, 1))])
    share = 1 / (1 + math.exp(-1))
    assert distributions[0].tolist() == pytest.approx([share, 0, 1 - share, 0, 0])
    assert distributions[1].tolist() == pytest.approx([1 - share, share, 0, 0, 0])


@pytest.mark.parametrize("row", [[math.nan, 0, 0, 0, 0], [math.inf, 0, 0, 0, 0], [-math.inf, 0, 0, 0, 0]])
def test_a_broken_row_is_nan_and_its_neighbours_are_not(row):
    logits = torch.tensor([[0.0] * 5, row, [0.0] * 5])
    distributions = apply(logits, [sequence(Allows(0)) for _ in range(3)])
    assert distributions[1].isnan().all()
    assert allowed(distributions[[0, 2]]) == [[0], [0]]


def test_a_mask_is_filled_once_per_token():
    masks, one = TokenMasks(prepare(VOCABULARY), WIDTH), sequence(Allows(0))
    first = masks.fill(one)
    assert masks.fill(one) is first
    one.mask = None
    assert masks.fill(one) is not first


@pytest.mark.parametrize(
    ("matcher", "expected"),
    [
        (Allows(3, is_completed=True), True),
        (Allows(0, 3, is_completed=True), False),
        (Allows(3, is_completed=False), False),
        (None, False),
    ],
)
def test_an_output_is_exhausted_when_only_a_stop_token_may_follow(matcher, expected):
    assert TokenMasks(prepare(VOCABULARY), WIDTH).is_exhausted(sequence(matcher)) is expected
