"""Instructor: it makes one object of one answer, by a call or by a response format."""

import instructor
from openai import OpenAI
from pydantic import BaseModel, Field
from scenario import FIRST, URL, Review, refund_payment, step


class Refund(BaseModel):
    """Refund a payment."""

    payment: str = Field(description="The payment's id.")
    reason: str = Field(description="Why it is refunded.")


openai = OpenAI(base_url=f"{URL}/v1", api_key="none-needed")
asked = {"model": "demo", "messages": [{"role": "user", "content": FIRST}], "temperature": 0}
client = instructor.from_openai(openai)
with step("calls", 1):
    refund = client.chat.completions.create(response_model=Refund, **asked)
    refund_payment(refund.payment, refund.reason)
with step("streamed"):
    *_, last = client.chat.completions.create_partial(response_model=Review, **asked)
    Review.model_validate(last.model_dump())
with step("structured"):
    for mode in (instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA):
        client = instructor.from_openai(openai, mode=mode)
        assert isinstance(client.chat.completions.create(response_model=Review, **asked), Review)
