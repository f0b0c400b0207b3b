"""Haystack: its Agent component."""

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret
from scenario import FIRST, SECOND, URL, Review, refund_payment, step


def model(**settings):
    key = Secret.from_token("none-needed")
    return OpenAIChatGenerator(
        model="demo", api_base_url=f"{URL}/v1", api_key=key, generation_kwargs={"temperature": 0, **settings}
    )


clerk = Agent(chat_generator=model(), tools=[create_tool_from_function(refund_payment)], max_agent_steps=4)


def converse(messages, ask, callback=None):
    asked = [*messages, ChatMessage.from_user(ask)]
    answered = clerk.run(messages=asked, streaming_callback=callback)["messages"]
    assert answered[-1].text
    return answered


with step("calls", 1):
    messages = converse([], FIRST)
with step("second turn", 1):
    converse(messages, SECOND)
with step("streamed", 2):
    chunks = []
    converse(converse([], FIRST, chunks.append), SECOND, chunks.append)
    assert chunks
with step("structured"):
    answer = model(response_format=Review).run([ChatMessage.from_user(FIRST)])["replies"][0]
    Review.model_validate_json(answer.text)
