"""DSPy: signatures. It sends tools and schemas only to a provider that is declared to take them."""

import dspy
from dspy.lm15 import (
    AccessPolicy,
    ModelSupport,
    OpenAIChatCompat,
    ProviderDefinition,
    register_provider,
)
from scenario import FIRST, SECOND, URL, Review, refund_payment, step

access = AccessPolicy(provider="callgate", base_url=f"{URL}/v1")
register_provider(
    ProviderDefinition.chat(access, compat=OpenAIChatCompat()),
    supports=ModelSupport(function_calling=True, response_schema=True),
)
model = dspy.LM("callgate/demo", api_key="none-needed", temperature=0, max_tokens=200, cache=False)
dspy.configure(lm=model, adapter=dspy.JSONAdapter())


class Clerk(dspy.Signature):
    """Serve the request by a call."""

    request: str = dspy.InputField()
    history: dspy.History = dspy.InputField()
    tools: list[dspy.Tool] = dspy.InputField()
    calls: dspy.ToolCalls = dspy.OutputField()


class Reviewer(dspy.Signature):
    """Review the request."""

    request: str = dspy.InputField()
    review: Review = dspy.OutputField()


def converse(history, ask, run):
    answered = run(request=ask, history=dspy.History(messages=history), tools=[tool])
    for call in answered.calls.tool_calls:
        tool(**call.args)
    history.append({"request": ask, "calls": answered.calls})


def streamed(**inputs):
    *_, last = dspy.streamify(clerk, async_streaming=False)(**inputs)
    return last


tool = dspy.Tool(refund_payment)
clerk = dspy.Predict(Clerk, tool_choice="required")
history = []
with step("calls", 1):
    converse(history, FIRST, clerk)
with step("second turn", 1):
    converse(history, SECOND, clerk)
with step("streamed", 2):
    history = []
    converse(history, FIRST, streamed)
    converse(history, SECOND, streamed)
with step("structured"):
    assert isinstance(dspy.Predict(Reviewer)(request=FIRST).review, Review)
