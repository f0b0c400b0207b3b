"""LangChain: `bind_tools` and a loop written by hand."""

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from scenario import FIRST, SECOND, URL, Review, refund_payment, step

model = ChatOpenAI(model="demo", base_url=f"{URL}/v1", api_key="none-needed", temperature=0)
bound = model.bind_tools([tool(refund_payment)])


def converse(messages, ask, *, is_streamed=False):
    messages.append(HumanMessage(ask))
    while True:
        if is_streamed:
            message, *chunks = bound.stream(messages)
            for chunk in chunks:
                message += chunk
        else:
            message = bound.invoke(messages)
        messages.append(message)
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            messages.append(ToolMessage(refund_payment(**call["args"]), tool_call_id=call["id"]))
    assert message.content


messages = []
with step("calls", 1):
    converse(messages, FIRST)
with step("second turn", 1):
    converse(messages, SECOND)
with step("streamed", 2):
    messages = []
    converse(messages, FIRST, is_streamed=True)
    converse(messages, SECOND, is_streamed=True)
with step("structured"):
    for method in ("json_schema", "function_calling"):
        assert isinstance(model.with_structured_output(Review, method=method).invoke(FIRST), Review)
