"""LangGraph: an agent that keeps its conversations in a checkpointer."""

from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from scenario import FIRST, SECOND, URL, Review, refund_payment, step

model = ChatOpenAI(model="demo", base_url=f"{URL}/v1", api_key="none-needed", temperature=0)
clerk = create_agent(model, [refund_payment], checkpointer=InMemorySaver())


def converse(thread, ask):
    config = {"configurable": {"thread_id": thread}, "recursion_limit": 8}
    state = clerk.invoke({"messages": [("user", ask)]}, config)
    assert state["messages"][-1].content


def converse_streamed(thread, ask):
    config = {"configurable": {"thread_id": thread}, "recursion_limit": 8}
    streamed = clerk.stream({"messages": [("user", ask)]}, config, stream_mode="messages")
    assert [chunk.content for chunk, _ in streamed if chunk.content]


with step("calls", 1):
    converse("whole", FIRST)
with step("second turn", 1):
    converse("whole", SECOND)
with step("streamed", 2):
    converse_streamed("streamed", FIRST)
    converse_streamed("streamed", SECOND)
with step("structured"):
    reviewer = create_agent(model, [], response_format=ProviderStrategy(Review))
    state = reviewer.invoke({"messages": [("user", FIRST)]})
    assert isinstance(state["structured_response"], Review)
