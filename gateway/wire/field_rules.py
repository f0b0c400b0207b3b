"""Fields of other servers and of other APIs, which no API here honours: what becomes of each."""

from collections.abc import Mapping
from typing import Any

from gateway.wire.field_reader import Fixed

SILENT_IN_ALL = frozenset(
    {
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "user",
    }
)
"""Fields that by their own definition change nothing in the output."""

HINTS_IN_ALL: Mapping[str, tuple[Any, ...]] = {
    # Of OpenAI's service.
    "moderation": (),
    "service_tier": ("auto", "default"),
    # Of vLLM and SGLang: about speed, and about how special tokens are shown, of which no answer has any.
    "add_generation_prompt": (True,),
    "add_special_tokens": (False,),
    "cache_salt": (),
    "guided_decoding_backend": (),
    "guided_whitespace_pattern": (),
    "include_stop_str_in_output": (False,),
    "mm_processor_kwargs": (),
    "priority": (0,),
    "request_id": (),
    "return_token_ids": (False,),
    "return_tokens_as_token_ids": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "vllm_xargs": (),
}
"""Fields that change nothing here, and those of their values that change nothing anywhere."""

FIXED_IN_ALL: Fixed = {
    "continue_final_message": ((False,), "every answer is a message of its own"),
    "echo": ((False,), "an answer does not repeat the prompt"),
    "extra_body": (({},), "write its fields beside the others, as OpenAI's Python client sends them"),
    "extra_headers": (({},), "send them as headers of the request"),
    "ignore_eos": ((False,), "an answer ends where the model ends it"),
    "use_beam_search": ((False,), "tokens are sampled"),
}

_CHAT_HAS_IT = "only /v1/chat/completions has it"

CHAT_ONLY: Fixed = {
    "frequency_penalty": ((0,), _CHAT_HAS_IT),
    "logit_bias": (({},), _CHAT_HAS_IT),
    "n": ((1,), "one answer is made; /v1/chat/completions makes several"),
    "presence_penalty": ((0,), _CHAT_HAS_IT),
}
"""Fields of Chat Completions that Responses and Messages do not have, but that would change an answer."""

REFUSED_IN_ALL: Mapping[str, str] = {
    "allowed_token_ids": "use response_format to say what an answer may be",
    "bad_words": "use logit_bias or response_format to say what an answer may be",
    "chat_template": "the model's own chat template is used; chat_template_kwargs sets what it offers",
    "documents": "put the documents into messages",
    "prompt_logprobs": "log probabilities are given of answers only",
    "truncate_prompt_tokens": "send a shorter prompt",
}
