"""The answers of the model routes, except Responses and Messages."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from gateway.wire.answers.extension import Extension, StreamExtension
from gateway.wire.openai.messages import CustomInput, Function


class CachedTokens(Struct):
    """Tokens of the prompt that were read from the prefix cache."""

    cached_tokens: int


class ReasoningTokens(Struct):
    """Tokens of thoughts."""

    reasoning_tokens: int


class PromptDetails(CachedTokens):
    """Details of a prompt's tokens; writing the cache costs nothing, and no prompt has sound."""

    cache_write_tokens: int
    audio_tokens: int


class OutputDetails(ReasoningTokens):
    """Details of an answer's tokens; no answer has sound or predictions."""

    audio_tokens: int
    accepted_prediction_tokens: int
    rejected_prediction_tokens: int


class Usage(Struct):
    """Token counts over all choices."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: OutputDetails


class TokenLogprob(Struct):
    """A token and its natural log probability under the mask."""

    token: str
    logprob: float
    bytes: list[int]


class TopLogprobs(TokenLogprob):
    """A token with its log probability, and the most probable tokens at its position."""

    top_logprobs: list[TokenLogprob]


class ContentLogprobs(Struct):
    """The log probabilities of the tokens of `content`."""

    content: list[TopLogprobs]
    refusal: None


FinishReason = Literal["stop", "tool_calls", "length"]


class FunctionCall(Struct, tag_field="type", tag="function"):
    """A call of a function; the arguments are JSON text, valid under its schema."""

    id: str
    function: Function


class CustomCall(Struct, tag_field="type", tag="custom"):
    """A call of a custom tool."""

    id: str
    custom: CustomInput


class AnswerMessage(Struct):
    """What the model said and called."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    annotations: list[Any]
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[FunctionCall | CustomCall] | UnsetType = UNSET


class ChatChoice(Struct):
    """One of `n` answers."""

    index: int
    message: AnswerMessage
    logprobs: ContentLogprobs | None
    finish_reason: FinishReason


class ChatCompletion(Struct):
    """A whole answer of Chat Completions."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    service_tier: Literal["default"]
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: Usage
    callgate: Extension


class FunctionPiece(Struct):
    """The name of a function, or more of its arguments."""

    arguments: str
    name: str | UnsetType = UNSET


class CustomPiece(Struct):
    """The name of a custom tool, or more of its input."""

    input: str
    name: str | UnsetType = UNSET


class FunctionDelta(Struct, tag_field="type", tag="function"):
    """More of a call of a function."""

    index: int
    function: FunctionPiece
    id: str | UnsetType = UNSET


class CustomDelta(Struct, tag_field="type", tag="custom"):
    """More of a call of a custom tool."""

    index: int
    custom: CustomPiece
    id: str | UnsetType = UNSET


class Delta(Struct):
    """More of a message; the first has the role, the last is empty."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType | None = UNSET
    refusal: UnsetType | None = UNSET
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[FunctionDelta | CustomDelta] | UnsetType = UNSET


class ChunkChoice(Struct):
    """More of one of `n` answers."""

    index: int
    delta: Delta
    logprobs: ContentLogprobs | None
    finish_reason: FinishReason | None


class ChatChunk(Struct):
    """An event of the stream of Chat Completions; the data of its last is `[DONE]`."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    service_tier: Literal["default"]
    system_fingerprint: str
    choices: list[ChunkChoice]
    usage: Usage | UnsetType | None = UNSET
    callgate: StreamExtension | UnsetType = UNSET  # type: ignore[valid-type]  # made of the other's fields


class TextLogprobs(Struct):
    """Lists over the tokens of a text; offsets are into the answer."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class TextChoice(Struct):
    """One of `n` texts, or more of it."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: FinishReason | None


class TextCompletion(Struct):
    """An answer of Completions, or an event of its stream, whose last holds the usage."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[TextChoice]
    usage: Usage | UnsetType = UNSET
    callgate: StreamExtension | UnsetType = UNSET  # type: ignore[valid-type]  # made of the other's fields


class Tokens(Struct):
    """The token ids of a prompt, and their number."""

    count: int
    max_model_len: int
    tokens: list[int]


class Prompt(Struct):
    """The text of token ids."""

    prompt: str


class InputTokens(Struct):
    """How many tokens a prompt has."""

    input_tokens: int


class ModelSampling(Struct):
    """How the model is sampled, in all that a request leaves out; `top_k` null is all tokens."""

    temperature: float
    top_p: float
    top_k: int | None
    min_p: float
    repetition_penalty: float


class ModelDetails(Struct):
    """The call syntax of a model, the digest of its vocabulary, and its sampling."""

    syntax: str
    vocabulary: str
    sampling: ModelSampling


class Model(Struct):
    """A model that is served; with `:toolset` after its name, it can call the tools of that toolset."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    type: Literal["model"]
    display_name: str
    created_at: str
    lifecycle: Literal["active"]
    max_input_tokens: int
    max_tokens: int
    context_length: int
    callgate: ModelDetails


class ModelList(Struct):
    """The models served."""

    object: Literal["list"]
    data: list[Model]
    has_more: bool
    first_id: str | UnsetType = UNSET
    last_id: str | UnsetType = UNSET


class Engine(Struct):
    """An external engine that runs a model, and counters of its requests."""

    object: Literal["engine"]
    model: str
    engine: str
    circuit: Literal["closed", "open", "trial"]
    reason: str | None
    version: str | None
    running: int
    served: int
    failed: int
    refused_tokens: int
    canary_age_s: float | None


class EngineList(Struct):
    """The external engines."""

    object: Literal["list"]
    data: list[Engine]


class Health(Struct):
    """Whether the process works or can serve."""

    status: Literal["ok", "ready", "failed", "unready"]
    reason: str | UnsetType = UNSET


class Version(Struct):
    """The gateway's version."""

    version: str
