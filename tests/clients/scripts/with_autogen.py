"""AutoGen: under its default system message the tiny model calls with wrong arguments."""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from scenario import FIRST, SECOND, URL, Review, refund_payment, step

model = OpenAIChatCompletionClient(
    model="demo",
    base_url=f"{URL}/v1",
    api_key="none-needed",
    temperature=0,
    model_info={
        "vision": False,
        "function_calling": True,
        "json_output": True,
        "structured_output": True,
        "family": "unknown",
    },
)


def agent(is_streamed):
    return AssistantAgent(
        "clerk",
        model,
        tools=[refund_payment],
        system_message=None,
        model_client_stream=is_streamed,
        max_tool_iterations=3,
    )


async def main():
    clerk = agent(is_streamed=False)
    with step("calls", 1):
        assert (await clerk.run(task=FIRST)).messages[-1].content
    with step("second turn", 1):
        assert (await clerk.run(task=SECOND)).messages[-1].content
    with step("streamed", 2):
        clerk = agent(is_streamed=True)
        for ask in (FIRST, SECOND):
            messages = [message async for message in clerk.run_stream(task=ask)]
            assert messages[-1].messages[-1].content
    with step("structured"):
        reviewer = AssistantAgent("reviewer", model, system_message=None, output_content_type=Review)
        assert isinstance((await reviewer.run(task=FIRST)).messages[-1].content, Review)


asyncio.run(main())
