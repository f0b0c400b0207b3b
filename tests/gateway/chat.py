"""Chat Completions as a client asks for them."""

from apis import CHAT, TOOL_CALL, USER

__all__ = ["TOOL_CALL", "URL", "USER", "ask", "body", "stream"]

URL, body, ask, stream = CHAT.url, CHAT.body, CHAT.ask, CHAT.stream
