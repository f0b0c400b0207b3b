"""The answers of the routes of Responses, and the events of their streams."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from gateway.wire.answers.extension import Extension
from gateway.wire.answers.model_answers import CachedTokens, ReasoningTokens, TopLogprobs

Status = Literal["in_progress", "completed", "incomplete"]


class OutputTextPart(Struct, tag_field="type", tag="output_text"):
    """What the model said."""

    text: str
    annotations: list[Any]
    logprobs: list[TopLogprobs]


class ReasoningTextPart(Struct, tag_field="type", tag="reasoning_text"):
    """What the model thought."""

    text: str


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


class _Event(Struct, kw_only=True, tag_field="type"):
    sequence_number: int


class ResponseCreated(_Event, tag="response.created"):
    """The response begins."""

    response: Response


class ResponseInProgress(_Event, tag="response.in_progress"):
    """The response is being written."""

    response: Response


class ResponseCompleted(_Event, tag="response.completed"):
    """The response is whole."""

    response: Response


class ResponseIncomplete(_Event, tag="response.incomplete"):
    """The budget ran out."""

    response: Response


class ResponseFailed(_Event, tag="response.failed"):
    """An error ended the response."""

    response: Response


class _ItemEvent(_Event):
    output_index: int


class ItemAdded(_ItemEvent, tag="response.output_item.added"):
    """An item begins."""

    item: OutputItem


class ItemDone(_ItemEvent, tag="response.output_item.done"):
    """An item is whole."""

    item: OutputItem


class _TextEvent(_ItemEvent):
    item_id: str


class _PartEvent(_TextEvent):
    content_index: int


class PartAdded(_PartEvent, tag="response.content_part.added"):
    """A part begins."""

    part: OutputTextPart | ReasoningTextPart


class PartDone(_PartEvent, tag="response.content_part.done"):
    """A part is whole."""

    part: OutputTextPart | ReasoningTextPart


class OutputTextDelta(_PartEvent, tag="response.output_text.delta"):
    """More text of a message."""

    delta: str
    logprobs: list[TopLogprobs]


class OutputTextDone(_PartEvent, tag="response.output_text.done"):
    """The text of a message is whole."""

    text: str
    logprobs: list[TopLogprobs]


class ReasoningTextDelta(_PartEvent, tag="response.reasoning_text.delta"):
    """More of a thought."""

    delta: str


class ReasoningTextDone(_PartEvent, tag="response.reasoning_text.done"):
    """A thought is whole."""

    text: str


class ArgumentsDelta(_TextEvent, tag="response.function_call_arguments.delta"):
    """More JSON text of arguments."""

    delta: str


class ArgumentsDone(_TextEvent, tag="response.function_call_arguments.done"):
    """The arguments are whole."""

    name: str
    arguments: str


class InputDelta(_TextEvent, tag="response.custom_tool_call_input.delta"):
    """More of an input."""

    delta: str


class InputDone(_TextEvent, tag="response.custom_tool_call_input.done"):
    """The input is whole."""

    name: str
    input: str


ResponseEvent = (
    ResponseCreated
    | ResponseInProgress
    | ResponseCompleted
    | ResponseIncomplete
    | ResponseFailed
    | ItemAdded
    | ItemDone
    | PartAdded
    | PartDone
    | OutputTextDelta
    | OutputTextDone
    | ReasoningTextDelta
    | ReasoningTextDone
    | ArgumentsDelta
    | ArgumentsDone
    | InputDelta
    | InputDone
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
