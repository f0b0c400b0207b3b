"""Google ADK: it reaches other models than Google's through LiteLLM."""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai.types import Content, Part
from scenario import FIRST, SECOND, URL, Review, refund_payment, step

model = LiteLlm("openai/demo", api_base=f"{URL}/v1", api_key="none-needed", temperature=0)
clerk = LlmAgent(name="clerk", model=model, tools=[refund_payment])
reviewer = LlmAgent(name="reviewer", model=model, output_schema=Review)


async def converse(agent, asks, streaming=StreamingMode.NONE):
    runner = InMemoryRunner(agent, app_name="refunds")
    session = await runner.session_service.create_session(app_name="refunds", user_id="user")
    for name, num_calls, ask in asks:
        with step(name, num_calls):
            events = runner.run_async(
                user_id="user",
                session_id=session.id,
                new_message=Content(role="user", parts=[Part(text=ask)]),
                run_config=RunConfig(streaming_mode=streaming, max_llm_calls=4),
            )
            *_, last = [event async for event in events]
            assert not last.error_message, last.error_message
            text = "".join(part.text or "" for part in last.content.parts)
            assert text
            if agent is reviewer:
                Review.model_validate_json(text)


async def main():
    await converse(clerk, [("calls", 1, FIRST), ("second turn", 1, SECOND)])
    await converse(clerk, [("streamed", 1, FIRST), ("streamed", 1, SECOND)], StreamingMode.SSE)
    await converse(reviewer, [("structured", 0, FIRST)])


asyncio.run(main())
