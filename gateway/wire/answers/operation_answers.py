"""The answers of the routes for operators, of API keys, and of the MCP front (messages of JSON-RPC 2.0)."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from runtime.events import ClosedBy


class RequestStep(Struct):
    """A step of a request: when it began, counted from the request's beginning, and how long it took."""

    name: Literal["grammar", "queue", "prefill", "decode"]
    start_ms: float
    duration_ms: float


class RecentRequest(Struct):
    """A request to a model that has ended; null is what it did not reach or its engine does not report."""

    number: int
    id: str
    at: str
    route: str
    status: int | None
    duration_ms: float
    model: str | None
    toolsets: list[str]
    error: str | None
    grammar: str | None
    grammar_source: Literal["memory", "store", "compiled"] | None
    first_token_ms: float | None
    input_tokens: int | None
    output_tokens: int | None
    forced_tokens: int | None
    rescued_tokens: int | None
    mass_removed: float | None
    cached_tokens: int | None
    computed_tokens: int | None
    strategy: Literal["accept", "particles", "draft"] | None
    answers: int | None
    finish_reasons: list[str]
    closed_by: ClosedBy | None
    steps: list[RequestStep]


class RequestPage(Struct):
    """Requests, the newest first; `next` is the `before` of the next page."""

    requests: list[RecentRequest]
    next: int | None
    is_off: bool


class SystemEngine(Struct):
    """An engine; `embedded` is one of this process. Null stands for what an engine does not report."""

    model: str
    engine: str
    is_ready: bool
    reason: str | None
    running: int
    waiting: int | None
    used_pages: int | None
    pages: int | None
    served: int | None
    failed: int | None
    canary_age_s: float | None


class FoundGrammars(Struct):
    """How many grammars of tools and formats requests needed, by the tier of the cache that had them."""

    memory: int
    store: int
    compiled: int


class SystemGrammars(Struct):
    """The grammar cache: what is in memory, and how many schemas wait to be compiled."""

    entries: int
    bytes: int
    waiting: int
    found: FoundGrammars


class SystemTotals(Struct):
    """The totals over all turns of this process."""

    turns: int
    failed: int
    input_tokens: int
    output_tokens: int
    forced_tokens: int
    rescued_tokens: int | None


class System(Struct):
    """What this process does now, and has done since it started."""

    version: str
    unready_reason: str | None
    engines: list[SystemEngine]
    grammars: SystemGrammars
    totals: SystemTotals


class GrammarPart(Struct):
    """A tool's or a format's part of a grammar; null stands for what is unknown once it has left memory.

    `in_store` is null if the store was not asked; it is asked only for the first 100 parts.
    """

    name: str | None
    kind: str
    digest: str | None
    bytes: int | None
    compile_ms: float | None
    in_memory: bool
    in_store: bool | None


class GrammarDetail(Struct):
    """A grammar. A grammar of a single part has its rules as `text`, which is cut if it is long."""

    digest: str
    syntax: str | None
    tool_choice: str | None
    parts: list[GrammarPart]
    text: str | None
    is_cut: bool
    has_guards: bool | None


class StoredKey(Struct):
    """A key without its secret; null means no restriction."""

    id: str
    name: str
    scopes: list[Literal["invoke", "register", "admin"]]
    tenant: str | None
    toolsets: list[str] | None
    models: list[str] | None
    requests_per_minute: int | None
    tokens_per_minute: int | None
    expires_at: str | None
    created_at: str
    is_expired: bool
    old_secret_ends_at: str | None


class NewKey(StoredKey):
    """A key with its secret, which no other answer has."""

    key: str


class KeyList(Struct):
    """Keys, the oldest first; `next` is the `after` of the next page."""

    keys: list[StoredKey]
    next: str | None


class McpError(Struct):
    """An error; `data.code` is its kind if it is one of ours."""

    code: int
    message: str
    data: Any = None


class McpErrorBody(Struct):
    """The answer to a message that failed; without an id, the message was not read."""

    jsonrpc: Literal["2.0"]
    id: str | int | None
    error: McpError


class McpAnswer(Struct):
    """The answer to a message: what the method returns, or an error."""

    jsonrpc: Literal["2.0"]
    id: str | int | None
    result: dict[str, Any] | UnsetType = UNSET
    error: McpError | UnsetType = UNSET
