"""Every field of a request that the official clients know is honoured, ignored or refused by name."""

import typing

import anthropic.types.message_create_params as messages
import openai.types.chat.completion_create_params as chat
import openai.types.completion_create_params as completions
import openai.types.responses.response_create_params as responses
import pytest

from gateway.wire.anthropic import request as messages_request
from gateway.wire.openai import request as chat_request
from gateway.wire.openai import text_completions
from gateway.wire.responses import request as responses_request

APIS = {
    "chat": (chat.CompletionCreateParams, chat_request.BODY),
    "completions": (completions.CompletionCreateParams, text_completions.BODY),
    "messages": (messages.MessageCreateParams, messages_request.BODY),
    "responses": (responses.ResponseCreateParams, responses_request.BODY),
}
"""What the client sends, of streams and of whole answers, and what the gateway reads."""


@pytest.mark.parametrize(("params", "body"), APIS.values(), ids=APIS)
def test_every_field_has_one_decision(params, body):
    known = {name for each in typing.get_args(params) for name in typing.get_type_hints(each)}
    decided = [*body.fields.__struct_fields__, *body.rules.names]
    assert known
    assert len(decided) == len(set(decided))
    assert known <= set(decided)
