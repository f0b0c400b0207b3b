"""Packed weights: the same numbers, up to the last bits of bfloat16."""

import pytest
import torch
from architectures import CONFIGS, build
from torch import nn

from runtime.forward.forward_pass import PackedLinear, can_pack, pack_weights


@pytest.fixture(scope="module")
def model():
    model = build(CONFIGS["qwen3"]).to(torch.bfloat16)
    if not can_pack(model):
        pytest.skip("this CPU does not multiply bfloat16")
    return model


def linears(model, kind):
    return [module for module in model.modules() if type(module) is kind]


@torch.inference_mode()
def test_a_packed_model_computes_what_it_did(model):
    ids = torch.randint(0, 200, (1, 40), generator=torch.Generator().manual_seed(0))
    expected = model(ids, use_cache=False).logits.float()
    num_linears = len(linears(model, nn.Linear))
    pack_weights(model)
    assert len(linears(model, PackedLinear)) == num_linears > 0
    assert not linears(model, nn.Linear)
    for count in (1, 40):
        found = model(ids[:, :count], use_cache=False).logits.float()
        difference = (found - expected[:, :count]).norm() / expected[:, :count].norm()
        assert difference < 0.02


def test_other_types_stay_as_they_are():
    model = build(CONFIGS["llama"])
    before = linears(model, nn.Linear)
    pack_weights(model)
    assert linears(model, nn.Linear) == before


def test_what_inherits_from_linear_stays_as_it_is(model):
    class Doubled(nn.Linear):
        def forward(self, states):
            return 2 * super().forward(states)

    model.extra = nn.ModuleList([Doubled(4, 4, dtype=torch.bfloat16)])
    pack_weights(model)
    assert type(model.extra[0]) is Doubled
