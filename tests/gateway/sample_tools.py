"""Two tools as a caller registers them."""

from apis import CHAT, COMPLETIONS, MESSAGES, RESPONSES

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a place.",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["place"],
            "additionalProperties": False,
        },
    },
}
TIME = {
    "type": "function",
    "function": {
        "name": "clock.now",
        "description": "The time.",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    },
}


def mcp_tool(name, **properties):
    """A tool in MCP's shape, whose arguments have these properties."""
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


def chat_tool(name="a", **parameters):
    """A tool in the shape of Chat Completions."""
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOL_REQUIRED = {
    CHAT.url: CHAT.body(tools=[WEATHER], tool_choice="required"),
    RESPONSES.url: RESPONSES.body(tools=[WEATHER], tool_choice="required"),
    MESSAGES.url: MESSAGES.body(tools=[WEATHER["function"]], tool_choice={"type": "any"}),
}
"""Requests that call a tool for certain, by the routes of the APIs that have tools."""
MASKED = [*TOOL_REQUIRED.items(), (COMPLETIONS.url, COMPLETIONS.body(guided_choice=["a", "b"]))]
"""A request of each API whose answer has a grammar."""
