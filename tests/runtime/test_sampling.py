"""Which tokens are sampled from which logits."""

import math
from collections import Counter
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from runtime.decoding.masks import MaskedDistribution
from runtime.decoding.sampling import adjust, sample, seeded_uniform
from runtime.request import Sampling, read_top_k
from runtime.scheduling.sequence import Sequence

INF = math.inf


def sequence(sampling, *, seed=0, choice=0, output=(), num_logprobs=None):
    sampled = Sequence("s", [0], 100, sampling, seed=seed, choice=choice, num_logprobs=num_logprobs)
    sampled.token_ids += output
    return sampled


def sample_all(logits, rows):
    """What the engine does, without a mask."""
    logits = logits.clone()
    adjust(logits, rows)
    unmasked = MaskedDistribution(logits.softmax(dim=1), torch.ones(len(rows)), torch.zeros(len(rows)))
    return sample(unmasked, rows)


def sample_one(logits, sampling=None, **options):
    (sampled,) = sample_all(torch.tensor([logits]), [sequence(sampling or Sampling(), **options)])
    return sampled


def support(logits, sampling):
    """Every token that is ever sampled."""
    rows = [sequence(sampling, seed=seed) for seed in range(300)]
    return {d.token_id for d in sample_all(torch.tensor(logits).repeat(300, 1), rows)}


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(), {0, 1, 2, 3}),
        (Sampling(temperature=0), {3}),
        (Sampling(temperature=1e-4), {3}),
        (Sampling(top_k=1), {3}),
        (Sampling(top_k=2), {2, 3}),
        (Sampling(top_k=100), {0, 1, 2, 3}),
        (Sampling(top_k=2**63), {0, 1, 2, 3}),  # more than torch has an integer for
        (Sampling(top_p=0.39), {3}),
        (Sampling(top_p=0.41), {2, 3}),
        (Sampling(top_p=0.71), {1, 2, 3}),
        (Sampling(top_p=0.0), {3}),
        (Sampling(top_k=3, top_p=0.4), {3}),  # of the three best, the best has 0.44
        (Sampling(min_p=0.6), {2, 3}),
        (Sampling(min_p=1.0), {3}),
        (Sampling(logit_bias={0: 100.0}), {0}),
        (Sampling(logit_bias={3: -100.0}), {0, 1, 2}),
    ],
)
def test_the_tokens_that_can_be_drawn(sampling, expected):
    assert support(torch.tensor([0.1, 0.2, 0.3, 0.4]).log().tolist(), sampling) == expected


OTHERS = Sampling(0.5, 0.5, 2, 0.9, 7, 2.0, 2.0, {0: 5.0}, 2.0)
"""Another value in each field than the default."""


@pytest.mark.parametrize("name", [each.name for each in fields(Sampling) if each.name != "seed"])
def test_every_field_changes_what_is_drawn(name):
    """Except the seed, which the runtime gives to the sequence, a random one if the request has none."""
    value = getattr(OTHERS, name)
    assert value != getattr(Sampling(), name), "give it a value in OTHERS"
    logits = torch.tensor([0.1, 0.2, 0.3, 0.4]).log().repeat(300, 1)
    drawn = [
        [
            d.token_id
            for d in sample_all(logits, [sequence(each, seed=seed, output=[3]) for seed in range(300)])
        ]
        for each in (Sampling(), replace(Sampling(), **{name: value}))
    ]
    assert drawn[0] != drawn[1]


def test_a_number_that_stands_for_all_tokens_reaches_no_engine():
    assert [read_top_k(k) for k in (None, -1, 0, 1, 2**31 - 1, 2**31, 10**30)] == [
        *(None, None, None, 1, 2**31 - 1, None, None)
    ]


def test_frequencies_follow_the_probabilities():
    probabilities = torch.tensor([0.5, 0.0, 0.2, 0.3])
    rows = [sequence(Sampling(), seed=seed) for seed in range(5000)]
    counts = Counter(d.token_id for d in sample_all(probabilities.log().repeat(5000, 1), rows))
    assert [counts[i] / 5000 for i in range(4)] == pytest.approx(probabilities.tolist(), abs=0.02)


def test_a_higher_temperature_flattens_the_distribution():
    logits = [math.log(0.8), math.log(0.2)]
    rows = [sequence(Sampling(temperature=2.0), seed=seed) for seed in range(3000)]
    ones = sum(d.token_id for d in sample_all(torch.tensor(logits).repeat(3000, 1), rows))
    assert ones / 3000 == pytest.approx(1 / 3, abs=0.03)


@given(
    st.lists(st.one_of(st.just(-INF), st.floats(-30, 30, width=32)), min_size=1, max_size=9),
    st.integers(0, 2**63),
)
def test_a_masked_token_is_never_drawn(logits, seed):
    sampled = sample_one(logits, seed=seed)
    if all(value == -INF for value in logits):
        assert sampled is None
    else:
        assert logits[sampled.token_id] != -INF


@pytest.mark.parametrize("row", [[math.nan, 0.0], [INF, 0.0], [-INF, -INF]])
def test_nothing_is_drawn_from_a_broken_row(row):
    healthy = [0.0, 5.0]
    rows = [sequence(Sampling(temperature=0)), sequence(Sampling()), sequence(Sampling(temperature=0))]
    sampled = sample_all(torch.tensor([healthy, row, healthy]), rows)
    assert (sampled[0].token_id, sampled[1], sampled[2].token_id) == (1, None, 1)


def test_every_block_of_a_wide_row_is_reached():
    probabilities = torch.zeros(2000)
    probabilities[[0, 511, 512, 1999]] = torch.tensor([0.1, 0.2, 0.3, 0.4])
    rows = [sequence(Sampling(), seed=seed) for seed in range(4000)]
    counts = Counter(d.token_id for d in sample_all(probabilities.log().repeat(4000, 1), rows))
    expected = {0: 0.1, 511: 0.2, 512: 0.3, 1999: 0.4}
    assert {i: n / 4000 for i, n in counts.items()} == pytest.approx(expected, abs=0.03)


def test_penalties_count_what_was_written_and_not_the_prompt():
    logits = [1.0, 0.9, 0.0]
    assert sample_one(logits, Sampling(temperature=0, presence_penalty=0.5)).token_id == 0
    assert sample_one(logits, Sampling(temperature=0, presence_penalty=0.5), output=[0]).token_id == 1
    assert sample_one(logits, Sampling(temperature=0, frequency_penalty=0.08), output=[0]).token_id == 0
    assert sample_one(logits, Sampling(temperature=0, frequency_penalty=0.08), output=[0, 0]).token_id == 1


def test_a_repetition_penalty_weakens_what_was_there_before():
    # The prompt is token 0. A positive logit is divided, a negative one multiplied.
    weaker = Sampling(temperature=0, repetition_penalty=1.2)
    assert sample_one([1.0, 0.9, -9.0], Sampling(temperature=0)).token_id == 0
    assert sample_one([1.0, 0.9, -9.0], weaker).token_id == 1
    assert sample_one([-1.0, -1.1, -9.0], weaker).token_id == 1
    assert sample_one([0.8, 0.9, 1.0], weaker, output=[2]).token_id == 1
    assert sample_one([1.0, 0.9, -9.0], Sampling(temperature=0, repetition_penalty=0.5)).token_id == 0


def test_logprobs_are_of_the_distribution_that_was_drawn_from():
    logits = torch.tensor([0.1, 0.2, 0.7]).log().tolist()
    sampled = sample_one(logits, Sampling(top_k=2, seed=1), num_logprobs=3)
    assert sampled.top == ((2, pytest.approx(math.log(0.7 / 0.9))), (1, pytest.approx(math.log(0.2 / 0.9))))
    assert sampled.logprob == pytest.approx(dict(sampled.top)[sampled.token_id])
    greedy = sample_one(logits, Sampling(temperature=0), num_logprobs=0)
    assert (greedy.logprob, greedy.top) == (pytest.approx(math.log(0.7)), ())
    assert sample_one(logits).logprob is None


def test_more_logprobs_than_there_are_tokens():
    assert len(sample_one([0.0, 0.0], num_logprobs=20).top) == 2


@pytest.mark.parametrize("width", [5, 128, 1000])
def test_of_equally_probable_alternatives_those_with_lower_ids_come_first(width):
    """However many another request of the step wants."""
    generator = torch.Generator().manual_seed(width)
    logits = torch.randint(-4, 4, (6, width), generator=generator).float()
    logits[5] = math.nan
    numbers = [0, 1, 3, 7, 20, 20]
    rows = [sequence(Sampling(), num_logprobs=number) for number in numbers]
    for row, number, sampled in zip(logits[:5], numbers, sample_all(logits, rows), strict=False):
        expected = row.sort(descending=True, stable=True).indices[:number].tolist()
        assert [token_id for token_id, _ in sampled.top] == expected
        values = row.log_softmax(0)[expected].tolist()
        assert [value for _, value in sampled.top] == pytest.approx(values, abs=1e-5)


@given(st.integers(-(2**63), 2**64), st.integers(0, 100), st.integers(0, 10**6))
def test_noise_is_a_function_into_the_unit_interval(seed, choice, position):
    assert 0 <= seeded_uniform(seed, choice, position) < 1
    assert seeded_uniform(seed, choice, position) == seeded_uniform(seed, choice, position)
    assert seeded_uniform(seed, choice, position) != seeded_uniform(seed, choice, position + 1)
