"""Writes the events of a generation as a message, or as the events of its stream."""

import secrets
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gateway.generation.generation import Generation
from gateway.http.error_shapes import Problem, anthropic_error
from gateway.wire.answer_parts import extension
from runtime.events import (
    ArgumentsDelta,
    CallStarted,
    Event,
    Finished,
    FinishReason,
    TextDelta,
    ThoughtDelta,
)
from toolspecs.json_value import JSON

NO_DETAILS: Mapping[str, None] = {"stop_details": None, "container": None}
"""Details of an end that comes only at Anthropic: of a refusal, and of where Anthropic's own tools ran."""

SERVICE_USAGE: Mapping[str, Any] = {
    "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
    "inference_geo": None,
    "service_tier": "standard",
}
"""Members of a message's usage that are about Anthropic's service. The usage at the end has none of them."""

_BEGUN_BLOCKS: Mapping[str, JSON] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}, "caller": {"type": "direct"}},
}
"""The members of each kind of block before its first delta."""
_DELTAS = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}
"""The type of each kind of block's deltas, and the member that holds their text."""

PING: JSON = {"type": "ping"}
"""The event after the beginning of a stream. It has no meaning; Anthropic documents that it may come."""


@dataclass
class _Block:
    """A content block, while it is written."""

    index: int
    kind: str
    fields: JSON = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)

    def begun(self) -> JSON:
        """The block before its first delta."""
        return {"type": self.kind, **self.fields, **_BEGUN_BLOCKS[self.kind]}

    def delta(self, text: str) -> JSON:
        """More of the block."""
        delta_type, member = _DELTAS[self.kind]
        return {"type": delta_type, member: text}

    def as_json(self) -> JSON:
        """The complete block."""
        text = "".join(self.texts)
        if self.kind == "tool_use":
            return self.begun() | {"input": msgspec.Raw(text.encode())}  # it may be nested very deeply
        return self.begun() | {self.kind: text}


class MessageWriter:
    """Writes one message while it reads the generation."""

    stream_end = ""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._blocks: list[_Block] = []
        self._is_open = False
        self._finished: Finished | None = None

    async def answer(self) -> JSON:
        """The complete message."""
        *_, delta, _ = [event async for event in self.events()]
        return {
            **self._message([block.as_json() for block in self._blocks]),
            **self._stop(),
            "usage": {**delta["usage"], **SERVICE_USAGE},
            "callgate": delta["callgate"],
        }

    async def events(self) -> AsyncGenerator[JSON]:
        """The events of its stream."""
        open_end = {"stop_reason": None, "stop_sequence": None, **NO_DETAILS}
        usage = {**self._usage(), **SERVICE_USAGE}
        yield {"type": "message_start", "message": {**self._message([]), **open_end, "usage": usage}}
        yield PING
        async for event in self._generation.events():
            for written in self._read(event):
                yield written
        yield {
            "type": "message_delta",
            "delta": self._stop(),
            "usage": self._usage(),
            "callgate": extension(self._generation),
        }
        yield {"type": "message_stop"}

    def failed(self, problem: Problem) -> tuple[JSON, ...]:
        """The last event of a stream that an error ends early."""
        return (anthropic_error(problem),)

    def _read(self, event: Event) -> Iterator[JSON]:
        match event:
            case ThoughtDelta(text=text):
                yield from self._write("thinking", text)
            case TextDelta(text=text):
                yield from self._write("text", text)
            case CallStarted(name=name):
                yield from self._begin("tool_use", id=f"toolu_{secrets.token_hex(12)}", name=name)
            case ArgumentsDelta(text=text):
                yield self._delta(text)
            case Finished():
                self._finished = event
                yield from self._end()

    def _write(self, kind: str, text: str) -> Iterator[JSON]:
        if not text:
            return
        if not self._is_open or self._blocks[-1].kind != kind:
            yield from self._begin(kind)
        yield self._delta(text)

    def _begin(self, kind: str, **fields: str) -> Iterator[JSON]:
        yield from self._end()
        block = _Block(len(self._blocks), kind, fields)
        self._blocks.append(block)
        self._is_open = True
        yield {"type": "content_block_start", "index": block.index, "content_block": block.begun()}

    def _delta(self, text: str) -> JSON:
        block = self._blocks[-1]
        block.texts.append(text)
        return {"type": "content_block_delta", "index": block.index, "delta": block.delta(text)}

    def _end(self) -> Iterator[JSON]:
        if not self._is_open:
            return
        self._is_open = False
        block = self._blocks[-1]
        if block.kind == "thinking":  # clients expect a signature, and send it back
            signature = {"type": "signature_delta", "signature": ""}
            yield {"type": "content_block_delta", "index": block.index, "delta": signature}
        yield {"type": "content_block_stop", "index": block.index}

    def _message(self, content: list[JSON]) -> JSON:
        return {
            "id": f"msg_{self._generation.request_id}",
            "type": "message",
            "role": "assistant",
            "model": self._generation.prepared.model.model_id,
            "content": content,
        }

    def _stop(self) -> JSON:
        """Why the message ended. A call that the budget closed is whole, and still ends in `max_tokens`."""
        finished = self._finished
        assert finished, "a runtime finishes every choice or raises"
        match finished.reason:
            case FinishReason.TOOL_CALLS:
                reason = "tool_use"
            case FinishReason.LENGTH:
                reason = "max_tokens"
            case FinishReason.STOP:
                reason = "end_turn" if finished.stop_string is None else "stop_sequence"
        return {"stop_reason": reason, "stop_sequence": finished.stop_string, **NO_DETAILS}

    def _usage(self) -> JSON:
        """Token counts; those that were read from the prefix cache are not in `input_tokens`."""
        stats = self._finished.stats if self._finished else None
        num_cached = stats.num_cached_tokens if stats else 0
        num_prompt = stats.num_prompt_tokens if stats else self._generation.num_prompt_tokens
        return {
            "input_tokens": num_prompt - num_cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": num_cached,
            "output_tokens": stats.num_output_tokens if stats else 0,
            "output_tokens_details": {"thinking_tokens": stats.num_thought_tokens if stats else 0},
            "server_tool_use": None,
        }
