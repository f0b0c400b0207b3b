"""What each route takes and answers, by the name of its handler.

The errors are rows of the table of statuses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler import errors as compiler
from gateway import errors as gateway
from gateway.wire.answers import message_answers as messages
from gateway.wire.answers import model_answers as models
from gateway.wire.answers import operation_answers as operations
from gateway.wire.answers import registry_answers as registry
from gateway.wire.answers import response_answers as responses
from runtime import errors as runtime
from toolspecs import errors as toolspecs

Errors = tuple[type[Exception], ...]

ANY_REQUEST: Errors = (
    gateway.MalformedHead,
    gateway.ForeignHost,
    gateway.ForeignPage,
    gateway.StillLoading,
)
WITH_KEY: Errors = (gateway.Unauthorized, gateway.Forbidden, gateway.KeysUnavailable, gateway.RateLimited)
WITH_BODY: Errors = (
    gateway.MalformedBody,
    gateway.UnreadableBody,
    gateway.LargeBody,
    gateway.EncodedBody,
    gateway.TooManyBodies,
    gateway.TooMuchHeld,
    gateway.InvalidField,
    gateway.ClientGone,
)
WITH_STORE: Errors = (toolspecs.StoreError, toolspecs.DamagedEntry)
WITH_TOOLSET: Errors = (
    *WITH_STORE,
    toolspecs.InvalidName,
    toolspecs.UnknownToolset,
    toolspecs.ForbiddenToolset,
    toolspecs.UnknownRevision,
    toolspecs.DroppedRevision,
)
COMPILING: Errors = (
    compiler.UnsupportedSchema,
    compiler.WorkersUnavailable,
    compiler.CompilerOverloaded,
    compiler.TooManyCompilations,
    compiler.TooManyGrammars,
    compiler.CompilingUnfinished,
)
PROMPTING: Errors = (
    *WITH_TOOLSET,
    gateway.NoEffect,
    gateway.ToolsetConflict,
    gateway.TooManyTools,
    gateway.NotReady,
    toolspecs.InvalidTools,
    toolspecs.LimitExceeded,
    runtime.UnknownModel,
    runtime.PromptTooLong,
    runtime.RequestRefused,
    runtime.Overloaded,
    runtime.DeadlineExceeded,
    runtime.EngineStopped,
    runtime.NoEngine,
    runtime.EngineFault,
    runtime.EngineRefused,
    runtime.EngineFull,
    runtime.PluginMissing,
)
GENERATING: Errors = (
    *PROMPTING,
    *COMPILING,
    gateway.RefusedTool,
    runtime.BudgetTooSmall,
    runtime.TooManySequences,
    runtime.GenerationFailed,
)
WRITING: Errors = (
    gateway.InvalidField,
    toolspecs.StaleRevision,
    toolspecs.QuotaExceeded,
    toolspecs.StoreFull,
)
REGISTERING: Errors = (*COMPILING, toolspecs.InvalidTools, toolspecs.LimitExceeded)
READING_SOURCES: Errors = (toolspecs.UnreadableSource, gateway.TooManyImports, gateway.ExtraMissing)

IF_MATCH = "If-Match"
IF_NONE_MATCH = "If-None-Match"
TIMEOUT = "X-Request-Timeout"
TOOLSET = "X-Toolset"

HEADERS: Mapping[str, str] = {
    IF_MATCH: "ETags, one of which the current revision must have.",
    IF_NONE_MATCH: "For `PUT` only `*`: create, but do not replace. For `GET` ETags that the client knows.",
    TIMEOUT: "Seconds until the whole answer must be ready.",
    TOOLSET: "Names of toolsets, separated by commas.",
}

HEADER_SCHEMAS: Mapping[str, Mapping[str, Any]] = {TIMEOUT: {"type": "number", "exclusiveMinimum": 0}}
"""The schemas of headers that do not take any text."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What a route takes and answers.

    `answers` has the struct of each status; None is an answer without a body. `events` are those of the
    stream, if the request asks for one. `errors` are in the document besides those of any request, of keys
    and, if there is a `body`, of bodies. `body` is the name of a request's component; clients may leave out
    the body if it `has_optional_body`.
    """

    tag: str
    answers: Mapping[int, Any]
    errors: Errors
    body: str | None = None
    has_optional_body: bool = False
    events: tuple[Any, ...] = ()
    headers: tuple[str, ...] = ()
    has_etag: bool = False
    media_type: str = "application/json"


def _model(answer: Any, body: str, *errors: type[Exception], **fields: Any) -> Operation:
    all_errors = (*GENERATING, *errors)
    return Operation("Models", {200: answer}, all_errors, body, headers=(TOOLSET, TIMEOUT), **fields)


def _prompt(answer: Any, body: str, *errors: type[Exception]) -> Operation:
    return Operation("Models", {200: answer}, (*PROMPTING, *errors), body, headers=(TOOLSET, TIMEOUT))


@dataclass(frozen=True, slots=True)
class _Toolsets:
    """Rows of the registry's routes."""

    errors: Errors = field(default=(*WITH_TOOLSET, toolspecs.UnknownTool, gateway.InvalidField))

    def reading(self, answer: Any, *errors: type[Exception], statuses: Any = (), **fields: Any) -> Operation:
        answers = {200: answer, **dict.fromkeys(statuses)}
        return Operation("Toolsets", answers, (*self.errors, *errors), **fields)

    def writing(self, answers: Mapping[int, Any], *errors: type[Exception], **fields: Any) -> Operation:
        all_errors = (*self.errors, *WRITING, *errors)
        return Operation(
            "Toolsets", answers, all_errors, **{"has_etag": True, "headers": (IF_MATCH,), **fields}
        )


_TOOLSETS = _Toolsets()
_BOTH = (IF_MATCH, IF_NONE_MATCH)

OPERATIONS: Mapping[str, Operation] = {
    "chat_completions": _model(
        models.ChatCompletion, "ChatRequest", events=(models.ChatChunk, registry.OpenAIErrorBody)
    ),
    "create_response": _model(
        responses.Response, "ResponseRequest", gateway.UnknownPrevious, events=(responses.ResponseEvent,)
    ),
    "count_response_tokens": _prompt(
        responses.ResponseInputTokens, "ResponseRequest", gateway.UnknownPrevious
    ),
    "get_response": Operation(
        "Models",
        {200: responses.Response},
        (gateway.UnknownResponse, toolspecs.StoreError, gateway.InvalidField),
    ),
    "delete_response": Operation(
        "Models", {200: responses.DeletedResponse}, (gateway.UnknownResponse, toolspecs.StoreError)
    ),
    "list_input_items": Operation(
        "Models",
        {200: responses.InputItems},
        (gateway.UnknownResponse, toolspecs.StoreError, gateway.InvalidField),
    ),
    "create_message": _model(
        messages.Message, "MessageRequest", events=(messages.MessageEvent, registry.AnthropicErrorBody)
    ),
    "count_message_tokens": _prompt(models.InputTokens, "MessageRequest"),
    "text_completions": _model(
        models.TextCompletion, "CompletionRequest", events=(models.TextCompletion, registry.OpenAIErrorBody)
    ),
    "tokenize": _prompt(models.Tokens, "TokenizeRequest"),
    "detokenize": Operation("Models", {200: models.Prompt}, (runtime.UnknownModel,), "DetokenizeRequest"),
    "list_models": Operation(
        "Models",
        {200: models.ModelList},
        (toolspecs.DamagedEntry, runtime.UnknownModel, gateway.InvalidField),
    ),
    "get_model": Operation(
        "Models", {200: models.Model}, (*WITH_TOOLSET, runtime.UnknownModel, gateway.InvalidField)
    ),
    "list_engines": Operation("Models", {200: models.EngineList}, ()),
    "list_toolsets": _TOOLSETS.reading(registry.ToolsetPage),
    "get_toolset": _TOOLSETS.reading(
        registry.StoredToolset, statuses=(304,), headers=(IF_NONE_MATCH,), has_etag=True
    ),
    "put_toolset": _TOOLSETS.writing(
        {200: registry.Registration, 201: registry.Registration},
        *REGISTERING,
        body="ToolsetRequest",
        headers=_BOTH,
    ),
    "delete_toolset": _TOOLSETS.writing({204: None}, has_etag=False),
    "list_tools": _TOOLSETS.reading(registry.ToolPage),
    "get_tool": _TOOLSETS.reading(dict[str, Any], has_etag=True),
    "put_tool": _TOOLSETS.writing(
        {200: registry.Registration}, *REGISTERING, body="AnyToolDefinition", headers=_BOTH
    ),
    "delete_tool": _TOOLSETS.writing({200: registry.RevisionSummary}),
    "list_revisions": _TOOLSETS.reading(registry.RevisionPage),
    "get_revision": _TOOLSETS.reading(registry.StoredToolset, has_etag=True),
    "changes": _TOOLSETS.reading(registry.Changes, *COMPILING),
    "restore": _TOOLSETS.writing({200: registry.RevisionSummary}, *WITH_BODY),
    "report": _TOOLSETS.reading(registry.Report, *COMPILING),
    "check": _TOOLSETS.reading(registry.Check, *REGISTERING, body="ToolsetRequest"),
    "mcp_message": Operation(
        "Toolsets",
        {200: operations.McpAnswer, 202: None, 406: operations.McpAnswer},
        (*WITH_TOOLSET, gateway.WrongMediaType, gateway.ExtraMissing),
        "McpMessage",
    ),
    "import_tools": _TOOLSETS.writing(
        {200: registry.Import, 201: registry.Import}, *REGISTERING, *READING_SOURCES, body="ImportRequest"
    ),
    "list_differences": _TOOLSETS.reading(registry.Differences, *COMPILING, has_etag=True),
    "accept_tools": _TOOLSETS.writing(
        {200: registry.Registration}, *REGISTERING, body="DecisionRequest", has_optional_body=True
    ),
    "decline_tools": _TOOLSETS.writing(
        {200: registry.RevisionSummary}, body="DecisionRequest", has_optional_body=True
    ),
    "create_key": Operation(
        "Keys",
        {201: operations.NewKey},
        (gateway.TooManyKeys, toolspecs.StoreError, toolspecs.StoreFull),
        "KeyRequest",
    ),
    "list_keys": Operation(
        "Keys", {200: operations.KeyList}, (gateway.UnknownKey, gateway.InvalidField, toolspecs.StoreError)
    ),
    "get_key": Operation("Keys", {200: operations.StoredKey}, (gateway.UnknownKey, toolspecs.StoreError)),
    "rotate_key": Operation(
        "Keys",
        {200: operations.NewKey},
        (gateway.UnknownKey, toolspecs.StoreError, toolspecs.StoreFull),
        "RotationRequest",
        has_optional_body=True,
    ),
    "revoke_key": Operation("Keys", {204: None}, (gateway.UnknownKey, toolspecs.StoreError)),
    "healthz": Operation("Operations", {200: models.Health, 503: models.Health}, ()),
    "readyz": Operation("Operations", {200: models.Health, 503: models.Health}, ()),
    "list_requests": Operation("Operations", {200: operations.RequestPage}, (gateway.InvalidField,)),
    "get_request": Operation(
        "Operations", {200: operations.RecentRequest}, (gateway.UnknownRequest, gateway.InvalidField)
    ),
    "system": Operation("Operations", {200: operations.System}, (gateway.InvalidField,)),
    "get_grammar": Operation(
        "Operations", {200: operations.GrammarDetail}, (gateway.UnknownGrammar, gateway.InvalidField)
    ),
    "metrics": Operation("Operations", {200: str}, (gateway.NoMetrics,), media_type="text/plain"),
    "version": Operation("Operations", {200: models.Version}, ()),
}
