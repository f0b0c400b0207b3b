"""Anthropic's Messages: requests become turns, events become messages and stream events.

Fields are honoured, refused, or left out and named, as in the other APIs. `cache_control` is no hint here:
prompts are always cached by their prefixes, so it is left out without a word.
"""

from gateway.wire.anthropic.message_writer import MessageWriter
from gateway.wire.anthropic.request import read_request

__all__ = ["MessageWriter", "read_request"]
