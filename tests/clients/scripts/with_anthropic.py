"""anthropic: its tool runner runs the loop. The base URL has no `/v1`."""

from anthropic import Anthropic, beta_tool
from scenario import FIRST, SECOND, URL, Review, refund_payment, step

client = Anthropic(base_url=URL, api_key="none-needed")
settings = {"model": "demo", "max_tokens": 300, "extra_body": {"temperature": 0}}
tools = [beta_tool(refund_payment)]


def converse(messages, ask, *, is_streamed=False):
    messages.append({"role": "user", "content": ask})
    runner = client.beta.messages.tool_runner(messages=messages, tools=tools, stream=is_streamed, **settings)
    for answer in runner:
        message = answer.get_final_message() if is_streamed else answer
        messages.append({"role": "assistant", "content": message.content})
        if results := runner.generate_tool_call_response():
            messages.append(results)
    assert message.content[0].text


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
    asked = [{"role": "user", "content": FIRST}]
    answered = client.messages.parse(messages=asked, output_format=Review, **settings)
    assert isinstance(answered.parsed_output, Review)
