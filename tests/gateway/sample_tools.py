"""Two tools as a caller registers them."""

from apis import MESSAGES, RESPONSES

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
    RESPONSES.url: RESPONSES.body(
        tools=[{"type": "function", **WEATHER["function"]}], tool_choice="required"
    ),
    MESSAGES.url: MESSAGES.body(
        tools=[{"name": "get_weather", "input_schema": WEATHER["function"]["parameters"]}],
        tool_choice={"type": "any"},
    ),
}
"""Requests that call a tool for certain, by the routes of the APIs beside Chat."""
