"""How a model's authors would sample it: the defaults in its `generation_config.json`.

vLLM and SGLang read the same values. A model that was trained for one temperature answers worse at another.
"""

from collections.abc import Callable, Mapping
from typing import Any

from runtime.request import Sampling

_IS_ALLOWED: Mapping[str, Callable[[float], bool]] = {
    "temperature": lambda value: 0 <= value <= 2,
    "top_p": lambda value: 0 < value <= 1,
    "top_k": lambda value: value >= -1 and type(value) is int,
    "min_p": lambda value: 0 <= value <= 1,
    "repetition_penalty": lambda value: 0.01 <= value <= 10,
}
"""The values that are read, in the ranges that requests have too."""
_MORE_THAN_ALL = 2**31
MODEL_FIELDS = tuple(_IS_ALLOWED)
"""The fields of `Sampling` that a model may set."""


def model_sampling(generation_config: Any = None) -> Sampling:
    """The sampling that a `GenerationConfig` of transformers asks for; all else is as in OpenAI's API.

    `do_sample` is not read: other servers ignore it too.

    Raises:
        ValueError: a value cannot be used.
    """
    values = {name: getattr(generation_config, name, None) for name in _IS_ALLOWED}
    for name, value in values.items():
        if value is not None and (type(value) not in {int, float} or not _IS_ALLOWED[name](value)):
            raise ValueError(f"generation_config.json: {name} cannot be {value!r}")
    known = {name: value for name, value in values.items() if value is not None}
    return Sampling(**known | {"top_k": read_top_k(known.get("top_k"))})


def read_top_k(top_k: int | None) -> int | None:
    """A top_k as `Sampling` has it: in files and in requests, 0 and -1 stand for all tokens.

    So does a number that is larger than any vocabulary, which engines could not represent.
    """
    return top_k if top_k and 0 < top_k < _MORE_THAN_ALL else None
