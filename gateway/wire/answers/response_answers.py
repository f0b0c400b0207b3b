"""The answers of the routes of Responses, and the events of their streams."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from gateway.wire.answers.extension import Extension
from gateway.wire.answers.model_answers import CachedTokens, ReasoningTokens, TopLogprobs
from gateway.wire.answers.registry_answers import OpenAIError
from gateway.wire.answers.tagged_unions import Row, tagged_union

Status = Literal["in_progress", "completed", "incomplete"]


class OutputTextPart(Struct, tag_field="type", tag="output_text"):
    """What the model said."""

    text: str
    annotations: list[Any]
    logprobs: list[TopLogprobs]


class ReasoningTextPart(Struct, tag_field="type", tag="reasoning_text"):
    """What the model thought."""

    text: str


ContentPart = OutputTextPart | ReasoningTextPart


class _OutputItem(Struct, kw_only=True, tag_field="type"):
    id: str
    status: Status


class OutputMessage(_OutputItem, tag="message"):
    """A message of the model."""

    role: Literal["assistant"]
    content: list[OutputTextPart]


class OutputReasoning(_OutputItem, tag="reasoning"):
    """A thought of the model."""

    summary: list[Any]
    content: list[ReasoningTextPart]


class OutputFunctionCall(_OutputItem, tag="function_call"):
    """A call of a function; the arguments are JSON text, valid under its schema."""

    call_id: str
    name: str
    arguments: str


class OutputCustomToolCall(_OutputItem, tag="custom_tool_call"):
    """A call of a custom tool."""

    call_id: str
    name: str
    input: str


OutputItem = OutputMessage | OutputReasoning | OutputFunctionCall | OutputCustomToolCall


class WrittenTokens(CachedTokens):
    """Tokens of the prompt that were read from the prefix cache; none is charged for writing it."""

    cache_write_tokens: int


class ResponseUsage(Struct):
    """Token counts."""

    input_tokens: int
    input_tokens_details: WrittenTokens
    output_tokens: int
    output_tokens_details: ReasoningTokens
    total_tokens: int


class ResponseError(Struct):
    """Why a response failed; `type` is the code that the error has in other answers."""

    code: Literal["server_error", "rate_limit_exceeded"]
    message: str
    type: str
    param: str | None


class IncompleteDetails(Struct):
    """Why a response is incomplete."""

    reason: Literal["max_output_tokens"]


class EchoedReasoning(Struct):
    """The reasoning effort that was asked for."""

    effort: str | None
    summary: None


class Response(Struct):
    """A response; the fields from `instructions` to `truncation` repeat the request."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    error: ResponseError | None
    incomplete_details: IncompleteDetails | None
    model: str
    output: list[OutputItem]
    background: Literal[False]
    service_tier: Literal["default"]
    store: bool
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    metadata: dict[str, str]
    parallel_tool_calls: bool
    presence_penalty: float
    frequency_penalty: float
    previous_response_id: str | None
    prompt_cache_key: str | None
    safety_identifier: str | None
    temperature: float
    text: dict[str, Any]
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    top_logprobs: int
    top_p: float
    truncation: Literal["auto", "disabled"]
    user: str | None
    reasoning: EchoedReasoning
    usage: ResponseUsage | None
    callgate: Extension | None


_RESPONSE = {"response": Response}
_ITEM = {"output_index": int, "item": OutputItem}
_TEXT = {"output_index": int, "item_id": str}
_PART = {**_TEXT, "content_index": int}
_LOGPROBS = {"logprobs": list[TopLogprobs]}

_EVENTS: tuple[Row, ...] = (
    ("response.created", "The response begins.", _RESPONSE),
    ("response.in_progress", "The response is being written.", _RESPONSE),
    ("response.completed", "The response is whole.", _RESPONSE),
    ("response.incomplete", "The budget ran out.", _RESPONSE),
    ("response.failed", "An error ended the response.", _RESPONSE),
    ("response.output_item.added", "An item begins.", _ITEM),
    ("response.output_item.done", "An item is whole.", _ITEM),
    ("response.content_part.added", "A part begins.", {**_PART, "part": ContentPart}),
    ("response.content_part.done", "A part is whole.", {**_PART, "part": ContentPart}),
    ("response.output_text.delta", "More text of a message.", {**_PART, "delta": str, **_LOGPROBS}),
    ("response.output_text.done", "The text of a message is whole.", {**_PART, "text": str, **_LOGPROBS}),
    ("response.reasoning_text.delta", "More of a thought.", {**_PART, "delta": str}),
    ("response.reasoning_text.done", "A thought is whole.", {**_PART, "text": str}),
    ("response.function_call_arguments.delta", "More JSON text of arguments.", {**_TEXT, "delta": str}),
    (
        "response.function_call_arguments.done",
        "The arguments are whole.",
        {**_TEXT, "name": str, "arguments": str},
    ),
    ("response.custom_tool_call_input.delta", "More of an input.", {**_TEXT, "delta": str}),
    ("response.custom_tool_call_input.done", "The input is whole.", {**_TEXT, "name": str, "input": str}),
    (
        "error",
        "An error; `response.failed` follows.",
        {"code": str, "message": str, "param": str | None, "error": OpenAIError},
    ),
)
"""The type of each event of a stream, what it says, and its fields besides its number."""

ResponseEvent = tagged_union(
    ((kind, says, {"sequence_number": int, **fields}) for kind, says, fields in _EVENTS), __name__
)


class ResponseInputTokens(Struct):
    """How many tokens the prompt of a response has."""

    object: Literal["response.input_tokens"]
    input_tokens: int


class DeletedResponse(Struct):
    """A response was removed."""

    id: str
    object: Literal["response"]
    deleted: Literal[True]


class InputItems(Struct):
    """A page of items, in the form in which they were sent, each with a type and an id."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    has_more: bool
    first_id: str | UnsetType = UNSET
    last_id: str | UnsetType = UNSET
