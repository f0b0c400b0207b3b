"""Fields of other servers and of other APIs: what becomes of each.

>>> class Fields(Struct):
...     max_output_tokens: int | None = None
>>> rules_of(Fields, {"max_tokens": "max_output_tokens"}, FieldRules()).refused["max_tokens"]
'use max_output_tokens'
"""

from collections.abc import Collection, Mapping

from msgspec import Struct

from gateway.wire.field_reader import FieldRules

_CHAT_HAS_IT = "only /v1/chat/completions has it"

_IN_ALL = FieldRules(
    silent=frozenset(
        {
            "metadata",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
            "safety_identifier",
            "user",
        }
    ),
    hints={
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
    },
    fixed={
        "continue_final_message": ((False,), "every answer is a message of its own"),
        "echo": ((False,), "an answer does not repeat the prompt"),
        "extra_body": (({},), "write its fields beside the others, as OpenAI's Python client sends them"),
        "extra_headers": (({},), "send them as headers of the request"),
        "frequency_penalty": ((0,), _CHAT_HAS_IT),
        "ignore_eos": ((False,), "an answer ends where the model ends it"),
        "logit_bias": (({},), _CHAT_HAS_IT),
        "n": ((1,), "one answer is made; /v1/chat/completions makes several"),
        "presence_penalty": ((0,), _CHAT_HAS_IT),
        "use_beam_search": ((False,), "tokens are sampled"),
    },
    refused={
        "allowed_token_ids": "use response_format to say what an answer may be",
        "bad_words": "use logit_bias or response_format to say what an answer may be",
        "chat_template": "the model's own chat template is used; chat_template_kwargs sets what it offers",
        "documents": "put the documents into messages",
        "prompt_logprobs": "log probabilities are given of answers only",
        "truncate_prompt_tokens": "send a shorter prompt",
    },
)
"""The rules of all APIs that do not have these fields themselves."""

_MEANINGS: Mapping[str, tuple[str, ...]] = {
    "disable_parallel_tool_use": ("parallel_tool_calls",),
    "function_call": ("tool_choice",),
    "functions": ("tools",),
    "input": ("messages",),
    "instructions": ("system",),
    "max_completion_tokens": ("max_tokens",),
    "max_output_tokens": ("max_tokens",),
    "max_tokens": ("max_tokens",),
    "messages": ("messages",),
    "output_config": ("response_format", "reasoning_effort"),
    "output_format": ("response_format",),
    "reasoning_effort": ("reasoning_effort",),
    "response_format": ("response_format",),
    "stop": ("stop",),
    "stop_sequences": ("stop",),
    "system": ("system",),
    "text": ("response_format",),
}
"""Fields that some APIs have and that would change an answer, and what they ask for."""


def rules_of(
    own: type[Struct], names: Mapping[str, str], rules: FieldRules, *, absent: Collection[str] = ()
) -> FieldRules:
    """The rules of an API with the fields `own`: its `rules`, and those that all APIs have.

    `names` has what it calls the things in `_MEANINGS`, where that is another name. The `absent` ones it does
    not have, so no error suggests them.
    """
    is_own = own.__struct_fields__
    instead = {
        field: " and ".join(names.get(meant, meant) for meant in meanings if meant not in absent)
        for field, meanings in _MEANINGS.items()
    }
    of_other_apis = {field: f"use {use}" for field, use in instead.items() if use and field not in is_own}
    return FieldRules(
        silent=_IN_ALL.silent.union(rules.silent).difference(is_own),
        hints={**_IN_ALL.hints, **rules.hints},
        fixed={name: row for name, row in {**_IN_ALL.fixed, **rules.fixed}.items() if name not in is_own},
        refused={**_IN_ALL.refused, **of_other_apis, **rules.refused},
    )
