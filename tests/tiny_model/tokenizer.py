"""The tokenizer of the tiny model: a byte-level BPE in which a value has the same tokens everywhere.

The model copies values from a request into a call, so they must have the same tokens in both. Therefore no
word includes a blank, each digit is a token, and JSON's punctuation and the blanks around it merge only with
each other.
"""

import json
from collections.abc import Iterator
from typing import Any

from tokenizers import Regex, pre_tokenizers

from runtime.models.chatml import CHATML
from runtime.models.random_model import train_tokenizer
from tiny_model.conversations import Mix, converse

_MESSAGES = "{%- for message in messages %}"
TEMPLATE = r"""
{%- if tools or messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + ('\n' if tools else '') }}
    {%- endif %}
    {%- if tools %}
        {{- '<tools>' }}
        {%- for tool in tools %}
            {%- set shown = tool.function %}
            {%- set first = {'description': shown.description or '', 'name': shown.name} %}
            {{- '\n' + dict(first, parameters=shown.parameters) | tojson }}
        {%- endfor %}
        {{- '\n</tools>' }}
    {%- endif %}
    {{- '<|im_end|>\n' }}
{%- endif %}
""" + CHATML[CHATML.index(_MESSAGES) :]
"""ChatML with calls in the `hermes` syntax; it shows definitions without advice, which training replaces.

The description comes before the name. A token attends only to what precedes it, so one step of attention
finds a name by what its tool does, instead of two steps.
"""

_PIECES = r"""\p{Lu}?[\p{Ll}\p{Lo}\p{M}]+|\p{L}|\p{N}|[\s{}\[\]":,]+|[^\p{L}\p{N}\s{}\[\]":,]"""
_SEED = 1 << 40  # no conversation of training has this seed


def build_tokenizer(size: int, context_length: int, *, num_conversations: int = 6000) -> Any:
    """A tokenizer of `size` entries, trained on conversations of the generator."""
    pieces = [
        pre_tokenizers.Split(Regex(_PIECES), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    return train_tokenizer(
        pre_tokenizers.Sequence(pieces),
        _texts(num_conversations),
        size,
        chat_template=TEMPLATE,
        context_length=context_length,
    )


def _texts(count: int) -> Iterator[str]:
    """The texts of definitions, requests and calls, without markers."""
    mix = Mix()
    for number in range(count):
        conversation = converse(_SEED, number, mix)
        for tool in conversation.tools:
            fields = {"description": tool.description, "name": tool.name, "parameters": tool.parameters}
            yield "\n" + json.dumps(fields, ensure_ascii=False) + "\n"
        for message in conversation.messages:
            yield f"{message.role}\n{message.content}"
            for call in message.calls:
                yield f'\n{{"name": "{call.name}", "arguments": {call.arguments}}}\n'
