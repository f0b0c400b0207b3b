"""A step waits for its device once, for the sampled tokens: until then nothing looks at a tensor's values.

Tensors on torch's `meta` device have no values, so whatever looks at one raises.
"""

import pytest
import torch

from compiler.prepared_vocabulary import prepare
from compiler.vocabulary import Vocabulary
from runtime.decoding.masks import MaskedDistribution, TokenMasks
from runtime.decoding.sampling import Draw, _choose, _logprobs, adjust, sample
from runtime.decoding.truncation import truncate
from runtime.device import free_cuda_bytes, upload, use_device
from runtime.request import Sampling
from runtime.scheduling.sequence import Sequence

SAMPLINGS = [
    Sampling(),
    Sampling(temperature=0),
    Sampling(temperature=0.7, top_p=0.9, top_k=5, min_p=0.1),
    Sampling(temperature=0, logit_bias={3: 1.0}, presence_penalty=0.5, frequency_penalty=0.5),
]


@pytest.fixture
def sequences():
    made = [Sequence("s", [0], 10, sampling, seed=1) for sampling in SAMPLINGS]
    for sequence in made:
        sequence.token_ids += [1, 2, 2]
    return made


def test_nothing_before_sampling_looks_at_values(sequences, monkeypatch):
    masks = TokenMasks(prepare(Vocabulary.of_bytes()), 300)
    monkeypatch.setattr(masks, "_apply_bits", lambda values, bitmask: upload(bitmask, values.device))
    logits = torch.zeros(len(sequences), 300, device="meta")
    adjust(logits, sequences)
    probabilities = masks.apply(logits, sequences).probabilities
    truncate(probabilities, [sequence.sampling for sequence in sequences])
    draws = [Draw(row, sequence.seed) for row, sequence in enumerate(sequences)]
    chosen = _choose(probabilities, sequences, draws, torch.arange(4, device="meta"))
    sequences[0].num_logprobs = 5
    assert (chosen.shape, _logprobs(probabilities, chosen, sequences).shape) == ((4,), (1, 1 + 2 * 5))


def test_only_the_end_of_sampling_looks_at_values(sequences):
    with torch.device("meta"):
        masked = MaskedDistribution(torch.zeros(4, 300), torch.zeros(4), torch.zeros(4))
    with pytest.raises(NotImplementedError, match="meta"):
        sample(masked, sequences)


def test_upload_keeps_shape_type_and_values():
    tensor = upload([[1, 2], [3, 4]], torch.device("cpu"), torch.int32)
    assert (tensor.dtype, tensor.tolist()) == (torch.int32, [[1, 2], [3, 4]])


def test_a_thread_makes_its_gpu_the_current_one(monkeypatch):
    chosen = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    use_device(torch.device("cuda:1"))
    use_device(torch.device("cpu"))
    assert chosen == [torch.device("cuda:1")]


def test_the_free_memory_of_a_gpu_leaves_room_for_the_largest_batch_and_a_tenth(monkeypatch):
    for name, value in {
        "max_memory_allocated": 30,
        "memory_allocated": 20,
        "mem_get_info": (60, 100),
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, value=value: value)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    steps = []
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: steps.append("reset"))
    assert free_cuda_bytes(torch.device("cuda"), lambda: steps.append("computed")) == 60 - (30 - 20) - 10
    assert steps == ["reset", "computed"]
