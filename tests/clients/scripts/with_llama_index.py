"""LlamaIndex: without `is_chat_model` and `is_function_calling_model` it sends neither messages nor tools."""

import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.llms.openai_like import OpenAILike
from scenario import FIRST, SECOND, URL, Review, refund_payment, step

model = OpenAILike(
    model="demo",
    api_base=f"{URL}/v1",
    api_key="none-needed",
    is_chat_model=True,
    is_function_calling_model=True,
    should_use_structured_outputs=True,
    context_window=4096,
    temperature=0,
)


async def converse(asks, *, is_streamed):
    clerk = FunctionAgent(
        tools=[refund_payment], llm=model, streaming=is_streamed, initial_tool_choice="required"
    )
    memory = ChatMemoryBuffer.from_defaults(token_limit=4096)
    for name, ask in asks:
        with step(name, 1):
            assert str(await clerk.run(ask, memory=memory, max_iterations=4))


async def main():
    await converse([("calls", FIRST), ("second turn", SECOND)], is_streamed=False)
    await converse([("streamed", FIRST), ("streamed", SECOND)], is_streamed=True)
    with step("structured"):
        assert isinstance(model.as_structured_llm(Review).complete(FIRST).raw, Review)


asyncio.run(main())
