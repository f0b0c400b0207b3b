"""OpenAI's Responses: requests become turns, events become responses and stream events.

Every field is honoured, refused, or left out and named, as in Chat Completions. A conversation that a client
continues by an id is in `input` when the request is read here (see `gateway.generation.continuation`).
"""

from gateway.wire.responses.answer import ResponseWriter
from gateway.wire.responses.request import ResponsesRequest, read_request

__all__ = ["ResponseWriter", "ResponsesRequest", "read_request"]
