"""Microsoft Agent Framework: the Responses API, where it sends each result by the last response's id."""

import asyncio

from agent_framework import Agent
from agent_framework_openai import OpenAIChatClient
from scenario import FIRST, SECOND, URL, Review, refund_payment, step

client = OpenAIChatClient("demo", base_url=f"{URL}/v1", api_key="none-needed")
clerk = Agent(client, name="clerk", tools=[refund_payment], default_options={"temperature": 0})


async def main():
    session = clerk.create_session()
    with step("calls", 1):
        assert (await clerk.run(FIRST, session=session)).text
    with step("second turn", 1):
        assert (await clerk.run(SECOND, session=session)).text
    with step("streamed", 2):
        session = clerk.create_session()
        for ask in (FIRST, SECOND):
            run = clerk.run(ask, session=session, stream=True)
            assert (await run.get_final_response()).text
    with step("structured"):
        reviewer = Agent(client, name="reviewer", default_options={"response_format": Review})
        assert isinstance((await reviewer.run(FIRST)).value, Review)


asyncio.run(main())
