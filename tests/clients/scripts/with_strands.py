"""Strands Agents: it always streams; an object is asked for by a call."""

from scenario import FIRST, SECOND, URL, Review, refund_payment, step
from strands import Agent, tool
from strands.models.openai import OpenAIModel

model = OpenAIModel(
    client_args={"base_url": f"{URL}/v1", "api_key": "none-needed"},
    model_id="demo",
    params={"temperature": 0},
)


def agent(*, is_streamed, **options):
    model.update_config(streaming=is_streamed)
    return Agent(model, callback_handler=None, **options)


clerk = agent(is_streamed=False, tools=[tool(refund_payment)])
with step("calls", 1):
    assert str(clerk(FIRST))
with step("second turn", 1):
    assert str(clerk(SECOND))
with step("streamed", 2):
    clerk = agent(is_streamed=True, tools=[tool(refund_payment)])
    assert str(clerk(FIRST))
    assert str(clerk(SECOND))
with step("structured"):
    answered = agent(is_streamed=False)(FIRST, structured_output_model=Review)
    assert isinstance(answered.structured_output, Review)
