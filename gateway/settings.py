"""The gateway's settings: their names, types, bounds, defaults and descriptions.

`gateway.setting_sources` says where the values come from; `gateway.settings_table` lists the settings.
"""

import ipaddress
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import platformdirs
from msgspec import Meta

from gateway.sources.outbound import SourceAccess, SourceCredentials
from runtime.selection import MAX_SELECTION
from toolspecs.stores import with_password
from toolspecs.tool import ShownTools

DEMO_MODEL = "demo"
DATABASE = "callgate.db"

Count = Annotated[int, Meta(ge=1)]


def _data_dir() -> str:
    return platformdirs.user_data_dir("callgate", appauthor=False)


EngineName = Literal["embedded", "vllm", "vllm_stock", "sglang", "llama_server"]
EngineURL = Annotated[str, Meta(pattern=r"^https?://[^/\s]+")]


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model; a TOML file may have several, as tables `[[models]]` with these fields.

    The fields mean the same as the settings with the same names. `aliases` are other names under which
    clients ask for the model, such as `gpt-4o`; `*` stands for any text. `engine_headers` are sent to its
    engines. With `engine_seeds` false, clients' seeds are not sent. With `engine_shared_prefixes`, clients
    share prefixes in an engine's cache, which they can notice by response times. `engine_images`: the model
    reads images, and its engine is sent the images of messages. With `engine_units` inline, compiled tools
    are sent to the engine with each request, not through the store.
    """

    model: Annotated[str, Meta(min_length=1)]
    model_name: str | None = None
    aliases: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    syntax: str | None = None
    adapter: str | None = None
    engine: EngineName = "embedded"
    engine_url: tuple[EngineURL, ...] = ()
    engine_model: str | None = None
    engine_key_file: str | None = None
    engine_ca_bundle: str | None = None
    engine_headers: dict[str, str] = {}
    engine_seeds: bool = True
    engine_shared_prefixes: bool = False
    engine_images: bool = False
    engine_units: Literal["store", "inline"] = "store"
    tokenizer: str | None = None
    prompt_tools: ShownTools = ShownTools.ALL
    tool_search: Count | None = None


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be configured; `gateway.setting_sources.load` says where the values come from."""

    host: Annotated[str, Meta(description="Address to listen on; any but loopback needs an API key.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Meta(ge=0, le=65535, description="Port to listen on; 0 takes a free one.")] = 8080
    model: Annotated[
        str,
        Meta(
            min_length=1,
            description="Model to serve: a directory, a GGUF file, a hub id, `demo` or `tiny` (bundled),"
            " `smollm2`, `smollm2-base`, or `random`.",
        ),
    ] = DEMO_MODEL
    adapter: Annotated[
        str | None,
        Meta(description="Directory of a LoRA adapter in peft's format, merged into the model."),
    ] = None
    model_name: Annotated[
        str | None,
        Meta(description="Name under which the model is served; by default the last part of `model`."),
    ] = None
    syntax: Annotated[
        str | None,
        Meta(description="Syntax of tool calls (hermes, llama3, …); by default that of the chat template."),
    ] = None
    engine: Annotated[
        EngineName,
        Meta(
            description="What runs the model: embedded, in this process; or at `engine_url` vllm or sglang,"
            " with the plugin, vllm_stock, without it, or llama_server, as llama.cpp ships it."
        ),
    ] = "embedded"
    engine_url: Annotated[
        tuple[EngineURL, ...],
        Meta(
            description="URL of the engine's server, such as http://host:8000. Several, with commas between"
            " them or by repeating the option, are replicas."
        ),
    ] = ()
    engine_model: Annotated[
        str | None,
        Meta(description="Name of the model at its engine; by default the only one that is served there."),
    ] = None
    engine_key_file: Annotated[
        str | None, Meta(description="File with the API key that is sent to the engine.")
    ] = None
    engine_ca_bundle: Annotated[
        str | None, Meta(description="File of the certificates by which the engine is known.")
    ] = None
    tokenizer: Annotated[
        str | None,
        Meta(description="Tokenizer and chat template for an engine elsewhere; by default those of `model`."),
    ] = None
    prompt_tools: Annotated[
        ShownTools,
        Meta(
            description="Tools whose definitions the prompt shows, unless a request says: all, allowed (those"
            " that the tool choice allows), none."
        ),
    ] = ShownTools.ALL
    tool_search: Annotated[
        Count | None,
        Meta(
            description="Most tools that the prompt shows, unless a request or a toolset says: those that the"
            " conversation calls for. By default all are shown."
        ),
    ] = None
    tool_embeddings: Annotated[
        str | None,
        Meta(
            description="Model by which tool search also finds tools in other words than their own: `minilm`,"
            " once its package is installed, or the directory of a sentence-embedding model. By default,"
            " words alone decide."
        ),
    ] = None
    device: Annotated[str, Meta(description="Device the model runs on: auto, cpu, cuda, cuda:1, ….")] = "auto"
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16", "float64"],
        Meta(description="Type of the weights: auto, float32, bfloat16, float16, float64."),
    ] = "auto"
    max_batch: Annotated[int, Meta(ge=1, description="Sequences decoded together.")] = 16
    max_waiting: Annotated[int, Meta(ge=1, description="Requests queued before new ones get 429.")] = 256
    max_sequences_per_key: Annotated[
        int,
        Meta(
            ge=1,
            description="Sequences of one API key (without keys: of one address), running or queued, before"
            " it gets 429; a request has one for each of its `n` choices.",
        ),
    ] = 128
    kv_bytes: Annotated[int, Meta(ge=1 << 20, description="Memory for the KV cache, in bytes.")] = 512 << 20
    context_length: Annotated[
        Annotated[int, Meta(ge=16)] | None,
        Meta(description="Longest prompt and answer together, in tokens; by default the model's."),
    ] = None
    default_max_tokens: Annotated[
        Count | None,
        Meta(
            description="Token budget of a request that sets none; by default 512 for the models that have a"
            " name here, which ramble, and 2048 for others."
        ),
    ] = None
    num_threads: Annotated[
        Count | None,
        Meta(description="Threads for a model on the CPU; by default the cores that it may use."),
    ] = None
    jump_forward: Annotated[
        bool,
        Meta(
            description="Write text that the grammar forces at once, instead of sampling it token by token."
        ),
    ] = True
    accept: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_SELECTION,
            description="Answers of which one is accepted as the model would have written it, above"
            " temperature 0, where it is not streamed and the request does not say; 1 is plain masking.",
        ),
    ] = 1
    particles: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_SELECTION,
            description="Answers that are drawn together for the same purpose, instead of `accept`.",
        ),
    ] = 1
    draft: Annotated[
        bool,
        Meta(
            description="Let the model write freely first, where the answer is not streamed and the request"
            " does not say; what is not valid is written anew under the mask."
        ),
    ] = False
    request_seconds: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Longest time for an answer, in seconds; a request may ask for less."),
    ] = None
    max_choices: Annotated[int, Meta(ge=1, description="Largest `n` of one request.")] = 16
    data_dir: Annotated[
        str,
        Meta(min_length=1, description="Folder for the gateway's own files: its database and its secret."),
    ] = msgspec.field(default_factory=_data_dir)
    store: Annotated[
        str | None,
        Meta(
            description="Where toolsets are stored: sqlite://PATH in an existing folder, or redis://HOST/DB;"
            " by default a file in data_dir."
        ),
    ] = None
    store_password: Annotated[
        str | None,
        Meta(description="Password of the Redis in `store`, if its URL holds none; it is not escaped."),
    ] = None
    store_revisions: Annotated[
        int, Meta(ge=1, description="Revisions of each toolset that are kept, and those that requests name.")
    ] = 50
    store_deleted_days: Annotated[
        float, Meta(ge=0, description="Days for which a deleted toolset can be restored.")
    ] = 30.0
    quota_bytes: Annotated[
        int,
        Meta(
            ge=1 << 20,
            description="Most bytes of revisions that one API key may store, compressed; without keys, all"
            " clients together.",
        ),
    ] = 1 << 30
    quota_toolsets: Annotated[
        int, Meta(ge=1, description="Most toolsets of one API key; without keys, of all clients together.")
    ] = 1000
    grammar_cache_bytes: Annotated[int, Meta(ge=0, description="Memory for compiled grammars, in bytes.")] = (
        512 << 20
    )
    compile_workers: Annotated[
        int,
        Meta(
            ge=0,
            description="Worker processes that compile schemas; 0 compiles in the gateway's own process,"
            " without limits on time and memory.",
        ),
    ] = 4
    compile_seconds: Annotated[
        float,
        Meta(gt=0, description="Most processor time to compile one schema, in seconds."),
    ] = 3.0
    compile_request_seconds: Annotated[
        float,
        Meta(
            gt=0,
            description="Most time that one request may spend compiling, in seconds.",
        ),
    ] = 120.0
    compile_bytes: Annotated[
        int, Meta(ge=1 << 26, description="Most memory to compile one schema, in bytes.")
    ] = 512 << 20
    secret: Annotated[
        Annotated[str, Meta(min_length=16)] | None,
        Meta(
            description="Key that signs stored grammars; gateways that share a store need the same."
            " By default one is made and kept in `data_dir`.",
        ),
    ] = None
    api_key: Annotated[
        Annotated[str, Meta(min_length=8)] | None,
        Meta(
            description="Key that clients send as `Authorization: Bearer KEY`. The list of processes shows an"
            " option to everyone on the machine; prefer `api_key_file`."
        ),
    ] = None
    api_key_file: Annotated[
        str | None, Meta(description="File of API keys, one per line; `#` begins a comment.")
    ] = None
    require_keys: Annotated[
        bool,
        Meta(
            description="Ask clients for API keys also without `api_key` and `api_key_file`: for keys of the"
            " store, which `callgate keys` and /v1/keys make."
        ),
    ] = False
    source_token: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(
            description="Bearer token for sources of tools. `callgate tools import` sends it to the source"
            " that it reads, a gateway to those in `source_origins` only."
        ),
    ] = None
    source_client_id: Annotated[
        str | None,
        Meta(description="Id of an OAuth client, by which MCP servers are read in place of `source_token`."),
    ] = None
    source_client_secret: Annotated[
        str | None, Meta(description="Secret of the OAuth client; it is sent to `source_issuer` only.")
    ] = None
    source_issuer: Annotated[
        Annotated[str, Meta(pattern=r"^https?://[^/\s]+")] | None,
        Meta(description="URL of the authorization server that knows the OAuth client."),
    ] = None
    source_origins: Annotated[
        str | None,
        Meta(
            description="Origins, such as https://tools.example, to which a gateway shows `source_token` or"
            " the token of its OAuth client when it imports tools; with commas between them. Whoever may"
            " register can then import what these show to the gateway."
        ),
    ] = None
    source_networks: Annotated[
        str | None,
        Meta(
            description="Networks, such as 10.1.0.0/16, from which a gateway imports tools besides public"
            " addresses; with commas between them."
        ),
    ] = None
    cors_origins: Annotated[
        str | None,
        Meta(
            description="Origins whose web pages may call, such as https://app.example, separated by commas;"
            " * for all, which needs API keys."
        ),
    ] = None
    response_seconds: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds for which responses are stored, for `previous_response_id`; 0 stores none.",
        ),
    ] = 86_400.0
    response_bytes: Annotated[
        int,
        Meta(
            ge=1 << 20,
            description="Most bytes of stored responses of one API key, compressed; the oldest are dropped.",
        ),
    ] = 64 << 20
    strict_fields: Annotated[
        bool,
        Meta(
            description="Refuse requests with unknown fields and with hints for other servers, instead of"
            " leaving these fields out and naming them in the header X-Callgate-Ignored."
        ),
    ] = False
    allowed_hosts: Annotated[
        str | None,
        Meta(
            description="Hosts by which clients may call, separated by commas, such as gateway.example:8443."
            " Loopback's names are always allowed; without this setting and without keys, only these are."
        ),
    ] = None
    trusted_proxies: Annotated[
        str | None,
        Meta(
            description="Addresses or networks of proxies whose X-Forwarded-For tells clients apart, where"
            " there are no API keys; with commas between them."
        ),
    ] = None
    max_connections: Annotated[
        int, Meta(ge=1, description="Most connections; one more closes the one that is unused for longest.")
    ] = 512
    head_seconds: Annotated[
        float, Meta(gt=0, description="Longest time for the head of a request to come, in seconds.")
    ] = 10.0
    body_seconds: Annotated[
        float, Meta(gt=0, description="Longest time for the body of a request to come, in seconds.")
    ] = 60.0
    stall_seconds: Annotated[
        float, Meta(gt=0, description="Longest time for which a client may not read its answer, in seconds.")
    ] = 60.0
    idle_seconds: Annotated[
        int,
        Meta(ge=1, description="Longest time that a connection may wait for its next request, in seconds."),
    ] = 5
    drain_seconds: Annotated[
        float,
        Meta(ge=0, description="Seconds that running answers may go on once the gateway is told to end."),
    ] = 5.0
    max_body_bytes: Annotated[int, Meta(ge=1024, description="Largest request body, in bytes.")] = 4_000_000
    max_toolset_bytes: Annotated[
        int, Meta(ge=1024, description="Largest body that registers or checks tools, in bytes.")
    ] = 4_000_000
    max_body_values: Annotated[
        int, Meta(ge=1024, description="Most JSON values in a body: objects, arrays, and what is in them.")
    ] = 250_000
    max_large_bodies: Annotated[
        int,
        Meta(ge=1, description="Most bodies of over 100 kB in memory at once; half of them of one client."),
    ] = 16
    telemetry: Annotated[
        Literal["none", "console", "otlp"],
        Meta(description="Where traces go: none, console, otlp. With otlp, metrics go there too."),
    ] = "none"
    otlp_endpoint: Annotated[
        Annotated[str, Meta(pattern=r"^https?://[^/\s]+")] | None,
        Meta(description="URL for traces, such as http://localhost:4318/v1/traces."),
    ] = None
    otlp_metrics_endpoint: Annotated[
        Annotated[str, Meta(pattern=r"^https?://[^/\s]+")] | None,
        Meta(description="URL for metrics; by default that for traces, with metrics instead of traces."),
    ] = None
    otlp_protocol: Annotated[
        Literal["http", "grpc"], Meta(description="How traces and metrics are sent: http, grpc.")
    ] = "http"
    console: Annotated[bool, Meta(description="Show the web console at /console.")] = True
    recent_requests: Annotated[
        int,
        Meta(
            ge=0,
            le=10_000,
            description="Requests to models whose timings are kept in memory, without content, for"
            " /v1/requests and the console; 0 keeps none.",
        ),
    ] = 500
    metrics: Annotated[
        bool, Meta(description="Measure requests, masks, grammars and engines, and show this at /metrics.")
    ] = True
    metrics_key_file: Annotated[
        str | None,
        Meta(
            description="File of keys, one per line, that open /metrics and nothing else; then no other key"
            " opens it."
        ),
    ] = None
    metrics_toolsets: Annotated[
        bool,
        Meta(description="Label metrics with the names of toolsets, which clients choose; the first 100."),
    ] = False
    genai_conventions: Annotated[
        Literal["1.36", "1.37"],
        Meta(description="Version of the GenAI semantic conventions for spans."),
    ] = "1.37"
    capture_content: Annotated[
        bool, Meta(description="Record prompts and arguments in traces; they may hold personal data.")
    ] = False
    content_redactor: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")] | None,
        Meta(
            description="Python function, as module:function, that captured content passes: it gets the"
            " attribute's name and text, and returns the text to record, or None."
        ),
    ] = None
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="Least severe log level that is written."),
    ] = "info"
    log_format: Annotated[Literal["text", "json"], Meta(description="Format of the log: text or json.")] = (
        "text"
    )
    access_log: Annotated[
        bool, Meta(description="Log a line for each request but probes: route, status, time, key, trace.")
    ] = True

    models: tuple[ModelSettings, ...] = ()
    """Several models instead of `model` and the settings of its engine; only a TOML file can have them."""

    @property
    def served_models(self) -> tuple[ModelSettings, ...]:
        """The models to serve."""
        shared = (name for name in ModelSettings.__struct_fields__ if name in self.__struct_fields__)
        return self.models or (ModelSettings(**{name: getattr(self, name) for name in shared}),)

    @property
    def store_url(self) -> str:
        """The URL of the store with its password; by default a file in `data_dir`."""
        return with_password(self.store or f"sqlite://{Path(self.data_dir, DATABASE)}", self.store_password)

    @property
    def source_access(self) -> SourceAccess:
        """Where the gateway may import tools from, and its credentials there; raises SettingsError."""
        return SourceAccess(self.source_networks or "", self.source_credentials, self.source_origins or "")

    @property
    def source_credentials(self) -> SourceCredentials:
        """The credentials that are sent to sources of tools."""
        return SourceCredentials(
            self.source_token, self.source_client_id, self.source_client_secret, self.source_issuer
        )

    @property
    def shares_store(self) -> bool:
        """Whether other gateways can use the store too."""
        return not self.store_url.startswith("sqlite:")

    @property
    def metrics_endpoint(self) -> str | None:
        """The URL that metrics are sent to; None if these settings do not determine one."""
        if self.otlp_metrics_endpoint or not self.otlp_endpoint:
            return self.otlp_metrics_endpoint
        base, separator, rest = self.otlp_endpoint.rpartition("/v1/traces")
        return f"{base}/v1/metrics" if separator and not rest.strip("/") else self._shared_endpoint

    @property
    def sends_metrics(self) -> bool:
        """Whether metrics can be sent; False if the URL for traces determines none for metrics."""
        return self.metrics_endpoint is not None or self.otlp_endpoint is None

    @property
    def _shared_endpoint(self) -> str | None:
        """The URL for traces if metrics go there too: with gRPC, as its URLs have no paths."""
        return self.otlp_endpoint if self.otlp_protocol == "grpc" else None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def has_authentication(self) -> bool:
        """Whether clients need an API key."""
        return self.require_keys or self.has_configured_keys

    @property
    def has_configured_keys(self) -> bool:
        """Whether the settings themselves have API keys."""
        return self.api_key is not None or self.api_key_file is not None
