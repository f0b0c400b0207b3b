"""Pydantic AI: Chat Completions."""

import asyncio

from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from scenario import FIRST, SECOND, URL, Review, refund_payment, step

model = OpenAIChatModel("demo", provider=OpenAIProvider(base_url=f"{URL}/v1", api_key="none-needed"))
clerk = Agent(model, tools=[refund_payment], model_settings={"temperature": 0})


async def streamed(ask, history=None):
    async with clerk.run_stream(ask, message_history=history) as run:
        assert await run.get_output()
        return run.all_messages()


async def main():
    with step("calls", 1):
        first = await clerk.run(FIRST)
        assert first.output
    with step("second turn", 1):
        assert (await clerk.run(SECOND, message_history=first.all_messages())).output
    with step("streamed", 2):
        await streamed(SECOND, await streamed(FIRST))
    with step("structured"):
        for output_type in (Review, NativeOutput(Review)):  # a call, and a response format
            assert isinstance((await Agent(model, output_type=output_type).run(FIRST)).output, Review)


asyncio.run(main())
