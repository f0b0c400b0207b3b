"""Truncation of all rows at once leaves out what sorting each row would."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from runtime.decoding.truncation import _threshold_by_bits, _threshold_of_sorted, truncate
from runtime.request import Sampling

SAMPLINGS = st.builds(
    Sampling,
    top_k=st.none() | st.integers(1, 40),
    top_p=st.sampled_from([1.0, 0.999, 0.9, 0.5, 0.01]),
    min_p=st.sampled_from([0.0, 0.05, 0.5]),
)


def by_sorting(row, sampling):
    """The row, truncated by the definition: most probable tokens first, until they have the share."""
    order = np.argsort(-row, kind="stable")
    order = order[: sampling.top_k or len(row)]
    before = np.cumsum(row[order]) - row[order]
    order = order[before < sampling.top_p * row[order].sum()]
    order = order[row[order] >= np.float32(sampling.min_p) * row.max()]
    kept = np.zeros_like(row)
    kept[order] = row[order]
    return kept / kept.sum()


@given(st.lists(st.none() | SAMPLINGS, min_size=1, max_size=6), st.integers(0, 2**32 - 1), st.floats(0.1, 8))
def test_each_row_keeps_what_sorting_it_would_keep(samplings, seed, spread):
    generator = torch.Generator().manual_seed(seed)
    probabilities = (torch.randn(len(samplings), 300, generator=generator) * spread).softmax(1)
    expected = [
        row if sampling is None else by_sorting(row, sampling)
        for row, sampling in zip(probabilities.double().numpy(), samplings, strict=True)
    ]
    truncate(probabilities, samplings)
    for found, wanted in zip(probabilities.numpy(), expected, strict=True):
        differing = (found > 0) != (wanted > 0)
        assert wanted[differing].max(initial=0) < 1e-6, "only a token at the very edge may differ"
        assert found == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("sampling", [Sampling(top_p=0.5), Sampling(top_k=2)])
def test_tokens_as_probable_as_the_last_one_are_kept(sampling):
    probabilities = torch.tensor([[0.4, 0.2, 0.2, 0.2, 0.0]])
    truncate(probabilities, [sampling])
    assert probabilities.count_nonzero() == 4


@pytest.mark.parametrize("other", [None, 1, 21, 1000, 10**6])
def test_a_row_keeps_the_same_tokens_beside_any_other(other):
    """Bfloat16 has few values, so many tokens are as probable as the last one that is kept."""
    generator = torch.Generator().manual_seed(0)
    logits = (torch.randn(20, 32_000, generator=generator) * 3).bfloat16().float()
    alone = logits.softmax(1)
    truncate(alone, [Sampling(top_k=20)] * 20)
    beside = logits.repeat(2, 1).softmax(1)
    truncate(beside, [Sampling(top_k=20)] * 20 + [Sampling(top_k=other)] * 20)
    assert torch.equal(beside[:20], alone)


def test_the_most_probable_token_is_always_kept():
    probabilities = torch.tensor([[0.0, 1.0, 0.0]])
    truncate(probabilities, [Sampling(top_p=0.0001, min_p=1.0, top_k=1)])
    assert probabilities.tolist() == [[0.0, 1.0, 0.0]]


def test_a_row_of_nan_leaves_the_others_as_they_are():
    probabilities = torch.tensor([[float("nan")] * 3, [0.7, 0.2, 0.1]])
    truncate(probabilities, [Sampling(top_p=0.6, top_k=2)] * 2)
    assert probabilities[0].isnan().all()
    assert probabilities[1].tolist() == [1.0, 0.0, 0.0]


@given(
    st.integers(0, 2**32 - 1), st.sampled_from([1e-300, 0.1, 0.5, 0.95, 0.999, 1 - 1e-7]), st.floats(0.001, 8)
)
def test_a_cpu_and_other_devices_find_the_same_threshold(seed, share, spread):
    generator = torch.Generator().manual_seed(seed)
    rows = (torch.randn(4, 3000, generator=generator) * spread).bfloat16().float().softmax(1)
    rows[3] = float("nan")
    mass = share * rows.sum(1, dtype=torch.float64)
    assert torch.equal(_threshold_of_sorted(rows, mass), _threshold_by_bits(rows, mass))
