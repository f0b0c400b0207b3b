"""OpenAI Agents SDK: the Responses API; the streamed conversation goes on by the last response's id."""

import asyncio

from agents import (
    Agent,
    ModelSettings,
    Runner,
    SQLiteSession,
    function_tool,
    set_default_openai_client,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from scenario import FIRST, SECOND, URL, Review, refund_payment, step

set_default_openai_client(AsyncOpenAI(base_url=f"{URL}/v1", api_key="none-needed"))
set_tracing_disabled(True)  # otherwise the SDK sends traces to OpenAI
settings = ModelSettings(temperature=0)
clerk = Agent(name="clerk", model="demo", tools=[function_tool(refund_payment)], model_settings=settings)


async def streamed(ask, last_id=None):
    run = Runner.run_streamed(clerk, ask, previous_response_id=last_id, auto_previous_response_id=True)
    async for _ in run.stream_events():
        pass
    assert run.final_output
    return run.last_response_id


async def main():
    session = SQLiteSession("refunds")
    with step("calls", 1):
        assert (await Runner.run(clerk, FIRST, session=session)).final_output
    with step("second turn", 1):
        assert (await Runner.run(clerk, SECOND, session=session)).final_output
    with step("streamed", 2):
        await streamed(SECOND, await streamed(FIRST))
    with step("structured"):
        reviewer = Agent(name="reviewer", model="demo", output_type=Review)
        assert isinstance((await Runner.run(reviewer, FIRST)).final_output, Review)


asyncio.run(main())
