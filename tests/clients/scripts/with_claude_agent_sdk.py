"""Claude Agent SDK. Its own tools and instructions are left out: they fill the context of the tiny model."""

import asyncio
import sys
import tempfile

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ResultMessage,
    StreamEvent,
    create_sdk_mcp_server,
    tool,
)
from scenario import FIRST, SECOND, URL, Review, refund_payment, step


@tool("refund_payment", "Refund a payment.", {"payment": str, "reason": str})
async def refund(arguments):
    return {"content": [{"type": "text", "text": refund_payment(**arguments)}]}


def options(**others):
    return ClaudeAgentOptions(
        model="demo",
        system_prompt="You serve requests by calls.",
        tools=[],
        setting_sources=[],
        cwd=tempfile.gettempdir(),  # the SDK tells the model about the repository that it is in
        max_turns=6,
        stderr=lambda line: print(line, file=sys.stderr),
        env={
            "ANTHROPIC_BASE_URL": URL,
            "ANTHROPIC_API_KEY": "none-needed",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "256",
        },
        **others,
    )


def clerk(**others):
    desk = create_sdk_mcp_server("desk", tools=[refund])
    return options(mcp_servers={"desk": desk}, allowed_tools=["mcp__desk__refund_payment"], **others)


async def converse(asks, settings):
    """The last result; each ask is a turn of one conversation."""
    async with ClaudeSDKClient(settings) as client:
        for ask in asks:
            await client.query(ask)
            messages = [message async for message in client.receive_response()]
            result = messages[-1]
            assert isinstance(result, ResultMessage), result
            assert not result.is_error, result.result
            assert not settings.include_partial_messages or any(isinstance(m, StreamEvent) for m in messages)
    return result


def run(asks, settings):
    return asyncio.run(converse(asks, settings))


with step("calls", 1):
    assert run([FIRST], clerk()).result
with step("second turn", 2):
    run([FIRST, SECOND], clerk())
with step("streamed", 2):
    run([FIRST, SECOND], clerk(include_partial_messages=True))
with step("structured"):
    form = {"type": "json_schema", "schema": Review.model_json_schema()}
    Review.model_validate(run([FIRST], options(output_format=form)).structured_output)
