"""openai, Responses: the first conversation is sent whole, the streamed one goes on by the last answer's id."""

import json

from openai import OpenAI
from scenario import FIRST, SECOND, URL, Review, refund_payment, step

client = OpenAI(base_url=f"{URL}/v1", api_key="none-needed")
tool = {
    "type": "function",
    "name": "refund_payment",
    "description": "Refund a payment.",
    "parameters": {
        "type": "object",
        "properties": {
            "payment": {"type": "string", "description": "The payment's id."},
            "reason": {"type": "string", "description": "Why it is refunded."},
        },
        "required": ["payment", "reason"],
        "additionalProperties": False,
    },
    "strict": True,
}
settings = {"model": "demo", "temperature": 0, "tools": [tool]}


def results_of(response):
    return [
        {
            "type": "function_call_output",
            "call_id": call.call_id,
            "output": refund_payment(**json.loads(call.arguments)),
        }
        for call in response.output
        if call.type == "function_call"
    ]


def converse(items, ask):
    items.append({"role": "user", "content": ask})
    results = [None]
    while results:
        response = client.responses.create(input=items, **settings)
        items += [*response.output, *(results := results_of(response))]
    assert response.output_text


def converse_streamed(last_id, ask):
    sent = [{"role": "user", "content": ask}]
    while sent:
        with client.responses.stream(input=sent, previous_response_id=last_id, **settings) as stream:
            response = stream.get_final_response()
        sent, last_id = results_of(response), response.id
    assert response.output_text
    return last_id


items = []
with step("calls", 1):
    converse(items, FIRST)
with step("second turn", 1):
    converse(items, SECOND)
with step("streamed", 2):
    converse_streamed(converse_streamed(None, FIRST), SECOND)
with step("structured"):
    answered = client.responses.parse(model="demo", input=FIRST, text_format=Review)
    assert isinstance(answered.output_parsed, Review)
