"""openai, Chat Completions: the loop is written by hand."""

import json

from openai import OpenAI, pydantic_function_tool
from pydantic import BaseModel, Field
from scenario import FIRST, SECOND, URL, Review, refund_payment, step


class Refund(BaseModel):
    """Refund a payment."""

    payment: str = Field(description="The payment's id.")
    reason: str = Field(description="Why it is refunded.")


client = OpenAI(base_url=f"{URL}/v1", api_key="none-needed")
settings = {
    "model": "demo",
    "temperature": 0,
    "tools": [pydantic_function_tool(Refund, name="refund_payment", description="Refund a payment.")],
}


def answer(messages, is_streamed):
    if not is_streamed:
        return client.chat.completions.create(messages=messages, **settings).choices[0].message
    with client.chat.completions.stream(messages=messages, **settings) as stream:
        return stream.get_final_completion().choices[0].message


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
    answered = client.chat.completions.parse(model="demo", messages=asked, response_format=Review)
    assert isinstance(answered.choices[0].message.parsed, Review)
