"""OpenAI's Chat Completions: requests become turns, events become responses and chunks.

Every field of the API is honoured, ignored or refused; the tables are in `request.py`.
"""

from gateway.wire.openai.request import ChatRequest, read_request
from gateway.wire.openai.response import chunks, completion

__all__ = ["ChatRequest", "chunks", "completion", "read_request"]
