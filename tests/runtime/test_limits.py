"""What no engine could do is refused, and named."""

import math

import pytest

from runtime.errors import RequestRefused
from runtime.request import GenerationRequest, Sampling, check_limits
from runtime.settings import EngineSettings


@pytest.mark.parametrize(
    ("parameter", "options"),
    [
        ("n", {"num_choices": 0}),
        ("n", {"num_choices": 5}),
        ("max_tokens", {"max_tokens": 0}),
        ("min_tokens", {"min_tokens": 6, "max_tokens": 5}),
        ("min_tokens", {"min_tokens": -1}),
        ("stop_token_ids", {"stop_token_ids": (10,)}),
        ("repetition_penalty", {"sampling": Sampling(repetition_penalty=0)}),
        ("repetition_penalty", {"sampling": Sampling(repetition_penalty=math.inf)}),
        ("top_logprobs", {"num_logprobs": -1}),
        ("temperature", {"sampling": Sampling(temperature=-0.1)}),
        ("temperature", {"sampling": Sampling(temperature=math.nan)}),
        ("temperature", {"sampling": Sampling(temperature=math.inf)}),
        ("top_p", {"sampling": Sampling(top_p=1.1)}),
        ("top_k", {"sampling": Sampling(top_k=0)}),
        ("min_p", {"sampling": Sampling(min_p=math.nan)}),
        ("presence_penalty", {"sampling": Sampling(presence_penalty=math.inf)}),
        ("frequency_penalty", {"sampling": Sampling(frequency_penalty=math.nan)}),
        ("logit_bias", {"sampling": Sampling(logit_bias={1: math.inf})}),
        ("logit_bias", {"sampling": Sampling(logit_bias={10: 1.0})}),
        ("logit_bias", {"sampling": Sampling(logit_bias={-1: 1.0})}),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(parameter, options):
    with pytest.raises(RequestRefused) as refused:
        check_limits(GenerationRequest("r", "m", (), **options), 10, 4)
    assert refused.value.parameter == parameter


def test_the_edges_are_within():
    sampling = Sampling(temperature=0, top_p=0, top_k=1, min_p=1, logit_bias={9: -100.0, 0: 100.0})
    check_limits(
        GenerationRequest("r", "m", (), sampling=sampling, max_tokens=1, num_logprobs=0, num_choices=4), 10, 4
    )


@pytest.mark.parametrize(
    ("named", "options"),
    [
        ("page_size", {"page_size": 0}),
        ("max_waiting", {"max_waiting": 0}),
        ("num_pages", {"num_pages": 1}),
        ("max_batch_tokens", {"max_batch_tokens": 8, "max_batch": 9}),
    ],
)
def test_an_engine_that_could_not_run(named, options):
    with pytest.raises(ValueError, match=named):
        EngineSettings(**options)
