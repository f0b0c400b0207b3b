"""Attention in bfloat16 on a CPU, as matrix products: of many queries, or of many sequences."""

from unittest.mock import patch

import pytest
import torch

from runtime.forward import bfloat16_attention, gather_backend
from runtime.forward.attention import Scoring
from runtime.forward.gather_backend import GatherBackend
from runtime.scheduling.batch import Chunk
from runtime.scheduling.sequence import Sequence

PAGE, DIM, HEADS, KEY_HEADS = 4, 16, 6, 2
ALONE = [((0, 1, 200),), ((0, 70, 150),), ((0, 3, 16), (0, 9, 1), (0, 0, 65))]
SHARED = [
    ((64, 64, 40), (64, 70, 1)),
    ((32, 32, 80), (32, 34, 16), (32, 39, 3)),
    tuple((48, 50 + i, 1) for i in range(20)),
]
MANY = [tuple((0, 50 + i, 1) for i in range(12)), tuple((16, 40, 3) for _ in range(5))]


def chunks_of(lengths):
    """Chunks of (tokens of a prefix that all share, computed before, pending now); pages in no order."""
    noise = torch.Generator().manual_seed(3)
    free = (1 + torch.randperm(400, generator=noise)).tolist()
    prefix = [free.pop() for _ in range(16)]
    chunks = []
    for shared, before, pending in lengths:
        sequence = Sequence("s", [0] * (before + pending), 1)
        table = prefix[: shared // PAGE]
        sequence.page_table = table + [free.pop() for _ in range(-(-(before + pending) // PAGE) - len(table))]
        chunks.append(Chunk(sequence, before, pending))
    return tuple(chunks)


def states(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def attend(chunks, scoring, value_dim, dtype):
    query = states(sum(c.num_tokens for c in chunks), HEADS, DIM, seed=1).transpose(0, 1)
    keys, values = states(401, PAGE, KEY_HEADS, DIM, seed=2), states(401, PAGE, KEY_HEADS, value_dim, seed=4)
    backend = GatherBackend.of(chunks, PAGE, query.device)
    return backend.attend(query.to(dtype), keys.to(dtype), values.to(dtype), scoring)


@pytest.mark.parametrize("value_dim", [16, 8])
@pytest.mark.parametrize(
    "scoring",
    [
        Scoring(),
        Scoring(0.3),
        Scoring(window=12),
        Scoring(0.3, window=90),
        Scoring(sinks=states(HEADS, seed=5)),
    ],
    ids=["plain", "scaled", "window", "wide window", "sinks"],
)
@pytest.mark.parametrize("lengths", ALONE + SHARED, ids=str)
def test_it_is_the_attention_of_float32_but_for_rounding(lengths, scoring, value_dim):
    """The same queries, keys and values, rounded to bfloat16 once, over every way that a batch is grouped."""
    chunks = chunks_of(lengths)
    with patch.object(bfloat16_attention, "attend", wraps=bfloat16_attention.attend) as used:
        found = attend(chunks, scoring, value_dim, torch.bfloat16)
    expected = attend(chunks, scoring, value_dim, torch.float32)
    assert used.called or (lengths in SHARED and scoring.window)
    assert torch.allclose(found.float(), expected, atol=0.02, rtol=0.02)


@pytest.mark.parametrize("value_dim", [16, 8])
@pytest.mark.parametrize("scoring", [Scoring(), Scoring(0.3), Scoring(window=12)], ids=str)
@pytest.mark.parametrize("lengths", MANY, ids=["alone", "after a prefix"])
def test_many_sequences_are_the_attention_of_float32_but_for_rounding(lengths, scoring, value_dim):
    """Each has keys of its own, of different numbers, so that hidden keys are padding too."""
    chunks = chunks_of(lengths)
    with patch.object(
        bfloat16_attention, "attend_sequences", wraps=bfloat16_attention.attend_sequences
    ) as used:
        found = attend(chunks, scoring, value_dim, torch.bfloat16)
    expected = attend(chunks, scoring, value_dim, torch.float32)
    assert used.called == (lengths is MANY[0] or (scoring.window is None and value_dim == DIM))
    assert torch.allclose(found.float(), expected, atol=0.02, rtol=0.02)


def test_float32_and_single_tokens_are_left_to_torch():
    """One token reads keys as fast as memory allows; float32 needs no rounding."""
    with (
        patch.object(bfloat16_attention, "attend") as used,
        patch.object(bfloat16_attention, "attend_sequences") as used_for_sequences,
    ):
        attend(chunks_of(((0, 1, 200),)), Scoring(), 16, torch.float32)
        attend(chunks_of(MANY[0]), Scoring(), 16, torch.float32)
        attend(chunks_of(((0, 200, 1),)), Scoring(), 16, torch.bfloat16)
    assert not used.called
    assert not used_for_sequences.called


@pytest.mark.parametrize("window", [None, 1, 12, 90])
@pytest.mark.parametrize("lengths", ALONE, ids=str)
def test_a_chunk_in_tiles_attends_as_it_does_whole(lengths, window):
    """Float32, where each tile is a call of torch's fused attention."""
    chunks, scoring = chunks_of(lengths), Scoring(window=window)
    found = []
    for size in (1000, 7):
        with patch.object(gather_backend, "_FUSED_TILE_QUERIES", size):
            found.append(attend(chunks, scoring, 16, torch.float32))
    whole, in_tiles = found
    assert torch.allclose(whole, in_tiles, atol=1e-6, rtol=1e-5)
