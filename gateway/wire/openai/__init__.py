"""OpenAI's Chat Completions and Completions: requests become turns, events become responses and chunks.

Every field of the APIs is honoured, refused, or left out and named; the tables are in `request.py`.
"""

from gateway.wire.openai.request import ChatRequest, read_request
from gateway.wire.openai.response import ChatWriter
from gateway.wire.openai.text_completions import TextCompletionWriter
from gateway.wire.openai.text_completions import read_request as read_completions_request

__all__ = [
    "ChatRequest",
    "ChatWriter",
    "TextCompletionWriter",
    "read_completions_request",
    "read_request",
]
