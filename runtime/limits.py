"""What a request may ask for."""

import math
from collections.abc import Iterator

from runtime.errors import RequestRefused
from runtime.request import GenerationRequest, Sampling


def check_limits(request: GenerationRequest, vocabulary_width: int, max_choices: int) -> None:
    """Refuse what no engine of this vocabulary and this length of queue could do.

    Raises:
        RequestRefused: a value is out of its range; the parameter is named.
    """
    for parameter, is_within, expected in _limits(request, vocabulary_width, max_choices):
        if not is_within:
            raise RequestRefused(f"{parameter} must be {expected}", parameter)


def _limits(request: GenerationRequest, width: int, max_choices: int) -> Iterator[tuple[str, bool, str]]:
    is_within = 1 <= request.num_choices <= max_choices
    yield "n", is_within, f"from 1 to {max_choices}, which is how many may wait"
    yield "max_tokens", request.max_tokens is None or request.max_tokens >= 1, "at least 1"
    yield "top_logprobs", request.num_logprobs is None or request.num_logprobs >= 0, "at least 0"
    yield "timeout", request.timeout_s is None or request.timeout_s > 0, "above 0"
    yield from _sampling_limits(request.sampling, width)


def _sampling_limits(sampling: Sampling, width: int) -> Iterator[tuple[str, bool, str]]:
    yield "temperature", 0 <= sampling.temperature < math.inf, "0 or above"
    yield "top_p", 0 <= sampling.top_p <= 1, "from 0 to 1"
    yield "top_k", sampling.top_k is None or sampling.top_k >= 1, "at least 1"
    yield "min_p", 0 <= sampling.min_p <= 1, "from 0 to 1"
    yield "presence_penalty", math.isfinite(sampling.presence_penalty), "a number"
    yield "frequency_penalty", math.isfinite(sampling.frequency_penalty), "a number"
    yield "logit_bias", all(map(math.isfinite, sampling.logit_bias.values())), "numbers"
    yield "logit_bias", all(0 <= i < width for i in sampling.logit_bias), f"of token ids below {width}"
