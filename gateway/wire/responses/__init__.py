"""OpenAI's Responses: requests become turns, events become responses and stream events.

Nothing is stored: a client sends the whole conversation in `input`. Every field is honoured, ignored or
refused, as in Chat Completions.
"""

from gateway.wire.responses.answer import ResponseWriter
from gateway.wire.responses.request import ResponsesRequest, read_request

__all__ = ["ResponseWriter", "ResponsesRequest", "read_request"]
