"""Judges answers by the types of the official clients, strictly: no value is coerced, no member is left out."""

import json

from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

WHOLE = {
    "/v1/chat/completions": TypeAdapter(ChatCompletion),
    "/v1/completions": TypeAdapter(Completion),
    "/v1/messages": TypeAdapter(Message),
    "/v1/responses": TypeAdapter(Response),
}
EVENTS = {
    "/v1/chat/completions": TypeAdapter(ChatCompletionChunk),
    "/v1/messages": TypeAdapter(RawMessageStreamEvent),
    "/v1/responses": TypeAdapter(ResponseStreamEvent),
}

ELSEWHERE = frozenset(
    {
        # Of tools that run at OpenAI or Anthropic, of images and of sounds.
        *("allowed_callers", "async", "audio", "defer_loading", "image", "image_tokens", "namespace"),
        *("output_schema", "text_tokens", "tool_usage", "toolset_name"),
        # Of their accounts, caches and policies.
        *(
            "access_programs",
            "cache_write_tokens_details",
            "diagnostics",
            "input_transformations",
            "metadata",
        ),
        *("misalignment", "moderation", "prompt_cache_diagnostics", "prompt_cache_options", "speed"),
        *("prompt_cache_retention",),
        # Of conversations and prompts that are stored there.
        *("conversation", "prompt"),
        # What a request may ask for there, and clients leave out.
        *("context", "generate_summary", "mode", "phase", "verbosity"),
        # The one call of an older API; programs that call tools; padding of streams.
        *("function_call", "caller", "obfuscation"),
    }
)
"""Optional members that stand for what does not exist here. All others are in every answer."""

ONLY_IF_THERE = frozenset(
    {"citations", "content", "encrypted_content", "id", "name", "refusal", "role", "tool_calls", "usage"}
)
"""Members that the official servers leave out as well, of deltas and of what has none. Clients may refuse null
in their place: AI SDK refuses `citations`."""

PING = {"type": "ping"}
"""An event that Anthropic documents, and that its client drops before it reads the others by their types."""


def judge(adapter, document):
    """Check a document against a type, and that it leaves out no member that the official servers send."""
    read = adapter.validate_json(json.dumps(document), strict=True)
    missing = set(left_out(read, document)) - ELSEWHERE - ONLY_IF_THERE
    assert not missing, f"{sorted(missing)} are missing"
    return read


def message_of(events):
    """The message that the events of Messages add up to, as Anthropic's client adds them."""
    message, buffers = None, {}
    for event in events:
        if event != PING:
            read = EVENTS["/v1/messages"].validate_python(event)
            message = accumulate_event(event=read, current_snapshot=message, json_bufs=buffers)
    return message.to_dict()


def judge_event(path, event):
    """Check an event of a stream, but for a ping."""
    if event != PING:
        judge(EVENTS[path], event)


def left_out(read, document):
    """The names of the members of a validated object, and of those in it, that the document has not."""
    if isinstance(read, list):
        for member, written in zip(read, document, strict=True):
            yield from left_out(member, written)
    if not isinstance(read, BaseModel):
        return
    for name, field in type(read).model_fields.items():
        written = field.alias or name
        if written in document:
            yield from left_out(getattr(read, name), document[written])
        else:
            yield written
