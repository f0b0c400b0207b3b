"""OpenAI's Responses: requests to turns, events to responses and the events of streams.

Nothing is stored: a conversation is sent whole, in `input`. Every field is honoured or refused, as in Chat
Completions.
"""

from gateway.wire.responses.answer import Answer
from gateway.wire.responses.request import ResponsesRequest, read_request

__all__ = ["Answer", "ResponsesRequest", "read_request"]
