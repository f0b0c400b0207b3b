"""smolagents: every step is a call, and `final_answer` is one as well."""

from scenario import FIRST, SECOND, URL, Review, refund_payment, step
from smolagents import OpenAIModel, ToolCallingAgent, tool

model = OpenAIModel(
    "demo",
    api_base=f"{URL}/v1",
    api_key="none-needed",
    temperature=0,
    parallel_tool_calls=False,  # smolagents takes no other call beside `final_answer`
)


def agent(is_streamed):
    clerk = ToolCallingAgent(
        [tool(refund_payment)], model, max_steps=2, verbosity_level=0, stream_outputs=is_streamed
    )
    clerk.prompt_templates["system_prompt"] = (
        "Serve the request."  # the default's examples mislead a small model
    )
    return clerk


clerk = agent(is_streamed=False)
with step("calls", 1):
    assert clerk.run(FIRST)
with step("second turn"):  # it shows calls as text, upon which the tiny model calls `final_answer` at once
    assert clerk.run(SECOND, reset=False)
with step("streamed", 1):
    clerk = agent(is_streamed=True)
    assert clerk.run(FIRST)
    assert clerk.run(SECOND, reset=False)
with step("structured"):
    schema = {"name": "review", "schema": Review.model_json_schema(), "strict": True}
    asked = [{"role": "user", "content": [{"type": "text", "text": FIRST}]}]
    answer = model.generate(asked, response_format={"type": "json_schema", "json_schema": schema})
    Review.model_validate_json(answer.content)
