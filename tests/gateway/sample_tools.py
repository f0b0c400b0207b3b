"""Two tools as a caller registers them."""

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
