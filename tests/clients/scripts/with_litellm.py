"""LiteLLM: the loop is written by hand; messages go back as LiteLLM made them."""

import json

import litellm
from scenario import FIRST, SECOND, URL, Review, refund_payment, step

settings = {
    "model": "openai/demo",
    "api_base": f"{URL}/v1",
    "api_key": "none-needed",
    "temperature": 0,
    "stream": False,
}
tools = [
    {
        "type": "function",
        "function": {
            "name": "refund_payment",
            "description": "Refund a payment.",
            "parameters": {
                "type": "object",
                "properties": {
                    "payment": {"type": "string", "description": "The payment's id."},
                    "reason": {"type": "string", "description": "Why it is refunded."},
                },
                "required": ["payment", "reason"],
            },
        },
    }
]


def answer(messages, is_streamed):
    if not is_streamed:
        return litellm.completion(messages=messages, tools=tools, **settings).choices[0].message
    chunks = list(litellm.completion(messages=messages, tools=tools, **settings | {"stream": True}))
    return litellm.stream_chunk_builder(chunks, messages=messages).choices[0].message


def converse(messages, ask, *, is_streamed=False):
    messages.append({"role": "user", "content": ask})
    while (message := answer(messages, is_streamed)).tool_calls:
        messages.append(message)
        for call in message.tool_calls:
            result = refund_payment(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    messages.append(message)
    assert message.content


messages = []
with step("calls", 1):
    converse(messages, FIRST)
with step("second turn", 1):
    converse(messages, SECOND)
with step("streamed", 2):
    messages = []
    converse(messages, FIRST, is_streamed=True)
    converse(messages, SECOND, is_streamed=True)
with step("structured"):
    asked = [{"role": "user", "content": FIRST}]
    answered = litellm.completion(messages=asked, response_format=Review, **settings)
    Review.model_validate_json(answered.choices[0].message.content)
