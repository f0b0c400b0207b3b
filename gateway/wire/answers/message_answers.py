"""The answers of `POST /v1/messages`, and the events of its stream."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from gateway.wire.answers.extension import Extension
from gateway.wire.answers.tagged_unions import Row, tagged_union


class TextBlock(Struct, tag_field="type", tag="text"):
    """What the model said. It never has `citations`, which Anthropic leaves out where there are none."""

    text: str


class ThinkingBlock(Struct, tag_field="type", tag="thinking"):
    """What the model thought; the signature is empty."""

    thinking: str
    signature: str


class Caller(Struct):
    """Who called: the model itself, not a program of its."""

    type: Literal["direct"]


class ToolUseBlock(Struct, tag_field="type", tag="tool_use"):
    """A call; the input is valid under the tool's schema."""

    id: str
    name: str
    input: dict[str, Any]
    caller: Caller


Block = TextBlock | ThinkingBlock | ToolUseBlock
StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]


class ThinkingTokens(Struct):
    """Tokens of thoughts."""

    thinking_tokens: int


class DeltaUsage(Struct):
    """Token counts; those read from the prefix cache are not in `input_tokens`."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: ThinkingTokens
    server_tool_use: None


class CacheCreation(Struct):
    """Tokens that Anthropic would charge for keeping; none are charged here."""

    ephemeral_5m_input_tokens: int
    ephemeral_1h_input_tokens: int


class MessageUsage(DeltaUsage):
    """Token counts of a message, with members about Anthropic's service."""

    cache_creation: CacheCreation
    inference_geo: None
    service_tier: Literal["standard"]


class Message(Struct):
    """A message of the Messages API."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[Block]
    stop_reason: StopReason | None
    stop_sequence: str | None
    stop_details: None
    container: None
    usage: MessageUsage
    callgate: Extension | UnsetType = UNSET


class Stop(Struct):
    """Why a message ended."""

    stop_reason: StopReason
    stop_sequence: str | None
    stop_details: None
    container: None


_DELTAS: tuple[Row, ...] = (
    ("text_delta", "More text.", {"text": str}),
    ("thinking_delta", "More of a thought.", {"thinking": str}),
    ("signature_delta", "The signature of a thought, which is empty.", {"signature": str}),
    ("input_json_delta", "More JSON text of an input.", {"partial_json": str}),
)

_EVENTS: tuple[Row, ...] = (
    ("message_start", "A message begins.", {"message": Message}),
    ("ping", "An event without a meaning, after the first one.", {}),
    ("content_block_start", "A block begins.", {"index": int, "content_block": Block}),
    ("content_block_delta", "More of a block.", {"index": int, "delta": tagged_union(_DELTAS, __name__)}),
    ("content_block_stop", "A block is whole.", {"index": int}),
    (
        "message_delta",
        "The end of a message, and what it cost.",
        {"delta": Stop, "usage": DeltaUsage, "callgate": Extension},
    ),
    ("message_stop", "A message is whole.", {}),
)
MessageEvent = tagged_union(_EVENTS, __name__)
